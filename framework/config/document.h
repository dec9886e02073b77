// SPDX-License-Identifier: Apache-2.0
// A config file as a tree of values that know where they were written. Only document.cpp knows the TOML
// library; what a key means is not known here.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/check.h"
#include "framework/config/load.h"

namespace tessera::config {

inline constexpr size_t kLongestText = size_t{4} << 20;  // bytes of one file

// Where text came from: a file, or one --set argument.
struct Origin {
  std::string name;              // as messages show it
  std::filesystem::path folder;  // where relative input paths start; empty: the current folder
  bool is_file = true;
};

struct Place {
  std::shared_ptr<const Origin> origin;
  uint32_t line = 1;
  uint32_t column = 1;

  std::string text() const;  // FILE:LINE:COL, or the --set argument's key
};

struct Value {
  enum class Kind : uint8_t { Boolean, Integer, Real, String, Date, Array, Table };
  struct Entry;

  Kind kind = Kind::Table;
  Place place;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0.0;
  std::string string;          // also the characters of another scalar in a --set argument
  std::vector<Value> items;    // of an array
  std::vector<Entry> entries;  // of a table, in the order of the file

  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;
};

struct Value::Entry {
  std::string key;
  Place place;  // of the key
  Value value;
};

template <class... Args>
[[noreturn]] void fail_at(const Place& place, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::Usage, place.text() + ": " + fmt::format(format, std::forward<Args>(args)...));
}

// Parses TOML. In every string `${NAME}` becomes the environment variable and `$${` becomes `${`.
Value parse_toml(std::string_view text, std::shared_ptr<const Origin> origin, const Environment& environment);

// The tree of one `section.key=value`. The value is TOML, or else a bare string.
Value parse_override(std::string_view argument, const Environment& environment);

// The values of `above` win: tables merge, everything else replaces.
void merge(Value& below, Value above);

// The value as a user would write it in a file, cut when it is long.
std::string describe(const Value& value);

// A basic TOML string, with `${` written so that it reads back as it is.
std::string toml_string(std::string_view text);
std::string toml_real(double value);  // reads back to the same bits

}  // namespace tessera::config
