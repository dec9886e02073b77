// SPDX-License-Identifier: Apache-2.0
#include "framework/train/compare_config.h"

#include "framework/config/resolve.h"

namespace tessera {
namespace {

constexpr const char* kOneRank = "one rank";

// The words of a layout; spaces inside quotes and brackets are part of a word.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  int depth = 0;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n';
    if (space && quote == 0 && depth == 0) {
      if (!word.empty()) words.push_back(std::exchange(word, {}));
      continue;
    }
    if (quote != 0)
      quote = c == quote ? 0 : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    word += c;
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

}  // namespace

std::vector<std::string> layout_overrides(std::string_view layout) {
  std::vector<std::string> overrides;
  for (const std::string& word : words_of(layout)) {
    const size_t equals = word.find('=');
    CHECK_AS(ExitCode::Usage, equals != std::string::npos && equals > 0 && equals + 1 < word.size(),
             "--layout \"{}\": '{}' is no key=value, such as tp=2 or train.micro_batch_size=2", layout, word);
    const bool bare = word.find('.') >= equals;
    overrides.push_back((bare ? "parallel." : "") + word);
  }
  return overrides;
}

// A batch key that the config leaves out depends on dp. What the first layout that was asked for makes of it
// holds for all.
void resolve_layouts(std::vector<CompareLayout>& layouts) {
  RunConfig first = layouts[layouts[0].name == kOneRank ? 1 : 0].config;
  resolve_parallel(first, mesh_ranks(first));
  const int64_t global = first.train.global_batch_size;
  for (CompareLayout& layout : layouts) {
    TrainSection& train = layout.config.train;
    const bool left_out = train.global_batch_size == 0;
    if (left_out) train.global_batch_size = global;
    if (left_out && train.micro_batch_size > 0) train.gradient_accumulation_steps = 0;
    resolve_parallel(layout.config, mesh_ranks(layout.config));
    CHECK_AS(
        ExitCode::Usage, train.global_batch_size == global,
        "layout \"{}\" trains train.global_batch_size = {} samples a step, and \"{}\" trains {}: nothing to "
        "compare",
        layout.name, train.global_batch_size, layouts[0].name, global);
  }
}

LayoutConfigs layout_configs(const ConfigRequest& request, const std::vector<std::string>& layouts) {
  LayoutConfigs result;
  const auto load = [&](const std::vector<std::string>& overrides) {
    ConfigRequest one = request;
    one.overrides.insert(one.overrides.end(), overrides.begin(), overrides.end());
    LoadedConfig loaded = load_config(one);
    if (result.layouts.empty()) result.notes = std::move(loaded.notes);
    return std::move(loaded.config);
  };
  if (layouts.size() < 2) {
    result.layouts.push_back({.name = kOneRank, .config = load({})});
    result.layouts[0].config.parallel = {};
    result.layouts[0].config.parallel.dp = 1;
  }
  if (layouts.empty()) result.layouts.push_back({.name = "the config's own", .config = load({})});
  for (const std::string& text : layouts)
    result.layouts.push_back({.name = text, .config = load(layout_overrides(text))});
  return result;
}

}  // namespace tessera
