// SPDX-License-Identifier: Apache-2.0
// A config as sections and keys that a test changes one at a time, and the error that a change must give.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/check.h"
#include "framework/config/load.h"

namespace tessera::config_test {

class ConfigText {
 public:
  // The smallest valid config: a gpt with every required key.
  ConfigText() {
    set("run", "name", "\"test\"");
    set("model", "architecture", "\"gpt\"");
    set("model", "vocab_size", "1003");
    set("model", "hidden_size", "64");
    set("model", "num_hidden_layers", "3");
    set("model", "num_attention_heads", "4");
    set("train", "micro_batch_size", "2");
    set("train", "global_batch_size", "7");
    set("train", "seq_length", "33");
    set("train", "steps", "20");
    set("optimizer", "lr", "1e-3");
    set("data.sources", "path", "\"corpus.txt\"");
  }

  ConfigText& set(const std::string& section, const std::string& key, const std::string& value) {
    for (auto& [name, lines] : sections_) {
      if (name != section) continue;
      for (auto& line : lines) {
        if (line.first != key) continue;
        line.second = value;
        return *this;
      }
      lines.emplace_back(key, value);
      return *this;
    }
    sections_.push_back({section, {{key, value}}});
    return *this;
  }

  ConfigText& remove(const std::string& section, const std::string& key) {
    for (auto& [name, lines] : sections_)
      if (name == section) std::erase_if(lines, [&](const auto& line) { return line.first == key; });
    return *this;
  }

  ConfigText& remove(const std::string& section) {
    std::erase_if(sections_, [&](const auto& entry) { return entry.first == section; });
    return *this;
  }

  ConfigText& llama() {
    return set("model", "architecture", "\"llama\"").set("model", "intermediate_size", "176");
  }

  std::string text() const {
    std::string text;
    for (const auto& [name, lines] : sections_) {
      const bool is_list = name == "data.sources" || name == "data.stages" || name == "optimizer.groups";
      text += (is_list ? "[[" : "[") + name + (is_list ? "]]\n" : "]\n");
      for (const auto& [key, value] : lines) text += key + " = " + value + "\n";
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> sections_;
};

inline LoadedConfig load_text(const std::string& text, std::vector<std::string> overrides = {},
                              const std::map<std::string, std::string>& variables = {}) {
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return parse_config(text, {"run.toml", std::move(overrides), environment});
}

inline LoadedConfig load(const ConfigText& config, std::vector<std::string> overrides = {}) {
  return load_text(config.text(), std::move(overrides));
}

// The message of the usage error, or "no error".
inline std::string error_of(const std::string& text, std::vector<std::string> overrides = {},
                            const std::map<std::string, std::string>& variables = {}) {
  try {
    load_text(text, std::move(overrides), variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage) << error.what();
    return error.what();
  }
  return "no error";
}

inline std::string error_of(const ConfigText& config, std::vector<std::string> overrides = {}) {
  return error_of(config.text(), std::move(overrides));
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
}

}  // namespace tessera::config_test
