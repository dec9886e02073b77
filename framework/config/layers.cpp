// SPDX-License-Identifier: Apache-2.0
#include "framework/config/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "framework/config/file_text.h"
#include "framework/config/schema.h"

namespace tessera::config {
namespace {

namespace fs = std::filesystem;

// One name for one file, whatever way leads to it.
std::string identity_of(const fs::path& path) {
  std::error_code error;
  return fs::weakly_canonical(path, error).string();
}

void rename_keys(Value& table, const Section& section, std::vector<std::string>& notes) {
  for (Value::Entry& entry : table.entries) {
    const Key* key = section.find(entry.key) ? nullptr : section.find_alias(entry.key);
    if (key == nullptr) continue;
    if (table.find(key->name) != nullptr)
      fail_at(entry.place, "{} and {} are one key of [{}], and both are given", entry.key, key->name,
              section.name);
    notes.push_back(
        fmt::format("{}: {} is read as {}.{}", entry.place.text(), entry.key, section.name, key->name));
    entry.key = key->name;
  }
}

// Renames aliases in every known section of the tree.
void rename_aliases(Value& table, const std::string& name, std::vector<std::string>& notes) {
  if (const Section* section = find_section(name)) rename_keys(table, *section, notes);
  for (const std::string& child : child_names(name)) {
    Value::Entry* entry = table.find(child);
    if (entry == nullptr) continue;
    const std::string path = name.empty() ? child : name + "." + child;
    if (entry->value.kind == Value::Kind::Table) rename_aliases(entry->value, path, notes);
    for (Value& item : entry->value.items)
      if (item.kind == Value::Kind::Table) rename_aliases(item, path, notes);
    // --set data.sources.0.KEY=VALUE: a table of numbers stands for the list.
    for (Value::Entry& item : entry->value.entries)
      if (find_section(path) != nullptr && find_section(path)->kind == Section::Kind::List)
        rename_aliases(item.value, path, notes);
  }
}

// steps, samples and tokens say one thing in three ways: a layer that gives one takes back the others.
void replace_run_length(Value& below, const Value& above) {
  const Value::Entry* from = above.find("train");
  Value::Entry* to = below.find("train");
  if (from == nullptr || to == nullptr) return;
  const auto is_length = [](std::string_view key) {
    return key == "steps" || key == "samples" || key == "tokens";
  };
  const auto& given = from->value.entries;
  if (std::none_of(given.begin(), given.end(),
                   [&](const Value::Entry& entry) { return is_length(entry.key); }))
    return;
  std::erase_if(to->value.entries, [&](const Value::Entry& entry) { return is_length(entry.key); });
}

void put_on_top(Value& below, Value above) {
  replace_run_length(below, above);
  merge(below, std::move(above));
}

class FileReader {
 public:
  FileReader(const Environment& environment, std::vector<std::string>& notes)
      : environment_(environment), notes_(notes) {}

  Value read(const fs::path& path, std::string_view text) {
    const auto origin = std::make_shared<const Origin>(Origin{path.string(), path.parent_path(), true});
    Value root = parse_toml(text, origin, environment_);
    std::optional<Value::Entry> base = take_base(root);
    rename_aliases(root, "", notes_);
    if (!base) return root;
    open_.push_back(identity_of(path));
    Value below = read_base(*base);
    open_.pop_back();
    put_on_top(below, std::move(root));
    return below;
  }

 private:
  static std::optional<Value::Entry> take_base(Value& root) {
    Value::Entry* found = root.find("base");
    if (found == nullptr) return std::nullopt;
    if (found->value.kind != Value::Kind::String)
      fail_at(found->value.place, "base must be a string, and is {}", describe(found->value));
    Value::Entry base = std::move(*found);
    root.entries.erase(root.entries.begin() + (found - root.entries.data()));
    return base;
  }

  Value read_base(const Value::Entry& base) {
    const Place& place = base.value.place;
    if (base.value.string.find('\0') != std::string::npos) fail_at(place, "base has a zero byte in its name");
    const fs::path path = (place.origin->folder / base.value.string).lexically_normal();
    if (std::find(open_.begin(), open_.end(), identity_of(path)) != open_.end())
      fail_at(place, "base {} reads this file again: the bases go round in a circle", path.string());
    const FileText file = read_file(path);
    if (!file.problem.empty()) fail_at(place, "base {}: {}", path.string(), file.problem);
    return read(path, file.text);
  }

  const Environment& environment_;
  std::vector<std::string>& notes_;
  std::vector<std::string> open_;  // canonical names of the files that are waiting for their base
};

}  // namespace

Layers read_layers(const ConfigRequest& request, const std::string_view* text) {
  Layers layers;
  FileReader reader(request.environment, layers.notes);
  if (text != nullptr) {
    layers.root = reader.read(request.file, *text);
  } else {
    const FileText file = read_file(request.file);
    if (!file.problem.empty()) fail(ExitCode::Usage, "{}: {}", request.file.string(), file.problem);
    layers.root = reader.read(request.file, file.text);
  }
  for (const std::string& argument : request.overrides) {
    Value layer = parse_override(argument, request.environment);
    if (layer.find("base") != nullptr)
      fail_at(layer.entries.front().place, "base is read at the top of a file only");
    rename_aliases(layer, "", layers.notes);
    put_on_top(layers.root, std::move(layer));
  }
  return layers;
}

}  // namespace tessera::config
