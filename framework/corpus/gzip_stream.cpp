// SPDX-License-Identifier: Apache-2.0
#define ZLIB_CONST
#include <zlib.h>

#include "framework/base/check.h"
#include "framework/corpus/plain_stream.h"

namespace tessera {
namespace {

// A gzip file is one member after the other; each has a checksum of its own, which zlib compares.
class GzipStream final : public InputStream {
 public:
  explicit GzipStream(const std::filesystem::path& path) : packed_(path) {
    constexpr int kGzipOnly = 15 + 16;
    CHECK(inflateInit2(&state_, kGzipOnly) == Z_OK, "zlib cannot be started");
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;

  int64_t file_bytes() const override { return packed_.file_bytes(); }

  bool read(std::string& text, size_t most) override {
    const size_t before = text.size();
    text.resize(before + most);
    size_t size = before;
    while (size < text.size() && fill()) size += unpack(text.data() + size, text.size() - size);
    text.resize(size);
    return size > before;
  }

 private:
  bool fill() {
    if (state_.avail_in > 0) return true;
    buffer_.clear();
    const bool more = packed_.read(buffer_, kPacked);
    if (!more)
      CHECK_AS(ExitCode::Data, !in_member_, "{} ends inside of its packed data", packed_.path().string());
    state_.next_in = reinterpret_cast<const Bytef*>(buffer_.data());
    state_.avail_in = static_cast<uInt>(buffer_.size());
    return more;
  }

  size_t unpack(char* to, size_t room) {
    const auto place = packed_.file_bytes() - state_.avail_in;
    if (!in_member_) {
      CHECK_AS(ExitCode::Data, inflateReset(&state_) == Z_OK, "{}: zlib cannot go on",
               packed_.path().string());
      in_member_ = true;
    }
    state_.next_out = reinterpret_cast<Bytef*>(to);
    state_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&state_, Z_NO_FLUSH);
    CHECK_AS(ExitCode::Data, result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR,
             "{}: damaged gzip data near byte {}: {}", packed_.path().string(), place,
             state_.msg ? state_.msg : "zlib gives no reason");
    if (result == Z_STREAM_END) in_member_ = false;
    return room - state_.avail_out;
  }

  PlainStream packed_;
  std::string buffer_;
  z_stream state_{};
  bool in_member_ = false;
};

}  // namespace

std::unique_ptr<InputStream> open_gzip(const std::filesystem::path& path) {
  return std::make_unique<GzipStream>(path);
}

}  // namespace tessera
