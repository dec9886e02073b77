// SPDX-License-Identifier: Apache-2.0
// Agreement on failure: a fault on one rank becomes the same exception on all of them, so that no rank
// waits in a collective that another will never enter.
#pragma once
#include <exception>
#include <functional>

#include "framework/comm/communicator.h"

namespace tessera {

// Collective. Runs `work` on every rank; when it throws on any, every rank throws the error of the lowest
// rank that failed. `work` itself must make no collective calls.
void agree(Communicator& world, const std::function<void()>& work);

// Collective. The same, for work that is done: `failure` is this rank's exception or null.
void agree_on(Communicator& world, const std::exception_ptr& failure);

}  // namespace tessera
