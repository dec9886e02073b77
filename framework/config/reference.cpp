// SPDX-License-Identifier: Apache-2.0
// docs/config.md, from the schema.
#include "framework/config/reference.h"

#include <fmt/format.h>

#include <string>

#include "framework/config/load.h"
#include "framework/config/rules.h"
#include "framework/config/writer.h"

namespace tessera {
namespace config {
namespace {

constexpr const char* kIntroduction = R"(# Config reference

Generated from the schema in framework/config; a test keeps it current. docs/config.schema.json says the same to
editors.

A config is a TOML file. An unknown key, a wrong type, a value out of range or keys that contradict each other end the
program with exit code 2 and `error: FILE:LINE:COL: what is wrong (did you mean 'x'?)`, before anything is written.

- `base = "other.toml"` at the top reads another file first: tables merge, everything else replaces.
- `--set section.key=value` comes last. The value is TOML, or else a bare word. `data.sources.0.path` names an item.
- `${NAME}` in a string is the environment variable; unset is an error. `$${` stands for the characters `${`.
- Input paths start at the folder of the file that names them, output paths at the current folder.
- Two of `micro_batch_size`, `global_batch_size` and `gradient_accumulation_steps` are required, and one of `steps`,
  `samples` and `tokens`.
- An integer is also a number; `8.0`, `"8"` and `true` are no integers.
- The resolved config in the run's folder holds every key and reads back to the same run.
)";

std::string quoted_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + fmt::format("`\"{}\"`", name);
  return text;
}

std::string type_cell(const Key& key) {
  if (const auto* choice = std::get_if<Choice>(&key.field)) {
    std::vector<std::string> names;
    for (const auto& [name, value] : choice->names) names.push_back(name);
    return quoted_names(names);
  }
  if (key.facts.allowed.empty()) return type_name(key);
  const bool is_list = std::holds_alternative<Access<std::vector<std::string>>>(key.field);
  const bool or_path = key.facts.text == Text::InputPath;
  return (is_list ? "list of " : "") + quoted_names(key.facts.allowed) + (or_path ? " or a path" : "");
}

std::string default_cell(const Section& section, const Key& key) {
  if (key.is_later()) return "";
  if (key.facts.presence == Presence::Required) return "**required**";
  if (!key.facts.default_text.empty()) return key.facts.default_text;
  std::string first, text;
  bool same = true;
  for (const std::string& architecture : architectures()) {
    const std::string value = default_value(section, key, architecture);
    if (first.empty()) first = value;
    same = same && value == first;
    text += fmt::format("{}{}: `{}`", text.empty() ? "" : "; ", architecture, value);
  }
  return same ? fmt::format("`{}`", first) : text;
}

std::string heading(const Section& section) {
  const bool is_list = section.kind == Section::Kind::List;
  return is_list ? "[[" + section.name + "]]" : "[" + section.name + "]";
}

std::string section_text(const Section& section) {
  std::string text = fmt::format("\n## {}\n\n{}\n", heading(section), section.help);
  if (section.kind == Section::Kind::Later) {
    text += "Not built yet: using it is refused.\n";
    return text;
  }
  text += "\n| key | type | default | range | unit | meaning |\n|---|---|---|---|---|---|\n";
  for (const Key& key : section.keys) {
    const std::string later = key.is_later() ? " Not built yet: using it is refused." : "";
    const std::string range = key.is_later() ? "" : range_text(key);
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} | {}{} |\n", key.name, key.is_later() ? "" : type_cell(key),
                    default_cell(section, key), range, key.facts.unit, key.facts.help, later);
  }
  return text;
}

std::string aliases_text() {
  std::string text =
      "\n## Names of other trainers\n\nRead with a note that names the key used here.\n\n| name | key "
      "|\n|---|---|\n";
  for (const Section& section : schema())
    for (const Key& key : section.keys)
      for (const std::string& alias : key.facts.aliases)
        text += fmt::format("| `{0}.{1}` | `{0}.{2}` |\n", section.name, alias, key.name);
  return text;
}

std::string unsupported_text() {
  std::string text =
      "\n## Values that are not built yet\n\nThe keys are known; asking for this is refused with exit code "
      "2.\n\n"
      "| key | what is not built |\n|---|---|\n";
  for (const UnsupportedFeature& feature : unsupported_features())
    text += fmt::format("| `{}` | {} |\n", feature.key, feature.what);
  return text;
}

}  // namespace

std::string default_value(const Section& section, const Key& key, const std::string& architecture) {
  RunConfig config;
  apply_architecture_defaults(config.model, architecture);
  if (section.count(config) == 0) section.append(config);
  return value_text(key, config, 0).value_or("");
}

}  // namespace config

std::string reference_markdown() {
  std::string text = config::kIntroduction;
  for (const config::Section& section : config::schema()) text += config::section_text(section);
  return text + config::aliases_text() + config::unsupported_text();
}

}  // namespace tessera
