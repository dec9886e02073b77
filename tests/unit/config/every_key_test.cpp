// SPDX-License-Identifier: Apache-2.0
// What must hold for every key of the schema: it is read, and a slip in its name, place, type or value ends
// with exit code 2.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/config/document.h"
#include "framework/config/reference.h"
#include "framework/config/schema.h"
#include "framework/config/value_reader.h"
#include "tests/unit/config/config_text.h"

namespace tessera::config_test {
namespace {

using config::Key;
using config::Section;

struct Row {
  const Section* section;
  const Key* key;
  std::string path() const { return section->name + "." + key->name; }
};

std::vector<Row> usable_keys() {
  std::vector<Row> rows;
  for (const Section& section : config::schema())
    for (const Key& key : section.keys)
      if (!key.is_later()) rows.push_back({&section, &key});
  return rows;
}

// A config in which the section may stand.
ConfigText around(const Section& section) {
  ConfigText text;
  if (section.name == "model.rope.scaling")
    text.llama().set(section.name, "type", "\"linear\"").set(section.name, "factor", "2.0");
  if (section.name == "optimizer.groups") text.set(section.name, "match", "\"blocks.*\"");
  if (section.name == "data.stages") text.set(section.name, "start", "0");
  return text;
}

// A value that the key takes; the default, where there is one.
std::string sample(const Row& row) {
  static const std::map<std::string, std::string> samples = {
      {"run.name", "\"test\""},
      {"run.output_dir", "\"out\""},
      {"run.threads_per_rank", "2"},
      {"run.peak_flops", "8e10"},
      {"model.architecture", "\"gpt\""},
      {"model.vocab_size", "1003"},
      {"model.hidden_size", "64"},
      {"model.intermediate_size", "176"},
      {"model.num_hidden_layers", "3"},
      {"model.num_attention_heads", "4"},
      {"model.num_key_value_heads", "2"},
      {"model.head_dim", "16"},
      {"model.max_position_embeddings", "64"},
      {"model.sliding_window", "7"},
      {"model.rope.scaling.type", "\"linear\""},
      {"model.rope.scaling.original_max_position_embeddings", ""},
      {"train.micro_batch_size", "2"},
      {"train.global_batch_size", "7"},
      {"train.gradient_accumulation_steps", "4"},
      {"train.seq_length", "33"},
      {"train.steps", "20"},
      {"train.samples", ""},
      {"train.tokens", ""},
      {"optimizer.groups.match", "\"blocks.*\""},
      {"optimizer.groups.weight_decay", "0.0"},
      {"lr_schedule.decay_steps", "20"},
      {"lr_schedule.wsd_decay_steps", "5"},
      {"parallel.live_activations", "4"},
      {"activation_checkpointing.num_layers", "3"},
      {"activation_checkpointing.memory_budget_gb", ""},
      {"tokenizer.path", ""},
      {"tokenizer.end_of_document", ""},
      {"tokenizer.pattern", ""},
      {"data.sources.name", "\"books\""},
      {"data.sources.path", "\"corpus.txt\""},
      {"data.stages.start", "5"},
      {"data.stages.start_tokens", ""},
      {"data.stages.seq_length", "16"},
      {"checkpoint.dir", "\"out/checkpoints\""},
      {"checkpoint.memory_budget_gb", "2.0"},
  };
  if (const auto found = samples.find(row.path()); found != samples.end()) return found->second;
  return config::default_value(*row.section, *row.key, "gpt");
}

bool is_known(const Section& section, const std::string& name) {
  const auto children = config::child_names(section.name);
  return section.find(name) || section.find_alias(name) ||
         std::find(children.begin(), children.end(), name) != children.end();
}

TEST(EveryKey, IsRead) {
  for (const Row& row : usable_keys()) {
    const std::string value = sample(row);
    if (value.empty()) continue;  // has a test of its own: it excludes another key
    EXPECT_EQ(error_of(around(*row.section).set(row.section->name, row.key->name, value)), "no error")
        << row.path() << " = " << value;
  }
}

TEST(EveryKey, WithALetterMissingIsUnknown) {
  int tried = 0;
  for (const Section& section : config::schema()) {
    for (const Key& key : section.keys) {
      for (const size_t i : {size_t{0}, key.name.size() / 2, key.name.size() - 1}) {
        const std::string name = std::string(key.name).erase(i, 1);
        if (name.empty() || is_known(section, name)) continue;
        const std::string error =
            error_of(around(section).remove(section.name, key.name).set(section.name, name, "1"));
        const bool refused = contains(error, "unknown key '" + name + "' in [" + section.name + "]") ||
                             (section.kind == Section::Kind::Later && contains(error, "] is not built yet"));
        EXPECT_TRUE(refused) << section.name << "." << name << ": " << error;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 300);
}

TEST(EveryKey, WithALetterMissingFindsItsName) {
  for (const Row& row : usable_keys()) {
    if (row.key->name.size() < 5) continue;
    const std::string name = std::string(row.key->name).erase(2, 1);
    if (is_known(*row.section, name)) continue;
    const std::string error = error_of(around(*row.section).set(row.section->name, name, "1"));
    EXPECT_TRUE(contains(error, "'" + row.key->name + "'") || contains(error, "it belongs to")) << error;
  }
}

TEST(EveryKey, InAnotherTableIsUnknownAndNamesItsOwn) {
  for (const Row& row : usable_keys()) {
    // The next few sections, from its own on; all of them would take long under the sanitizers.
    const auto& sections = config::schema();
    const size_t own = static_cast<size_t>(row.section - sections.data());
    for (size_t i = 1; i <= 5; ++i) {
      const Section& other = sections[(own + i) % sections.size()];
      if (other.kind == Section::Kind::Later || is_known(other, row.key->name)) continue;
      const std::string value = sample(row).empty() ? "1" : sample(row);
      const std::string error = error_of(around(other).set(other.name, row.key->name, value));
      EXPECT_TRUE(
          contains(error, "unknown key '" + row.key->name + "' in [" + other.name + "] (it belongs to "));
      EXPECT_TRUE(contains(error, "[" + row.section->name + "]"));
    }
    const std::string outside = error_of(row.key->name + " = 1\n" + ConfigText().text());
    EXPECT_TRUE(contains(outside, "run.toml:1:1: unknown key '" + row.key->name + "' outside a section"));
  }
}

TEST(EveryKey, OfAnotherTypeIsRefused) {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"integer", "8"},       {"number", "8.0"}, {"string", "\"8\""},        {"boolean", "true"},
      {"date", "1979-05-27"}, {"list", "[]"},    {"list of tables", "[{}]"}, {"table", "{}"}};
  for (const Row& row : usable_keys()) {
    const std::string type = config::type_name(*row.key);
    for (const auto& [kind, value] : values) {
      const bool same = kind == type || (kind == "integer" && type == "number") ||
                        (kind == "list" && type.starts_with("list"));
      if (same) continue;
      const std::string error = error_of(around(*row.section).set(row.section->name, row.key->name, value));
      EXPECT_TRUE(contains(error, " must be ")) << row.path() << " = " << value;
    }
  }
}

TEST(EveryKey, GivenTwiceIsRefused) {
  for (const Row& row : usable_keys()) {
    const std::string line = row.key->name + " = 1\n";
    const std::string error = error_of("[" + row.section->name + "]\n" + line + line);
    EXPECT_TRUE(contains(error, "run.toml:3:")) << row.path();
    EXPECT_TRUE(contains(error, "not valid TOML: ")) << row.path();
  }
}

// Reads `key = value` by itself: what holds between keys is tested elsewhere.
bool is_accepted(const Row& row, const std::string& value) {
  RunConfig run;
  if (row.section->count(run) == 0) row.section->append(run);
  const auto origin = std::make_shared<const config::Origin>(config::Origin{"run.toml", {}, true});
  try {
    const config::Value root = config::parse_toml("key = " + value, origin, {});
    config::read_value(*row.key, row.path(), root.find("key")->value, run, 0);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return false;
  }
}

std::string wrapped(const Row& row, const std::string& value) {
  const std::string type = config::type_name(*row.key);
  if (type == "two numbers") return fmt::format("[{0}, {0}]", value);
  return type.starts_with("list") ? "[" + value + "]" : value;
}

TEST(EveryNumber, StopsAtItsBounds) {
  int integers = 0, reals = 0;
  for (const Row& row : usable_keys()) {
    const std::string type = config::type_name(*row.key);
    if (type == "integer" || type == "list of integers") {
      const auto& range = row.key->facts.integers;
      EXPECT_LT(range.min, range.max) << row.path();
      EXPECT_TRUE(is_accepted(row, wrapped(row, fmt::format("{}", range.min)))) << row.path();
      EXPECT_TRUE(is_accepted(row, wrapped(row, fmt::format("{}", range.max)))) << row.path();
      EXPECT_FALSE(is_accepted(row, wrapped(row, fmt::format("{}", range.min - 1)))) << row.path();
      const auto above = static_cast<uint64_t>(range.max) + 1;
      EXPECT_FALSE(is_accepted(row, wrapped(row, fmt::format("{}", above)))) << row.path();
      ++integers;
    } else if (type == "number" || type == "two numbers") {
      const auto& range = row.key->facts.reals;
      const double infinity = HUGE_VAL;
      EXPECT_LT(range.min, range.max) << row.path();
      const auto accepts = [&](double value) {
        return is_accepted(row, wrapped(row, config::toml_real(value)));
      };
      EXPECT_EQ(accepts(range.min), !range.above_min) << row.path();
      EXPECT_EQ(accepts(range.max), !range.below_max) << row.path();
      EXPECT_TRUE(accepts(std::nextafter(range.min, infinity))) << row.path();
      EXPECT_TRUE(accepts(std::nextafter(range.max, -infinity))) << row.path();
      EXPECT_FALSE(accepts(std::nextafter(range.min, -infinity))) << row.path();
      EXPECT_FALSE(accepts(std::nextafter(range.max, infinity))) << row.path();
      ++reals;
    }
  }
  EXPECT_GT(integers, 35);
  EXPECT_GT(reals, 25);
}

TEST(EveryNumber, RefusesWhatIsNoNumberOfItsKind) {
  for (const Row& row : usable_keys()) {
    const std::string type = config::type_name(*row.key);
    const bool integer = type.find("integer") != std::string::npos;
    if (!integer && type.find("number") == std::string::npos) continue;
    std::vector<std::string> values = {
        "nan", "-nan", "inf", "-inf", "1e400", "-1e400", "100000000000000000000"};
    if (integer) values.insert(values.end(), {"1e20", "1e3", "0xFFFFFFFFFFFFFFFFF", "-9223372036854775809"});
    if (!integer || row.key->facts.integers.min >= 0) values.push_back("-1");
    for (const std::string& value : values)
      EXPECT_FALSE(is_accepted(row, wrapped(row, value))) << row.path() << " = " << value;
    EXPECT_TRUE(
        contains(error_of(around(*row.section).set(row.section->name, row.key->name, wrapped(row, "1e400"))),
                 "run.toml:"));
  }
}

TEST(EveryNumber, TakesDigitGroupsAndExponents) {
  EXPECT_EQ(load(ConfigText().set("train", "steps", "1_000")).config.train.steps, 1000);
  EXPECT_EQ(load(ConfigText().set("optimizer", "lr", "1e-3")).config.optimizer.lr, 1e-3);
  EXPECT_EQ(load(ConfigText().set("train", "grad_clip", "1")).config.train.grad_clip, 1.0);
}

TEST(EveryAlias, ReadsItsKeyWithANote) {
  int tried = 0;
  for (const Row& row : usable_keys()) {
    const std::string value = sample(row);
    if (value.empty()) continue;
    for (const std::string& alias : row.key->facts.aliases) {
      ConfigText plain = around(*row.section).set(row.section->name, row.key->name, value);
      ConfigText other =
          around(*row.section).remove(row.section->name, row.key->name).set(row.section->name, alias, value);
      try {
        const LoadedConfig loaded = load(other);
        EXPECT_TRUE(differences(load(plain).config, loaded.config).empty()) << alias;
        ASSERT_EQ(loaded.notes.size(), load(plain).notes.size() + 1) << alias;
        EXPECT_TRUE(contains(loaded.notes[0], ": " + alias + " is read as " + row.path()));
      } catch (const Error& error) {
        ADD_FAILURE() << alias << ": " << error.what();
      }
      const std::string both = error_of(plain.set(row.section->name, alias, value));
      EXPECT_TRUE(contains(both, alias + " and " + row.key->name + " are one key")) << both;
      ++tried;
    }
  }
  EXPECT_GT(tried, 50);
}

TEST(EveryLaterKey, SaysThatItIsNotBuilt) {
  int tried = 0;
  for (const Section& section : config::schema()) {
    for (const Key& key : section.keys) {
      if (!key.is_later()) continue;
      EXPECT_TRUE(contains(error_of(ConfigText().set(section.name, key.name, "1")), "is not built yet"))
          << key.name;
      ++tried;
    }
  }
  EXPECT_GT(tried, 30);
}

}  // namespace
}  // namespace tessera::config_test
