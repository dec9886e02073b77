// SPDX-License-Identifier: Apache-2.0
// The content of a file that a config names or is.
#pragma once
#include <filesystem>
#include <string>

namespace tessera::config {

// The text, or the reason why there is none.
struct FileText {
  std::string text;
  std::string problem;
};

// At most kLongestText bytes and one more, by which a longer file is known.
FileText read_file(const std::filesystem::path& path);

}  // namespace tessera::config
