// SPDX-License-Identifier: Apache-2.0
// The one table of sections and keys: name, type, place in RunConfig, range, unit, default, help, aliases.
// Reading, errors, overrides, printing, docs/config.md and the JSON Schema all come from it, so a new key is
// one line here. A default is the initial value in run_config.h; default_text is for one that is derived.
#pragma once
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "framework/config/run_config.h"

namespace tessera::config {

// A reference into a RunConfig. The index chooses the element in a section that is a list.
template <class T>
using Access = std::function<T&(RunConfig&, size_t)>;

// One of a few names. Several names may stand for one value; the first is the one that is printed.
struct Choice {
  std::vector<std::pair<std::string, int>> names;
  std::function<int(RunConfig&, size_t)> get;
  std::function<void(RunConfig&, size_t, int)> set;
};

using Field = std::variant<std::monostate, Access<bool>, Access<int64_t>, Access<std::optional<int64_t>>,
                           Access<double>, Access<std::optional<double>>, Access<std::string>,
                           Access<std::vector<std::string>>, Access<std::vector<int64_t>>,
                           Access<std::vector<double>>, Access<std::array<double, 2>>, Choice>;

struct IntegerRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
};

struct RealRange {
  double min = 0.0;
  double max = 0.0;
  bool above_min = false;  // min itself is out
  bool below_max = false;  // max itself is out
};

enum class Presence : uint8_t {
  Defaulted,
  Required,
  Optional,  // absent has a meaning of its own
  Derived,   // the reader works it out from other keys
};

enum class Text : uint8_t { Plain, Name, InputPath, OutputPath };

// What a key has beside its name and its field.
struct Facts {
  Presence presence = Presence::Defaulted;
  IntegerRange integers = {};
  RealRange reals = {};
  Text text = Text::Plain;
  std::string unit = {};
  std::string default_text = {};          // of a Derived or Optional key, in words
  std::vector<std::string> aliases = {};  // names of other trainers for the same thing
  // Values of a string, or of the items of a list. Of an InputPath: names for what needs no file; anything
  // else with a '.' or a '/' in it is a path.
  std::vector<std::string> allowed = {};
  std::string help = {};
};

struct Key {
  std::string name;
  Field field;  // none: known, but no code reads it; using it is refused
  Facts facts;

  bool is_later() const { return std::holds_alternative<std::monostate>(field); }
};

struct Section {
  enum class Kind : uint8_t {
    Table,
    OptionalTable,  // absent has a meaning of its own
    List,           // [[name]]
    Later,          // known, but no code reads it; using it is refused
  };

  std::string name;  // with dots: model.rope
  Kind kind = Kind::Table;
  std::string help;
  std::vector<Key> keys;
  std::function<size_t(RunConfig&)> count;  // elements that exist: 1 for a Table
  std::function<void(RunConfig&)> append;   // makes one more element

  const Key* find(std::string_view key) const;
  const Key* find_alias(std::string_view alias) const;
};

// Every section, parents before their children.
const std::vector<Section>& schema();
const Section* find_section(std::string_view name);
// Last parts of the names of the tables inside one; "" is the whole file.
std::vector<std::string> child_names(std::string_view parent);

const std::vector<std::string>& architectures();
// Sets the model's defaults to those of a family. Unknown families leave everything as it is.
void apply_architecture_defaults(ModelSection& model, std::string_view architecture);

std::string choice_name(const Choice& choice, int value);
std::string type_name(const Key& key);   // "integer", "list of strings", ...
std::string range_text(const Key& key);  // "1 to 4096"; empty when the key has no range

}  // namespace tessera::config
