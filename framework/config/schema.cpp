// SPDX-License-Identifier: Apache-2.0
#include "framework/config/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/document.h"
#include "framework/config/schema_sections.h"

namespace tessera::config {
namespace {

std::vector<Section> build_schema() {
  std::vector<Section> sections;
  add_run_sections(sections);
  add_model_sections(sections);
  add_parallel_sections(sections);
  add_train_sections(sections);
  add_data_sections(sections);
  add_output_sections(sections);
  return sections;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct TypeName {
  std::string operator()(const std::monostate&) const { return "not built yet"; }
  std::string operator()(const Access<bool>&) const { return "boolean"; }
  std::string operator()(const Access<int64_t>&) const { return "integer"; }
  std::string operator()(const Access<std::optional<int64_t>>&) const { return "integer"; }
  std::string operator()(const Access<double>&) const { return "number"; }
  std::string operator()(const Access<std::optional<double>>&) const { return "number"; }
  std::string operator()(const Access<std::string>&) const { return "string"; }
  std::string operator()(const Access<std::vector<std::string>>&) const { return "list of strings"; }
  std::string operator()(const Access<std::vector<int64_t>>&) const { return "list of integers"; }
  std::string operator()(const Access<std::vector<double>>&) const { return "list of numbers"; }
  std::string operator()(const Access<std::array<double, 2>>&) const { return "two numbers"; }
  std::string operator()(const Choice&) const { return "string"; }
};

std::string integer_text(int64_t value) {
  return value == std::numeric_limits<int64_t>::max() ? std::string("2^63 - 1") : fmt::format("{}", value);
}

std::string integer_range(const IntegerRange& range) {
  return fmt::format("{} to {}", range.min, integer_text(range.max));
}

std::string real_range(const RealRange& range) {
  return fmt::format("{}{:g} to {}{:g}", range.above_min ? "above " : "", range.min,
                     range.below_max ? "below " : "", range.max);
}

}  // namespace

const Key* Section::find(std::string_view key) const {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == key; });
  return found == keys.end() ? nullptr : &*found;
}

const Key* Section::find_alias(std::string_view alias) const {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const Key& key) { return contains(key.facts.aliases, alias); });
  return found == keys.end() ? nullptr : &*found;
}

const std::vector<Section>& schema() {
  static const std::vector<Section> sections = build_schema();
  return sections;
}

const Section* find_section(std::string_view name) {
  for (const Section& section : schema())
    if (section.name == name) return &section;
  return nullptr;
}

std::vector<std::string> child_names(std::string_view parent) {
  std::vector<std::string> names;
  for (const Section& section : schema()) {
    const size_t dot = section.name.rfind('.');
    const std::string_view above =
        dot == std::string::npos ? std::string_view() : std::string_view(section.name).substr(0, dot);
    if (above == parent) names.push_back(section.name.substr(dot == std::string::npos ? 0 : dot + 1));
  }
  return names;
}

const std::vector<std::string>& architectures() {
  static const std::vector<std::string> names = {"gpt", "llama"};
  return names;
}

void apply_architecture_defaults(ModelSection& model, std::string_view architecture) {
  if (architecture != "llama") return;  // the initial values are those of gpt
  model.hidden_act = ModelSection::Activation::Silu;
  model.mlp_gated = true;
  model.norm = ModelSection::Norm::RmsNorm;
  model.position = ModelSection::Position::Rope;
  model.attention_bias = false;
  model.mlp_bias = false;
  model.tie_word_embeddings = false;
}

std::string choice_name(const Choice& choice, int value) {
  for (const auto& [name, number] : choice.names)
    if (number == value) return name;
  return {};
}

std::string type_name(const Key& key) {
  return std::visit(TypeName{}, key.field);
}

std::string range_text(const Key& key) {
  const std::string type = type_name(key);
  if (type == "integer" || type == "list of integers") return integer_range(key.facts.integers);
  if (type == "number" || type == "two numbers") return real_range(key.facts.reals);
  return {};
}

}  // namespace tessera::config
