// SPDX-License-Identifier: Apache-2.0
#include "framework/base/check.h"

#include <string_view>

namespace tessera::detail {

void check_failed(ExitCode code, const char* condition, const char* file, int line,
                  const std::string& message) {
  // A message to a user names the user's place, not ours: the source position is only for internal faults.
  if (code != ExitCode::Communication) throw Error(code, message);
  std::string_view path(file);
  if (const size_t at = path.rfind("framework/"); at != std::string_view::npos) path.remove_prefix(at);
  throw Error(code, fmt::format("{} [{} at {}:{}]", message, condition, path, line));
}

}  // namespace tessera::detail
