// SPDX-License-Identifier: Apache-2.0
// How each collective moves its data over messages.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/mpi/operation.h"

namespace tessera::messages {

// For the kind of the operation's call, Host excepted.
std::unique_ptr<Algorithm> make_algorithm(Operation& operation);

std::unique_ptr<Algorithm> make_exchange(Operation& operation);

// `parts` gets every rank's bytes, its own included.
std::unique_ptr<Algorithm> make_host_gather(Operation& operation, std::string bytes,
                                            std::shared_ptr<std::vector<std::string>> parts);

}  // namespace tessera::messages
