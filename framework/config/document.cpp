// SPDX-License-Identifier: Apache-2.0
#include "framework/config/document.h"

#include <fmt/format.h>

// Broken text can reach assertions of the library (3.3: a header such as `[.x]`), and a release build takes
// them as promises to the compiler. Here they throw in every build.
namespace tessera::config {
struct LibraryAssertion {};
[[noreturn]] static void fail_assertion() {
  throw LibraryAssertion{};
}
}  // namespace tessera::config
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(condition) ((condition) ? void() : ::tessera::config::fail_assertion())
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <optional>

#include "framework/config/characters.h"
#include "framework/config/utf8.h"

namespace tessera::config {
namespace {

using Shared = std::shared_ptr<const Origin>;

bool is_name_start(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The library walks nested tables by recursion, and a dotted key nests without a limit. One dot more than
// sixteen on a line is rare; a thousand of them are an attack on the stack.
void refuse_deep_nesting(std::string_view text, const Shared& origin) {
  constexpr size_t kUsualDots = 16, kMostDots = 1000;
  size_t dots = 0, excess = 0;
  uint32_t line = 1;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
    } else if (c == '.' && ++dots > kUsualDots && ++excess > kMostDots) {
      fail_at({origin, line, 1}, "too many dots: keys this deep are not read");
    }
  }
}

std::string expand(std::string_view text, const Place& place, const Environment& environment) {
  std::string result;
  size_t i = 0;
  while (i < text.size()) {
    if (text.substr(i, 3) == "$${") {
      result += "${";
      i += 3;
    } else if (text.substr(i, 2) == "${") {
      const size_t end = text.find('}', i);
      const std::string name(text.substr(i + 2, end == text.npos ? end : end - i - 2));
      const bool is_name =
          end != text.npos && !name.empty() && is_name_start(name[0]) &&
          std::all_of(name.begin(), name.end(), [](char c) { return is_name_start(c) || is_digit(c); });
      if (!is_name) fail_at(place, "'${{' without NAME}} (write $${{ for the characters themselves)");
      const std::optional<std::string> value = environment ? environment(name) : std::nullopt;
      if (!value) fail_at(place, "environment variable {} is not set", name);
      if (!is_utf8(*value)) fail_at(place, "environment variable {} is not UTF-8", name);
      result += *value;
      i = end + 1;
    } else {
      result += text[i++];
    }
  }
  return result;
}

Place place_of(const toml::source_region& region, const Shared& origin) {
  return {origin, region.begin.line, region.begin.column};
}

bool is_before(const Place& a, const Place& b) {
  return std::pair(a.line, a.column) < std::pair(b.line, b.column);
}

Value convert(const toml::node& node, const Shared& origin, const Environment& environment);

void convert_table(const toml::table& table, Value& value, const Environment& environment) {
  const Shared& origin = value.place.origin;
  for (const auto& [key, node] : table)
    value.entries.push_back(
        {std::string(key.str()), place_of(key.source(), origin), convert(node, origin, environment)});
  // The library sorts by name; the first fault of a file should be the one that is reported.
  std::stable_sort(value.entries.begin(), value.entries.end(),
                   [](const Value::Entry& a, const Value::Entry& b) { return is_before(a.place, b.place); });
}

Value convert(const toml::node& node, const Shared& origin, const Environment& environment) {
  Value value;
  value.place = place_of(node.source(), origin);
  if (const auto* table = node.as_table()) {
    convert_table(*table, value, environment);
  } else if (const auto* array = node.as_array()) {
    value.kind = Value::Kind::Array;
    for (const toml::node& item : *array) value.items.push_back(convert(item, origin, environment));
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = Value::Kind::Boolean;
    value.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Value::Kind::Integer;
    value.integer = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = Value::Kind::Real;
    value.real = real->get();
  } else if (const auto* string = node.as_string()) {
    value.kind = Value::Kind::String;
    value.string = expand(string->get(), value.place, environment);
  } else {
    value.kind = Value::Kind::Date;
  }
  return value;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool starts_key(char c) {
  return is_name_start(c) || is_digit(c) || c == '-' || c == '"' || c == '\'';
}

// The place of the first table header without a name.
Place nameless_header(std::string_view text, const Shared& origin) {
  Place place{origin, 1, 1};
  for (size_t begin = 0; begin < text.size(); ++place.line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    size_t i = begin;
    while (i < end && is_blank(text[i])) ++i;
    const bool is_header = i < end && text[i] == '[';
    while (i < end && (is_blank(text[i]) || text[i] == '[')) ++i;
    place.column = static_cast<uint32_t>(i - begin + 1);
    if (is_header && (i == end || !starts_key(text[i]))) return place;
    begin = end + 1;
  }
  return {origin, 1, 1};
}

toml::table parse_or_fail(std::string_view text, const Shared& origin) {
  if (const auto found = find_forbidden_character(text))
    fail_at({origin, found->line, found->column}, "not valid TOML: {}", found->what);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    constexpr std::string_view kPrefix = "Error while parsing ";
    std::string_view what = error.description();
    if (what.substr(0, kPrefix.size()) == kPrefix) what.remove_prefix(kPrefix.size());
    fail_at(place_of(error.source(), origin), "not valid TOML: {}", what);
  } catch (const LibraryAssertion&) {
    fail_at(nameless_header(text, origin), "not valid TOML: table header: a name is missing");
  }
}

bool looks_quoted(std::string_view text) {
  return text[0] == '"' || text[0] == '\'' || text[0] == '[' || text[0] == '{';
}

Value override_value(std::string_view text, const Shared& origin, const Environment& environment) {
  const Place place{origin, 1, 1};
  if (text.empty()) fail_at(place, "no value after '=' (an empty string is written '\"\"')");
  try {
    const std::string document = fmt::format("value = {}", text);
    refuse_deep_nesting(document, origin);
    const auto found = find_forbidden_character(document);
    if (found && looks_quoted(text)) fail_at(place, "not valid TOML: {}", found->what);
    const toml::table table = found ? toml::table() : toml::parse(document);
    const toml::node* node = table.get("value");
    if (table.size() == 1 && node != nullptr) {
      Value value = convert(*node, origin, environment);
      value.place = place;
      const bool is_scalar = value.kind != Value::Kind::Array && value.kind != Value::Kind::Table;
      if (is_scalar && value.kind != Value::Kind::String && is_utf8(text)) value.string = text;
      return value;
    }
  } catch (const toml::parse_error& error) {
    if (looks_quoted(text)) fail_at(place, "not valid TOML: {}", error.description());
  } catch (const LibraryAssertion&) {
    fail_at(place, "not valid TOML");
  }
  Value value;  // a bare word, such as adamw or ../corpus.txt
  value.kind = Value::Kind::String;
  value.place = place;
  if (!is_utf8(text)) fail_at(place, "the value is not UTF-8");
  value.string = expand(text, place, environment);
  return value;
}

bool is_index(const std::string& key) {
  return !key.empty() && key.size() < 10 && std::all_of(key.begin(), key.end(), is_digit);
}

// `data.sources.0.path=...`: a table of numbers over an array changes single items.
bool merge_items(Value& below, Value& above) {
  const bool by_index = below.kind == Value::Kind::Array && above.kind == Value::Kind::Table &&
                        !above.place.origin->is_file && !above.entries.empty() &&
                        std::all_of(above.entries.begin(), above.entries.end(),
                                    [](const Value::Entry& entry) { return is_index(entry.key); });
  if (!by_index) return false;
  for (Value::Entry& entry : above.entries) {
    const size_t index = std::stoul(entry.key);
    if (index >= below.items.size())
      fail_at(entry.place, "no item {}: there are {}, counted from 0", index, below.items.size());
    merge(below.items[index], std::move(entry.value));
  }
  return true;
}

}  // namespace

