// SPDX-License-Identifier: Apache-2.0
// docs/config.schema.json, from the schema: completion and checks in editors. It is looser than the reader,
// which also knows what must hold between keys.
#include <nlohmann/json.hpp>
#include <string>

#include "framework/config/load.h"
#include "framework/config/reference.h"

namespace tessera {
namespace config {
namespace {

using Json = nlohmann::ordered_json;

// ${NAME} may stand for any string, and so does whatever else `pattern` finds.
Json string_of(const std::vector<std::string>& names, const char* pattern = "\\$\\{") {
  Json choice;
  choice["anyOf"] = {Json{{"enum", names}}, Json{{"type", "string"}, {"pattern", pattern}}};
  return choice;
}

Json integer_json(const IntegerRange& range) {
  return {{"type", "integer"}, {"minimum", range.min}, {"maximum", range.max}};
}

Json real_json(const RealRange& range) {
  return {{"type", "number"},
          {range.above_min ? "exclusiveMinimum" : "minimum", range.min},
          {range.below_max ? "exclusiveMaximum" : "maximum", range.max}};
}

struct TypeJson {
  const Facts& facts;

  Json operator()(const std::monostate&) const { return false; }
  Json operator()(const Access<bool>&) const { return {{"type", "boolean"}}; }
  Json operator()(const Access<int64_t>&) const { return integer_json(facts.integers); }
  Json operator()(const Access<std::optional<int64_t>>&) const { return integer_json(facts.integers); }
  Json operator()(const Access<double>&) const { return real_json(facts.reals); }
  Json operator()(const Access<std::optional<double>>&) const { return real_json(facts.reals); }
  Json operator()(const Access<std::string>&) const {
    if (!facts.allowed.empty())
      return string_of(facts.allowed, facts.text == Text::InputPath ? "[./]|\\$\\{" : "\\$\\{");
    return {{"type", "string"}, {"minLength", 1}};
  }
  Json operator()(const Access<std::vector<std::string>>&) const {
    return {{"type", "array"}, {"items", string_of(facts.allowed)}, {"uniqueItems", true}};
  }
  Json operator()(const Access<std::vector<int64_t>>&) const {
    return {{"type", "array"}, {"items", integer_json(facts.integers)}};
  }
  Json operator()(const Access<std::vector<double>>&) const {
    return {{"type", "array"}, {"items", real_json(facts.reals)}};
  }
  Json operator()(const Access<std::array<double, 2>>&) const {
    return {{"type", "array"}, {"items", real_json(facts.reals)}, {"minItems", 2}, {"maxItems", 2}};
  }
  Json operator()(const Choice& choice) const {
    std::vector<std::string> names;
    for (const auto& [name, value] : choice.names) names.push_back(name);
    return string_of(names);
  }
};

std::string description(const Section& section, const Key& key) {
  std::string text = key.facts.help;
  if (!key.facts.unit.empty()) text += " Unit: " + key.facts.unit + ".";
  if (key.facts.presence == Presence::Required) return text + " Required.";
  const std::string value = key.facts.default_text.empty()
                                ? default_value(section, key, architectures().front())
                                : key.facts.default_text;
  return text + " Default: " + value + ".";
}

void add_keys(const Section& section, Json& properties) {
  for (const Key& key : section.keys) {
    if (key.is_later()) continue;
    Json property = std::visit(TypeJson{key.facts}, key.field);
    property["description"] = description(section, key);
    for (const std::string& alias : key.facts.aliases) {
      Json other = property;
      other["description"] = "The same as " + key.name + ".";
      other["deprecated"] = true;
      properties[alias] = std::move(other);
    }
    properties[key.name] = std::move(property);
  }
}

Json section_json(const Section* section, const std::string& name) {
  Json table = {{"type", "object"}, {"additionalProperties", false}};
  if (section != nullptr) table["description"] = section->help;
  Json properties = Json::object();
  if (section != nullptr) add_keys(*section, properties);
  for (const std::string& child : child_names(name)) {
    const std::string path = name.empty() ? child : name + "." + child;
    const Section* inner = find_section(path);
    if (inner->kind == Section::Kind::Later) continue;
    Json value = section_json(inner, path);
    properties[child] = inner->kind == Section::Kind::List
                            ? Json{{"type", "array"}, {"items", std::move(value)}}
                            : std::move(value);
  }
  table["properties"] = std::move(properties);
  return table;
}

// Keys that a file without a base must have.
Json required_json() {
  Json sections = Json::object();
  Json names = Json::array();
  for (const Section& section : schema()) {
    if (section.kind != Section::Kind::Table || section.name.find('.') != std::string::npos) continue;
    Json keys = Json::array();
    for (const Key& key : section.keys) {
      // An alias would do as well, and the reader checks.
      if (key.facts.presence == Presence::Required && key.facts.aliases.empty()) keys.push_back(key.name);
    }
    if (keys.empty()) continue;
    sections[section.name] = {{"required", keys}};
    names.push_back(section.name);
  }
  return {{"required", names}, {"properties", sections}};
}

}  // namespace
}  // namespace config

std::string json_schema() {
  config::Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                         {"title", "Tessera run config"}};
  schema.update(config::section_json(nullptr, ""));
  schema["properties"]["base"] = {{"type", "string"}, {"description", "Another file that is read first."}};
  schema["if"] = {{"not", {{"required", {"base"}}}}};
  schema["then"] = config::required_json();
  return schema.dump(2) + "\n";
}

}  // namespace tessera
