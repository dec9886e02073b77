// SPDX-License-Identifier: Apache-2.0
#include "framework/base/check.h"

namespace tessera {
namespace {

std::string without_controls(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
      shown += fmt::format("\\x{:02x}", byte);
    else
      shown += c;
  }
  return shown;
}

}  // namespace

Error::Error(ExitCode code, std::string_view message)
    : std::runtime_error(without_controls(message)), code_(code) {}

namespace detail {

void check_failed(ExitCode code, const char* condition, const char* file, int line,
                  const std::string& message) {
  // A message to a user names the user's place, not ours: the source position is only for internal faults.
  if (code != ExitCode::Communication) throw Error(code, message);
  std::string_view path(file);
  if (const size_t at = path.rfind("framework/"); at != std::string_view::npos) path.remove_prefix(at);
  throw Error(code, fmt::format("{} [{} at {}:{}]", message, condition, path, line));
}

}  // namespace detail
}  // namespace tessera