std::string Place::text() const {
  if (!origin) return "config";
  return origin->is_file ? fmt::format("{}:{}:{}", origin->name, line, column) : origin->name;
}

Value::Entry* Value::find(std::string_view key) {
  for (Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

const Value::Entry* Value::find(std::string_view key) const {
  return const_cast<Value*>(this)->find(key);
}

Value parse_toml(std::string_view text, Shared origin, const Environment& environment) {
  if (text.size() > kLongestText)
    fail_at({origin, 1, 1}, "a config has at most {} bytes, and this is longer", kLongestText);
  refuse_deep_nesting(text, origin);
  const toml::table table = parse_or_fail(text, origin);
  Value root;
  root.place = {origin, 1, 1};
  convert_table(table, root, environment);
  return root;
}

Value parse_override(std::string_view argument, const Environment& environment) {
  const size_t equals = argument.find('=');
  const std::string path(argument.substr(0, equals));
  const auto origin = std::make_shared<const Origin>(Origin{"--set " + path, {}, false});
  const Place place{origin, 1, 1};
  if (equals == argument.npos) fail_at(place, "'=' is missing (write --set section.key=value)");

  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.')
      parts.emplace_back();
    else if (is_name_start(c) || is_digit(c) || c == '-')
      parts.back() += c;
    else
      fail_at(place, "a key has only letters, digits, '_' and '-' between its dots");
  }
  constexpr size_t kDeepestKey = 8;
  const bool has_empty =
      std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); });
  if (has_empty || parts.size() > kDeepestKey) fail_at(place, "write --set section.key=value");

  Value value = override_value(argument.substr(equals + 1), origin, environment);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    Value table;
    table.place = place;
    table.entries.push_back({*part, place, std::move(value)});
    value = std::move(table);
  }
  return value;
}

void merge(Value& below, Value above) {
  if (merge_items(below, above)) return;
  if (below.kind != Value::Kind::Table || above.kind != Value::Kind::Table) {
    below = std::move(above);
    return;
  }
  // A table's own place says where a missing key would go: the file that was asked for, not its base.
  if (above.place.origin->is_file) below.place = above.place;
  for (Value::Entry& entry : above.entries) {
    if (Value::Entry* existing = below.find(entry.key)) {
      existing->place = entry.place;
      merge(existing->value, std::move(entry.value));
    } else {
      below.entries.push_back(std::move(entry));
    }
  }
}

std::string describe(const Value& value) {
  constexpr size_t kLongest = 60;
  switch (value.kind) {
    case Value::Kind::Boolean:
      return value.boolean ? "true" : "false";
    case Value::Kind::Integer:
      return fmt::format("{}", value.integer);
    case Value::Kind::Real:
      return toml_real(value.real);
    case Value::Kind::String:
      return fmt::format("the string {}", toml_string(cut_utf8(value.string, kLongest)));
    case Value::Kind::Date:
      return "a date or time";
    case Value::Kind::Array:
      return "an array";
    case Value::Kind::Table:
      return "a table";
  }
  return {};
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (text.substr(i, 2) == "${") result += '$';
    if (c == '"' || c == '\\')
      result += fmt::format("\\{}", text[i]);
    else if (c < 0x20 || c == 0x7f)
      result += fmt::format("\\u{:04X}", c);
    else
      result += text[i];
  }
  return result + '"';
}

std::string toml_real(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == text.npos) text += ".0";
  return text;
}

}  // namespace tessera::config
