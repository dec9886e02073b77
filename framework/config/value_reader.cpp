// SPDX-License-Identifier: Apache-2.0
#include "framework/config/value_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/config/names.h"
#include "framework/config/utf8.h"

namespace tessera::config {
namespace {

namespace fs = std::filesystem;
using Kind = Value::Kind;

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + toml_string(names[i]);
  return text;
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// What the user may have meant by a value of another type.
std::string type_hint(const Value& value, std::string_view expected) {
  const bool integer = expected == "an integer";
  if (integer && value.kind == Kind::Real && std::abs(value.real) < 1e15 &&
      value.real == std::floor(value.real))
    return fmt::format(" (did you mean {:.0f}?)", value.real);
  if (integer && value.kind == Kind::Boolean)
    return fmt::format(" (did you mean {}?)", value.boolean ? 1 : 0);
  if (expected == "true or false" && value.kind == Kind::Integer &&
      (value.integer == 0 || value.integer == 1))
    return value.integer == 1 ? " (did you mean true?)" : " (did you mean false?)";
  const std::string_view text = value.string;
  const bool number = !text.empty() && text.find_first_of("0123456789") != text.npos &&
                      text.find_first_not_of(integer ? "0123456789-_" : "0123456789.eE+-_") == text.npos;
  const bool meant = expected == "true or false" ? text == "true" || text == "false" : number;
  if (value.kind == Kind::String && meant && expected != "a list")
    return fmt::format(" (did you mean {}, without quotes?)", text);
  return {};
}

class ValueReader {
 public:
  ValueReader(const Key& key, const std::string& path, const Value& value, RunConfig& config, size_t index)
      : key_(key), path_(path), value_(value), config_(config), index_(index) {}

  void operator()(const std::monostate&) const { fail_at(value_.place, "{} is not built yet", path_); }

  void operator()(const Access<bool>& field) const {
    require(value_, Kind::Boolean, "true or false");
    field(config_, index_) = value_.boolean;
  }
  void operator()(const Access<int64_t>& field) const { field(config_, index_) = integer(value_); }
  void operator()(const Access<std::optional<int64_t>>& field) const {
    field(config_, index_) = integer(value_);
  }
  void operator()(const Access<double>& field) const { field(config_, index_) = real(value_); }
  void operator()(const Access<std::optional<double>>& field) const { field(config_, index_) = real(value_); }
  void operator()(const Access<std::string>& field) const {
    std::string result = text(value_);
    const auto& names = key_.facts.allowed;
    const bool may_be_path = key_.facts.text == Text::InputPath || key_.facts.text == Text::OutputPath;
    const bool is_path = may_be_path && (names.empty() || result.find_first_of("./") != std::string::npos);
    if (is_path)
      result = absolute_path(result, key_.facts.text, value_.place);
    else if (!names.empty())
      require_allowed(value_, result, names, may_be_path ? " or the path of a file" : "");
    field(config_, index_) = std::move(result);
  }

  void operator()(const Access<std::vector<std::string>>& field) const {
    require(value_, Kind::Array, "a list");
    std::vector<std::string>& list = field(config_, index_);
    list.clear();
    for (const Value& item : value_.items) {
      list.push_back(text(item));
      require_allowed(item, list.back(), key_.facts.allowed);
      if (std::count(list.begin(), list.end(), list.back()) > 1)
        fail_at(item.place, "{} names {} twice", path_, toml_string(list.back()));
    }
  }

  void operator()(const Access<std::vector<int64_t>>& field) const {
    require(value_, Kind::Array, "a list");
    std::vector<int64_t>& list = field(config_, index_);
    list.clear();
    for (const Value& item : value_.items) list.push_back(integer(item));
  }

  void operator()(const Access<std::vector<double>>& field) const {
    require(value_, Kind::Array, "a list");
    std::vector<double>& list = field(config_, index_);
    list.clear();
    for (const Value& item : value_.items) list.push_back(real(item));
  }

  void operator()(const Access<std::array<double, 2>>& field) const {
    require(value_, Kind::Array, "a list");
    if (value_.items.size() != 2)
      fail_at(value_.place, "{} must be a list of two numbers, and has {}", path_, value_.items.size());
    field(config_, index_) = {real(value_.items[0]), real(value_.items[1])};
  }

