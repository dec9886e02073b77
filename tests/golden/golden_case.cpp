// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/golden_case.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "framework/base/check.h"
#include "framework/config/load.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path folder() {
  return fs::path(TESSERA_SOURCE_DIR) / "tests/fixtures/golden";
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  CHECK(in.good(), "cannot read {}", path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// A JSON object of scalars as the lines of a TOML table.
std::string table(const std::string& section, const json& values) {
  std::string text = "[" + section + "]\n";
  for (const auto& [key, value] : values.items()) text += key + " = " + value.dump() + "\n";
  return text;
}

RunConfig config_of(const json& document) {
  json model = document["model"];
  model["vocab_size"] = 257;  // byte tokens, the tokenizer without a file, need as many
  std::string text = table("model", model);
  text += "architecture = " + document["architecture"].dump() + "\n";
  if (!document["rope"].empty()) text += table("model.rope", document["rope"]);
  if (!document["scaling"].empty()) text += table("model.rope.scaling", document["scaling"]);
  text += table("train", {{"seq_length", document["length"]},
                          {"steps", 3},
                          {"micro_batch_size", 2},
                          {"global_batch_size", 2},
                          {"label_smoothing", document["label_smoothing"]}});
  text += "[run]\nname = \"golden\"\n[optimizer]\nlr = 0.001\n";
  text += "[[data.sources]]\npath = \"text.txt\"\n";
  RunConfig config = parse_config(text, {.file = "golden.toml", .overrides = {}, .environment = {}}).config;
  config.model.vocab_size = document["model"]["vocab_size"];
  return config;
}

template <class T>
std::vector<T> take(const std::string& blob, size_t& offset, size_t count) {
  std::vector<T> values(count);
  CHECK(offset + count * sizeof(T) <= blob.size(), "a golden file ends early");
  std::memcpy(values.data(), blob.data() + offset, count * sizeof(T));
  offset += count * sizeof(T);
  return values;
}

}  // namespace

std::vector<std::string> golden_names() {
  return {"gpt", "gpt_variant", "llama", "llama_norms", "llama_window"};
}

GoldenCase read_golden(const std::string& name) {
  const json document = json::parse(bytes_of(folder() / (name + ".json")));
  const std::string blob = bytes_of(folder() / (name + ".bin"));
  const json& optimizer = document["optimizer"];
  GoldenCase result{.config = config_of(document),
                    .batches = {},
                    .losses = document["losses"],
                    .gradient_norms = document["gradient_norms"],
                    .learning_rates = optimizer["lr"],
                    .beta1 = optimizer["betas"][0],
                    .beta2 = optimizer["betas"][1],
                    .epsilon = optimizer["eps"],
                    .weight_decay = optimizer["weight_decay"],
                    .clip = optimizer["grad_clip"],
                    .tensors = {}};
  for (const json& batch : document["batches"]) {
    BatchSpec spec{.rows = batch["tokens"], .documents = document["documents"]};
    for (const json& row : batch["weights"])
      for (const json& weight : row) spec.weights.push_back(weight);
    result.batches.push_back(spec);
  }
  for (const json& entry : document["tensors"]) {
    GoldenTensor tensor{
        .shape = entry["shape"], .decays = entry["decays"], .initial = {}, .gradient = {}, .final = {}};
    size_t count = 1, offset = entry["offset"];
    for (const int64_t extent : tensor.shape) count *= static_cast<size_t>(extent);
    tensor.initial = take<float>(blob, offset, count);
    tensor.gradient = take<double>(blob, offset, count);
    tensor.final = take<double>(blob, offset, count);
    result.tensors.emplace(entry["name"], std::move(tensor));
  }
  return result;
}

}  // namespace tessera::test
