// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/agree.h"

#include <array>
#include <string>

#include "framework/base/check.h"

namespace tessera {
namespace {

// "<exit code> <message>" of an exception; empty for none.
std::string described(const std::exception_ptr& failure) {
  if (!failure) return {};
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return fmt::format("{} {}", static_cast<int>(error.code()), error.what());
  } catch (const std::exception& error) {
    return fmt::format("{} {}", static_cast<int>(ExitCode::Communication), error.what());
  } catch (...) {
    return fmt::format("{} unknown exception", static_cast<int>(ExitCode::Communication));
  }
}

}  // namespace

void agree_on(Communicator& world, const std::exception_ptr& failure) {
  if (world.size() == 1) {
    if (failure) std::rethrow_exception(failure);
    return;
  }
  std::array<int64_t, 1> failed{failure ? 1 : 0};
  world.all_reduce_host(std::span<int64_t>(failed), Reduce::Max);
  if (failed[0] == 0) return;
  const std::vector<std::string> messages = world.all_gather_host(described(failure));
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].empty()) continue;
    const size_t space = messages[rank].find(' ');
    const auto code = static_cast<ExitCode>(std::stoi(messages[rank].substr(0, space)));
    fail(code, "rank {}: {}", rank, messages[rank].substr(space + 1));
  }
  fail(ExitCode::Communication, "ranks disagree on whether one of them failed");
}

void agree(Communicator& world, const std::function<void()>& work) {
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  agree_on(world, failure);
}

}  // namespace tessera
