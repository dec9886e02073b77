// SPDX-License-Identifier: Apache-2.0
// A communicator over any message layer.
#pragma once
#include <memory>

#include "framework/comm/mpi/message_layer.h"
#include "framework/comm/patience.h"
#include "framework/comm/transport.h"

namespace tessera::messages {

// The world of all ranks of the layer, which is made, used and ended by a progress thread.
std::unique_ptr<Communicator> make_message_world(const MakeMessageLayer& make_layer, Backend& backend,
                                                 Patience patience);

}  // namespace tessera::messages
