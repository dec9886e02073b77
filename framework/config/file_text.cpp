// SPDX-License-Identifier: Apache-2.0
#include "framework/config/file_text.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "framework/config/document.h"

namespace tessera::config {

namespace fs = std::filesystem;

FileText read_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return {{}, "no such file"};
  // A device or a pipe could go on for ever.
  if (!fs::is_regular_file(status)) return {{}, "not a file"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return {{}, std::strerror(errno)};
  // A file of /proc has no size and may have no end: one byte more than a config may have is enough.
  std::string text(kLongestText + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return {{}, "it cannot be read"};
  text.resize(static_cast<size_t>(file.gcount()));
  return {std::move(text), {}};
}

}  // namespace tessera::config
