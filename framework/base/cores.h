// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tessera {

// Cores that this process may run on: those of its affinity mask, at least 1.
int available_cores();

}  // namespace tessera
