// SPDX-License-Identifier: Apache-2.0
#include "framework/corpus/plain_stream.h"

#include <algorithm>

#include "framework/base/check.h"

namespace tessera {

PlainStream::PlainStream(const std::filesystem::path& path)
    : file_(File::open_to_read(path)), state_(file_.state()) {}

bool PlainStream::read(std::string& text, size_t most) {
  const auto part = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(most), state_.size - offset_));
  if (part == 0) {
    CHECK_AS(ExitCode::Data, file_.state() == state_, "{} changed while it was read", path().string());
    return false;
  }
  const size_t before = text.size();
  text.resize(before + part);
  file_.read(offset_, std::as_writable_bytes(std::span(text)).subspan(before));
  offset_ += static_cast<int64_t>(part);
  return true;
}

std::unique_ptr<InputStream> open_input(const std::filesystem::path& path) {
  if (path.extension() == ".gz") return open_gzip(path);
  if (path.extension() == ".zst") return open_zstd(path);
  return std::make_unique<PlainStream>(path);
}

std::filesystem::path without_compression(const std::filesystem::path& path) {
  return path.extension() == ".gz" || path.extension() == ".zst"
             ? std::filesystem::path(path).replace_extension()
             : path;
}

}  // namespace tessera
