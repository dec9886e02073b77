// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "framework/config/arithmetic.h"
#include "framework/config/rules.h"
#include "framework/config/schema.h"
#include "framework/config/value_reader.h"

namespace tessera::config {
namespace {

void derive_heads(ModelSection& model, const Given& given) {
  if (!given.has("model.num_key_value_heads")) model.num_key_value_heads = model.num_attention_heads;
  if (given.has("model.head_dim")) return;
  if (model.hidden_size % model.num_attention_heads != 0)
    fail_at(given.at("model.hidden_size"),
            "model.hidden_size = {} does not divide by model.num_attention_heads = {} (nearest that work: "
            "hidden_size {}, num_attention_heads {}; or set head_dim)",
            model.hidden_size, model.num_attention_heads,
            nearest_multiples(model.hidden_size, model.num_attention_heads),
            nearest_divisors(model.hidden_size, model.num_attention_heads));
  model.head_dim = model.hidden_size / model.num_attention_heads;
}

void derive_model(ModelSection& model, const Given& given, int64_t seq_length) {
  derive_heads(model, given);
  if (!given.has("model.intermediate_size")) {
    if (model.architecture != "gpt")
      fail_at(given.at("model"), "[model] lacks intermediate_size, which {} needs", model.architecture);
    model.intermediate_size = 4 * model.hidden_size;
  }
  if (!given.has("model.max_position_embeddings")) model.max_position_embeddings = seq_length;
  if (!model.rope.scaling) return;
  RopeScaling& scaling = *model.rope.scaling;
  if (scaling.type == RopeScaling::Type::Yarn && !given.has("model.rope.scaling.attention_factor"))
    scaling.attention_factor = 0.1 * std::log(scaling.factor) + 1.0;
}

void derive_sources(DataSection& data, const Given& given) {
  for (size_t i = 0; i < data.sources.size(); ++i) {
    const std::string path = fmt::format("data.sources[{}]", i);
    if (given.has(path + ".name")) continue;
    data.sources[i].name = std::filesystem::path(data.sources[i].path).stem().string();
    if (data.sources[i].name.empty()) fail_at(given.at(path + ".path"), "{}.path names no file", path);
  }
}

}  // namespace

void derive_values(RunConfig& config, const Given& given) {
  derive_model(config.model, given, config.train.seq_length);
  derive_sources(config.data, given);
  if (!given.has("run.output_dir"))
    config.run.output_dir = absolute_path("runs/" + config.run.name, Text::OutputPath, given.at("run.name"));
  if (!given.has("checkpoint.dir"))
    config.checkpoint.dir = (std::filesystem::path(config.run.output_dir) / "checkpoints").string();
  if (!given.has("data.shuffle_seed")) config.data.shuffle_seed = config.run.seed;
  if (!given.has("parallel.sequence_parallel")) config.parallel.sequence_parallel = config.parallel.tp > 1;
  if (!given.has("precision.compute"))
    config.precision.compute =
        config.run.device == RunSection::Device::Cuda ? FloatType::Bf16 : FloatType::Fp32;
  if (!given.has("precision.loss_scale.type"))
    config.precision.loss_scale.type =
        config.precision.compute == FloatType::Fp16 ? LossScale::Type::Dynamic : LossScale::Type::None;
  if (!given.has("activation_checkpointing.mode"))
    config.activation_checkpointing.mode = config.parallel.schedule == "gpipe"
                                               ? ActivationCheckpointingSection::Mode::Stage
                                               : ActivationCheckpointingSection::Mode::None;
}

}  // namespace tessera::config
