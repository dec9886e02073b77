// SPDX-License-Identifier: Apache-2.0
#include "framework/config/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "framework/config/document.h"
#include "framework/config/load.h"

namespace tessera {
namespace config {
namespace {

using MaybeText = std::optional<std::string>;

// Fields are reached through a non-const RunConfig; nothing here writes to it.
class ValueWriter {
 public:
  ValueWriter(const Key& key, RunConfig& config, size_t index) : key_(key), config_(config), index_(index) {}

  MaybeText operator()(const std::monostate&) const { return std::nullopt; }
  MaybeText operator()(const Access<bool>& field) const { return field(config_, index_) ? "true" : "false"; }
  MaybeText operator()(const Access<int64_t>& field) const {
    const int64_t value = field(config_, index_);
    if (key_.facts.presence == Presence::Derived && value < key_.facts.integers.min) return std::nullopt;
    return fmt::format("{}", value);
  }
  MaybeText operator()(const Access<std::optional<int64_t>>& field) const {
    const auto& value = field(config_, index_);
    return value ? MaybeText(fmt::format("{}", *value)) : std::nullopt;
  }
  MaybeText operator()(const Access<double>& field) const { return toml_real(field(config_, index_)); }
  MaybeText operator()(const Access<std::optional<double>>& field) const {
    const auto& value = field(config_, index_);
    return value ? MaybeText(toml_real(*value)) : std::nullopt;
  }
  MaybeText operator()(const Access<std::string>& field) const {
    const std::string& value = field(config_, index_);
    return value.empty() ? std::nullopt : MaybeText(toml_string(value));
  }
  MaybeText operator()(const Access<std::vector<std::string>>& field) const {
    std::vector<std::string> items;
    for (const std::string& item : field(config_, index_)) items.push_back(toml_string(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  MaybeText operator()(const Access<std::vector<int64_t>>& field) const {
    return fmt::format("[{}]", fmt::join(field(config_, index_), ", "));
  }
  MaybeText operator()(const Access<std::vector<double>>& field) const {
    std::vector<std::string> items;
    for (const double item : field(config_, index_)) items.push_back(toml_real(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  MaybeText operator()(const Access<std::array<double, 2>>& field) const {
    const auto& values = field(config_, index_);
    return fmt::format("[{}, {}]", toml_real(values[0]), toml_real(values[1]));
  }
  MaybeText operator()(const Choice& choice) const {
    return toml_string(choice_name(choice, choice.get(config_, index_)));
  }

 private:
  const Key& key_;
  RunConfig& config_;
  size_t index_;
};

// Every key that has a value, with a path such as data.sources[0].path.
std::map<std::string, std::string> flatten(const RunConfig& config) {
  std::map<std::string, std::string> values;
  RunConfig copy = config;
  for (const Section& section : schema()) {
    const size_t count = section.count(copy);
    for (size_t i = 0; i < count; ++i) {
      const std::string name =
          section.kind == Section::Kind::List ? fmt::format("{}[{}]", section.name, i) : section.name;
      for (const Key& key : section.keys)
        if (const auto value = value_text(key, config, i)) values[name + "." + key.name] = *value;
    }
  }
  return values;
}

}  // namespace

std::optional<std::string> value_text(const Key& key, const RunConfig& config, size_t index) {
  return std::visit(ValueWriter(key, const_cast<RunConfig&>(config), index), key.field);
}

std::string value_text(const RunConfig& config, const std::string& path) {
  const size_t dot = path.rfind('.');
  const Section* section = find_section(path.substr(0, dot));
  const Key* key = section ? section->find(path.substr(dot + 1)) : nullptr;
  return key ? value_text(*key, config, 0).value_or("") : std::string();
}

}  // namespace config

std::string to_toml(const RunConfig& config) {
  std::string text;
  RunConfig copy = config;
  for (const config::Section& section : config::schema()) {
    const size_t count = section.count(copy);
    for (size_t i = 0; i < count; ++i) {
      const bool is_list = section.kind == config::Section::Kind::List;
      text += fmt::format("{}{}{}{}\n", text.empty() ? "" : "\n", is_list ? "[[" : "[", section.name,
                          is_list ? "]]" : "]");
      for (const config::Key& key : section.keys)
        if (const auto value = config::value_text(key, config, i))
          text += fmt::format("{} = {}\n", key.name, *value);
    }
  }
  return text;
}

std::vector<ConfigDifference> differences(const RunConfig& before, const RunConfig& after) {
  const auto old_values = config::flatten(before), new_values = config::flatten(after);
  std::vector<ConfigDifference> changed;
  const auto value_of = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("(absent)") : found->second;
  };
  auto keys = old_values;
  keys.insert(new_values.begin(), new_values.end());
  for (const auto& [key, unused] : keys) {
    ConfigDifference difference{key, value_of(old_values, key), value_of(new_values, key)};
    if (difference.before != difference.after) changed.push_back(std::move(difference));
  }
  return changed;
}

}  // namespace tessera