  void operator()(const Choice& choice) const {
    const std::string name = text(value_);
    std::vector<std::string> names;
    for (const auto& [known, number] : choice.names) {
      if (known == name) return choice.set(config_, index_, number);
      names.push_back(known);
    }
    require_allowed(value_, name, names);
  }

 private:
  void require(const Value& value, Kind kind, std::string_view expected) const {
    if (value.kind == kind) return;
    fail_at(value.place, "{} must be {}, and is {}{}", path_, expected, describe(value),
            type_hint(value, expected));
  }

  void require_allowed(const Value& value, const std::string& name, const std::vector<std::string>& names,
                       std::string_view otherwise = "") const {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    fail_at(value.place, "{} must be {}{}, and is {}{}", path_, names_text(names), otherwise, describe(value),
            did_you_mean(name, names));
  }

  int64_t integer(const Value& value) const {
    require(value, Kind::Integer, "an integer");
    const IntegerRange& range = key_.facts.integers;
    if (value.integer < range.min || value.integer > range.max)
      fail_at(value.place, "{} must be {}, and is {}", path_, range_text(key_), value.integer);
    return value.integer;
  }

  double real(const Value& value) const {
    if (value.kind != Kind::Integer) require(value, Kind::Real, "a number");
    const double number = value.kind == Kind::Integer ? static_cast<double>(value.integer) : value.real;
    const RealRange& range = key_.facts.reals;
    const bool inside = (range.above_min ? number > range.min : number >= range.min) &&
                        (range.below_max ? number < range.max : number <= range.max);
    // nan is outside of every range.
    if (!inside) fail_at(value.place, "{} must be {}, and is {}", path_, range_text(key_), describe(value));
    return number == 0.0 ? 0.0 : number;  // no negative zero
  }

  std::string text(const Value& value) const {
    // A shell takes quotes away: --set run.name=2024 means the string.
    const bool from_shell = value.place.origin && !value.place.origin->is_file && !value.string.empty();
    if (!from_shell) require(value, Kind::String, "a string");
    if (value.string.empty()) fail_at(value.place, "{} must not be empty", path_);
    if (has_control_character(value.string))
      fail_at(value.place, "{} has a control character in it: {}", path_,
              toml_string(cut_utf8(value.string, 60)));
    const bool is_folder = value.string == "." || value.string == "..";
    if (key_.facts.text == Text::Name && (value.string.find('/') != std::string::npos || is_folder))
      fail_at(value.place, "{} must be a name without '/', and is {}", path_, describe(value));
    return value.string;
  }

  const Key& key_;
  const std::string& path_;
  const Value& value_;
  RunConfig& config_;
  size_t index_;
};

}  // namespace

void read_value(const Key& key, const std::string& path, const Value& value, RunConfig& config,
                size_t index) {
  std::visit(ValueReader(key, path, value, config, index), key.field);
}

std::string absolute_path(const std::string& path, Text kind, const Place& place) {
  std::error_code error;
  const bool from_file = kind == Text::InputPath && place.origin;
  const fs::path whole = fs::absolute(from_file ? place.origin->folder / path : fs::path(path), error);
  if (error) fail_at(place, "{}: {}", path, error.message());
  // Links are followed in the folder and not in the last name, which may be a prefix of several files.
  const bool is_folder = !whole.has_filename() || whole.filename() == "." || whole.filename() == "..";
  const fs::path folder = is_folder ? whole : whole.parent_path();
  fs::path canonical = fs::weakly_canonical(folder, error);
  if (error) canonical = folder.lexically_normal();
  if (!is_folder) canonical /= whole.filename();
  if (!canonical.has_filename()) canonical = canonical.parent_path();
  const std::string result = canonical.string();
  if (!is_utf8(result)) fail_at(place, "the folder of {} is not named in UTF-8", toml_string(path));
  if (has_control_character(result))
    fail_at(place, "the folder of {} has a control character in its name", toml_string(path));
  return result;
}

}  // namespace tessera::config
