// SPDX-License-Identifier: Apache-2.0
#include "framework/corpus/json_lines.h"

#include <simdjson.h>

#include <nlohmann/json.hpp>

#include "framework/base/check.h"

namespace tessera {
namespace {

// simdjson takes up to 17 times the memory of a line.
constexpr size_t kLongestForSimdjson = size_t{16} << 20;

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

// Slow, but with the place of an error, and without a limit to lengths, depth or digits.
bool read_with_reason(std::string_view line, std::string_view key, std::string& text, std::string& reason) {
  TextField field(key, text, reason);
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &field)) return false;
  if (!field.found()) {
    reason = fmt::format("no \"{}\"", key);
    return false;
  }
  return true;
}

}  // namespace

struct JsonTextReader::Parser {
  simdjson::dom::parser parser{kLongestForSimdjson};

  // False: the line is none that simdjson can vouch for, which says nothing about it.
  bool read(std::string_view line, std::string_view key, std::string& text) {
    simdjson::dom::object object;
    if (parser.parse(line.data(), line.size()).get(object) != simdjson::SUCCESS) return false;
    std::string_view found;
    int count = 0;
    for (const simdjson::dom::key_value_pair field : object) {
      if (field.key != key) continue;
      if (++count > 1 || field.value.get(found) != simdjson::SUCCESS) return false;
    }
    if (count == 0) return false;
    text = found;
    return true;
  }
};

JsonTextReader::JsonTextReader() : parser_(std::make_unique<Parser>()) {}
JsonTextReader::~JsonTextReader() = default;

bool JsonTextReader::read(std::string_view line, std::string_view key, std::string& text,
                          std::string& reason) {
  return parser_->read(line, key, text) || read_with_reason(line, key, text, reason);
}

}  // namespace tessera
