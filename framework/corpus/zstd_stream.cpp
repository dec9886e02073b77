// SPDX-License-Identifier: Apache-2.0
#include <zstd.h>

#include "framework/base/check.h"
#include "framework/corpus/plain_stream.h"

namespace tessera {
namespace {

class ZstdStream final : public InputStream {
 public:
  explicit ZstdStream(const std::filesystem::path& path) : packed_(path), state_(ZSTD_createDStream()) {
    CHECK(state_ && !ZSTD_isError(ZSTD_initDStream(state_)), "zstd cannot be started");
    // Files of `zstd --long=31` too: their window is 2 GiB.
    ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, 31);
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }
  ZstdStream(const ZstdStream&) = delete;

  int64_t file_bytes() const override { return packed_.file_bytes(); }

  bool read(std::string& text, size_t most) override {
    const size_t before = text.size();
    text.resize(before + most);
    ZSTD_outBuffer out{.dst = text.data(), .size = text.size(), .pos = before};
    while (out.pos < out.size && fill()) unpack(out);
    text.resize(out.pos);
    return text.size() > before;
  }

 private:
  // Unpacked bytes may still wait inside of zstd when all packed ones were taken.
  bool fill() {
    if (in_.pos < in_.size) return true;
    buffer_.clear();
    if (packed_.read(buffer_, kPacked)) {
      in_ = {.src = buffer_.data(), .size = buffer_.size(), .pos = 0};
      return true;
    }
    in_ = {};
    CHECK_AS(ExitCode::Data, !in_frame_ || waits_, "{} ends inside of its packed data",
             packed_.path().string());
    return waits_;
  }

  void unpack(ZSTD_outBuffer& out) {
    const auto place = packed_.file_bytes() - static_cast<int64_t>(in_.size - in_.pos);
    const size_t before = out.pos;
    const size_t result = ZSTD_decompressStream(state_, &out, &in_);
    CHECK_AS(ExitCode::Data, !ZSTD_isError(result), "{}: damaged zstd data near byte {}: {}",
             packed_.path().string(), place, ZSTD_getErrorName(result));
    in_frame_ = result != 0;
    waits_ = in_frame_ && out.pos > before && out.pos == out.size;
  }

  PlainStream packed_;
  std::string buffer_;
  ZSTD_DStream* state_;
  ZSTD_inBuffer in_{};
  bool in_frame_ = false;
  bool waits_ = false;  // the last call filled all the room that it had
};

}  // namespace

std::unique_ptr<InputStream> open_zstd(const std::filesystem::path& path) {
  return std::make_unique<ZstdStream>(path);
}

}  // namespace tessera
