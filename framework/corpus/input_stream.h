// SPDX-License-Identifier: Apache-2.0
// The bytes of an input file from its start to its end, unpacked when its name ends with .gz or .zst. Damage,
// a file that ends too early, and a file that changes while it is read are Errors (exit 3) that name the
// file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace tessera {

class InputStream {
 public:
  virtual ~InputStream() = default;
  // Appends up to about `most` bytes to `text`; false at the end, when none are left. Checks at the end that
  // the file is what it was at the start.
  virtual bool read(std::string& text, size_t most) = 0;
  virtual int64_t file_bytes() const = 0;  // of the file as it lies on disk, read so far
};

std::unique_ptr<InputStream> open_input(const std::filesystem::path& path);

// The name without the ending of a compression that is read.
std::filesystem::path without_compression(const std::filesystem::path& path);

}  // namespace tessera
