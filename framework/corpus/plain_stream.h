// SPDX-License-Identifier: Apache-2.0
// The bytes of a file as they lie on disk, and the two that unpack them. Only open_input() needs to see
// these.
#pragma once
#include "framework/corpus/input_stream.h"
#include "framework/dataset/file.h"

namespace tessera {

class PlainStream final : public InputStream {
 public:
  explicit PlainStream(const std::filesystem::path& path);
  bool read(std::string& text, size_t most) override;
  int64_t file_bytes() const override { return offset_; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  File file_;
  FileState state_;  // when it was opened
  int64_t offset_ = 0;
};

// Packed bytes that are read at once.
inline constexpr size_t kPacked = size_t{128} << 10;

std::unique_ptr<InputStream> open_gzip(const std::filesystem::path& path);
std::unique_ptr<InputStream> open_zstd(const std::filesystem::path& path);

}  // namespace tessera
