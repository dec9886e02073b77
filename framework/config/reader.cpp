// SPDX-License-Identifier: Apache-2.0
#include "framework/config/reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/names.h"
#include "framework/config/schema.h"
#include "framework/config/value_reader.h"

namespace tessera::config {
namespace {

std::string join(const std::string& parent, const std::string& child) {
  return parent.empty() ? child : parent + "." + child;
}

std::string section_label(const std::string& name) {
  return name.empty() ? std::string("the top of the file") : "[" + name + "]";
}

// Where else a name is known, as "[train]", "[logging] or [checkpoint]", "[model.rope] as theta".
std::string home_of(std::string_view name) {
  std::string homes;
  for (const Section& section : schema()) {
    const Key* key = section.find(name);
    const Key* meant = key ? key : section.find_alias(name);
    if (meant == nullptr) continue;
    if (!homes.empty()) homes += " or ";
    homes += section_label(section.name);
    if (meant != key) homes += " as " + meant->name;
  }
  return homes;
}

std::string home_of_section(std::string_view name) {
  for (const Section& section : schema()) {
    const size_t dot = section.name.rfind('.');
    if (dot != std::string::npos && section.name.substr(dot + 1) == name) return section_label(section.name);
  }
  return {};
}

std::vector<std::string> known_names(const Section* section, const std::string& path) {
  std::vector<std::string> names = child_names(path);
  if (section != nullptr) {
    for (const Key& key : section->keys) {
      names.push_back(key.name);
      names.insert(names.end(), key.facts.aliases.begin(), key.facts.aliases.end());
    }
  }
  return names;
}

// A near name in any section, as " (did you mean 'seq_length' of [train]?)".
std::string nearest_anywhere(std::string_view name) {
  std::vector<std::string> names;
  for (const Section& section : schema())
    for (const Key& key : section.keys) names.push_back(key.name);
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? std::string()
                         : fmt::format(" (did you mean '{}' of {}?)", nearest, home_of(nearest));
}

[[noreturn]] void fail_unknown(const Value::Entry& entry, const Section* section, const std::string& path) {
  const bool is_table = entry.value.kind == Value::Kind::Table;
  const std::string name = toml_string(entry.key);
  const std::string bare = name.substr(1, name.size() - 2);
  const char* kind = is_table ? "section" : "key";
  const std::string where = path.empty() && !is_table ? " outside a section"
                            : path.empty()            ? ""
                                                      : " in [" + path + "]";
  std::string hint;
  if (const std::string home = is_table ? home_of_section(entry.key) : home_of(entry.key); !home.empty())
    hint = is_table ? fmt::format(" (did you mean {}?)", home) : fmt::format(" (it belongs to {})", home);
  if (hint.empty()) hint = did_you_mean(entry.key, known_names(section, path));
  if (hint.empty() && !is_table) hint = nearest_anywhere(entry.key);
  fail_at(entry.place, "unknown {} '{}'{}{}", kind, bare, where, hint);
}

class SectionReader {
 public:
  SectionReader(RunConfig& config, Given& given) : config_(config), given_(given) {}

  // `table` is null when the section is not in the file. `path` names it with its index, as users see it.
  void read(const Section* section, const Value* table, const std::string& name, const std::string& path,
            size_t index) {
    if (table != nullptr)
      for (const Value::Entry& entry : table->entries) read_entry(section, entry, name, path, index);
    if (section != nullptr) require_keys(*section, path);
    for (const std::string& child : child_names(name))
      if (table == nullptr || table->find(child) == nullptr)
        read_child(join(name, child), nullptr, join(path, child));
  }

 private:
  void read_entry(const Section* section, const Value::Entry& entry, const std::string& name,
                  const std::string& path, size_t index) {
    const std::string entry_path = join(path, entry.key);
    const Key* key = section ? section->find(entry.key) : nullptr;
    if (key != nullptr && key->is_later()) fail_at(entry.place, "{} is not built yet", entry_path);
    if (key != nullptr) {
      given_.add(entry_path, entry.value.place);
      read_value(*key, entry_path, entry.value, config_, index);
    } else if (find_section(join(name, entry.key)) != nullptr) {
      given_.add(entry_path, entry.place);
      read_child(join(name, entry.key), &entry, entry_path);
    } else {
      fail_unknown(entry, section, name);
    }
  }

  void read_child(const std::string& name, const Value::Entry* entry, const std::string& path) {
    const Section& section = *find_section(name);
    switch (section.kind) {
      case Section::Kind::Table:
        read(&section, table_of(section, entry), name, path, 0);
        return;
      case Section::Kind::OptionalTable:
        if (entry == nullptr) return;
        section.append(config_);
        read(&section, table_of(section, entry), name, path, 0);
        return;
      case Section::Kind::List:
        if (entry != nullptr) read_list(section, *entry, path);
        return;
      case Section::Kind::Later:
        if (entry != nullptr) fail_at(entry->place, "[{}] is not built yet", name);
        return;
    }
  }

  static const Value* table_of(const Section& section, const Value::Entry* entry) {
    if (entry != nullptr && entry->value.kind != Value::Kind::Table)
      fail_at(entry->value.place, "{} must be a section, and is {}", section.name, describe(entry->value));
    return entry ? &entry->value : nullptr;
  }

  void read_list(const Section& section, const Value::Entry& entry, const std::string& path) {
    const Value& list = entry.value;
    if (list.kind != Value::Kind::Array)
      fail_at(list.place, "{0} must be a list, and is {1} (write [[{0}]])", section.name, describe(list));
    for (const Value& item : list.items) {
      if (item.kind != Value::Kind::Table)
        fail_at(item.place, "{0} must be a list of tables, and holds {1} (write [[{0}]])", section.name,
                describe(item));
      const size_t index = section.count(config_);
      const std::string item_path = fmt::format("{}[{}]", path, index);
      section.append(config_);
      given_.add(item_path, item.place);
      read(&section, &item, section.name, item_path, index);
    }
  }

  void require_keys(const Section& section, const std::string& path) {
    std::string missing;
    for (const Key& key : section.keys) {
      if (key.facts.presence != Presence::Required || given_.has(join(path, key.name))) continue;
      missing += (missing.empty() ? "" : ", ") + key.name;
    }
    if (missing.empty()) return;
    fail_at(given_.at(path), "[{}] {} {}", section.name, given_.has(path) ? "lacks" : "is missing; it needs",
            missing);
  }

  RunConfig& config_;
  Given& given_;
};

}  // namespace

Place Given::at(std::string path) const {
  for (;;) {
    if (const auto found = places_.find(path); found != places_.end()) return found->second;
    if (path.empty()) return {};
    const size_t dot = path.rfind('.');
    path = dot == std::string::npos ? std::string() : path.substr(0, dot);
  }
}

RunConfig read_sections(const Value& root, Given& given) {
  RunConfig config;
  given.add("", root.place);
  const Value::Entry* model = root.find("model");
  const Value::Entry* architecture = model ? model->value.find("architecture") : nullptr;
  if (architecture != nullptr) apply_architecture_defaults(config.model, architecture->value.string);
  SectionReader(config, given).read(nullptr, &root, "", "", 0);
  return config;
}

}  // namespace tessera::config
