// SPDX-License-Identifier: Apache-2.0
// Work whose waits count in a rank's timeline, and which leaves a span of its own in a trace.
#pragma once
#include <string>

#include "framework/comm/communicator.h"

namespace tessera {

// `timeline` outlives the work. `detail` says what it is, and `start` when it was asked for, before that;
// empty: it leaves no span.
Work timed(Work work, Timeline& timeline, std::string detail, double start);

}  // namespace tessera
