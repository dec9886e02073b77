// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/json_lines.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"

namespace tessera {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;

// Keeps one string and builds nothing else. The parser holds nesting in a bit vector, not on the stack.
class TextField final : public nlohmann::json_sax<nlohmann::json> {
 public:
  TextField(std::string_view key, std::string& text, std::string& reason)
      : key_(key), text_(text), reason_(reason) {}

  bool found() const { return found_; }

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(int64_t) override { return other(); }
  bool number_unsigned(uint64_t) override { return other(); }
  bool number_float(double, const std::string&) override { return other(); }
  bool binary(nlohmann::json::binary_t&) override { return other(); }
  bool string(std::string& value) override {
    if (!wanted_) return other();
    text_.swap(value);
    wanted_ = false;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ != 1 || name != key_) return true;
    if (found_) return stop(fmt::format("\"{}\" stands twice", key_));
    found_ = wanted_ = true;
    return true;
  }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return depth_ > 0 ? open() : stop("not a JSON object"); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    return stop(error.what());
  }

 private:
  bool open() {
    if (wanted_) return other();
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  bool other() {
    if (depth_ == 0) return stop("not a JSON object");
    return wanted_ ? stop(fmt::format("\"{}\" is not a string", key_)) : true;
  }
  bool stop(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  std::string_view key_;
  std::string &text_, &reason_;
  int64_t depth_ = 0;
  bool found_ = false, wanted_ = false;  // wanted: the next value is the text
};

}  // namespace

LineReader::LineReader(const std::filesystem::path& path)
    : file_(File::open_to_read(path)), size_(file_.size()) {}

bool LineReader::next(std::string_view& line) {
  while (true) {
    const size_t end = buffer_.find('\n', scanned_);
    if (end != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = scanned_ = end + 1;
      ++number_;
      return true;
    }
    if (offset_ == size_) break;
    buffer_.erase(0, begin_);
    begin_ = 0;
    scanned_ = buffer_.size();
    const int64_t part = std::min(kChunk, size_ - offset_);
    buffer_.resize(scanned_ + static_cast<size_t>(part));
    file_.read(offset_, std::as_writable_bytes(std::span(buffer_)).subspan(scanned_));
    offset_ += part;
  }
  if (begin_ == buffer_.size()) return false;
  line = std::string_view(buffer_).substr(begin_);  // the last line without a newline
  begin_ = scanned_ = buffer_.size();
  ++number_;
  return true;
}

bool read_json_text(std::string_view line, std::string_view key, std::string& text, std::string& reason) {
  TextField field(key, text, reason);
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &field)) return false;
  if (!field.found()) {
    reason = fmt::format("no \"{}\"", key);
    return false;
  }
  return true;
}

}  // namespace tessera
