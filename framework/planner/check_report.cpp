// SPDX-License-Identifier: Apache-2.0
#include "framework/planner/check_report.h"

#include <nlohmann/json.hpp>

#include "framework/base/size_text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// 124439808 as "124,439,808".
std::string grouped(int64_t value) {
  std::string digits = fmt::format("{}", value);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string flops_text(double flops) {
  return scaled_text(flops, 1000, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"});
}

std::string_view name_of(FloatType type) {
  switch (type) {
    case FloatType::Bf16:
      return "bf16";
    case FloatType::Fp16:
      return "fp16";
    case FloatType::Fp32:
      break;
  }
  return "fp32";
}

struct Term {
  const char* name;
  int64_t bytes;
  std::string meaning;
};

std::vector<Term> memory_terms(const CheckFacts& facts) {
  const MemoryPlan& memory = facts.memory;
  const RunConfig& config = facts.config;
  const std::string_view compute = name_of(config.precision.compute);
  const bool narrow = config.precision.grad_accumulate == PrecisionSection::GradAccumulate::Compute;
  return {
      {"parameters", memory.parameters, std::string(compute)},
      {"masters", memory.masters, memory.masters > 0 ? "fp32" : "the parameters themselves"},
      {"gradients", memory.gradients, std::string(narrow ? compute : "fp32")},
      {"optimizer", memory.optimizer,
       config.optimizer.type == OptimizerSection::Type::AdamW ? "two moments, fp32" : "velocity, fp32"},
      {"constants", memory.constants, "tables and scalars"},
      {"batches", memory.batches, "tokens, targets and masks of a step"},
      {"activations", memory.activations,
       fmt::format("{} kept by a micro-batch, the rest in flight; {} of {} blocks recomputed",
                   bytes_text(memory.saved()), facts.recomputed_blocks, config.model.num_hidden_layers)},
      {"workspace", memory.workspace, fmt::format("kernels with {} threads", facts.threads_per_rank)},
      {"communication", memory.communication, "gradients in the type that travels"},
  };
}

struct BatchFacts {
  int64_t microbatches, rows, length, samples, tokens, steps;
  int64_t rows_run;  // samples, and rows of padding that fill the last micro-batch
};

BatchFacts batch_facts(const CheckFacts& facts) {
  const TrainSection& train = facts.config.train;
  return {.microbatches = train.gradient_accumulation_steps,
          .rows = train.micro_batch_size,
          .length = train.seq_length,
          .samples = train.global_batch_size,
          .tokens = train.global_batch_size * train.seq_length,
          .steps = train.steps,
          .rows_run = train.gradient_accumulation_steps * train.micro_batch_size * facts.config.parallel.dp};
}

// In the unit and with the terms of the literature.
std::string model_states_text(const MemoryPlan& memory) {
  const auto gigabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  return fmt::format(
      "model states     {:.2f} GB = {:.2f} parameters + {:.2f} gradients + {:.2f} masters and optimizer; {} "
      "bytes, {} of them padding\n",
      gigabytes(memory.model_states()), gigabytes(memory.parameters), gigabytes(memory.gradients),
      gigabytes(memory.masters + memory.optimizer), grouped(memory.model_states()), grouped(memory.padding));
}

std::string memory_text(const CheckFacts& facts) {
  const MemoryPlan& memory = facts.memory;
  std::string text = "memory of a rank\n";
  for (const Term& term : memory_terms(facts))
    text += fmt::format("  {:<14} {:>11}   {}\n", term.name, bytes_text(term.bytes), term.meaning);
  text += fmt::format("  {:<14} {:>11}   {} bytes\n", "peak", bytes_text(memory.step_peak()),
                      grouped(memory.step_peak()));
  if (memory.snapshot > 0)
    text += fmt::format("  {:<14} {:>11}   more while a checkpoint is written: {} in all\n", "snapshot",
                        bytes_text(memory.snapshot), bytes_text(memory.peak()));
  if (facts.config.activation_checkpointing.offload || memory.offloaded > 0)
    text += memory.offloaded > 0
                ? fmt::format(
                      "offload          {} of activations leave this rank's memory and come back in a "
                      "step\n",
                      bytes_text(memory.offloaded))
                : "offload          nothing leaves: too little work lies between each forward and its "
                  "backward\n";
  text += model_states_text(memory);
  const int64_t needed = memory.peak() * facts.ranks_here;
  text += fmt::format("this machine     {} free, {} rank{} here would need {}: {}\n",
                      bytes_text(facts.free_bytes), facts.ranks_here, facts.ranks_here == 1 ? "" : "s",
                      bytes_text(needed), needed <= facts.free_bytes ? "fits" : "DOES NOT FIT");
  return text;
}

}  // namespace

double model_flops_per_step(const CheckFacts& facts) {
  const BatchFacts batch = batch_facts(facts);
  const double useful = static_cast<double>(batch.samples) / static_cast<double>(batch.rows_run);
  return facts.memory.model_flops * facts.ranks * useful;
}

std::string check_text(const CheckFacts& facts) {
  const BatchFacts batch = batch_facts(facts);
  const ParameterCounts counts = count_parameters(facts.model.parameters);
  const int64_t data_ranks = facts.config.parallel.dp;
  std::string text = fmt::format("config           valid\nmesh             {}: {} rank{}\n", facts.mesh,
                                 facts.ranks, facts.ranks == 1 ? "" : "s");
  text += fmt::format(
      "step             {} samples = {} micro-batch{} of {} sample{} on each of {} data rank{}{}\n",
      grouped(batch.samples), grouped(batch.microbatches), batch.microbatches == 1 ? "" : "es", batch.rows,
      batch.rows == 1 ? "" : "s", data_ranks, data_ranks == 1 ? "" : "s",
      batch.rows_run == batch.samples
          ? ""
          : fmt::format(" (the last {} rows are padding)", batch.rows_run - batch.samples));
  text += fmt::format("                 {} tokens = {} samples of {}\n", grouped(batch.tokens),
                      grouped(batch.samples), grouped(batch.length));
  text += fmt::format("run              {} steps, {} tokens\n", grouped(batch.steps),
                      grouped(batch.steps * batch.tokens));
  text += fmt::format("parameters       {} ({} in embeddings, {} in the rest)\n", grouped(counts.total),
                      grouped(counts.embedding), grouped(counts.rest()));
  text += memory_text(facts);
  const double flops = model_flops_per_step(facts);
  text += fmt::format(
      "work             {} a step over all ranks, {} a token (of whole rows, without padding and "
      "recomputation)\n",
      flops_text(flops), flops_text(flops / static_cast<double>(batch.tokens)));
  return text;
}

std::string check_json(const CheckFacts& facts) {
  const BatchFacts batch = batch_facts(facts);
  const ParameterCounts counts = count_parameters(facts.model.parameters);
  const MemoryPlan& plan = facts.memory;
  const ParallelSection& parallel = facts.config.parallel;
  Json memory;
  for (const Term& term : memory_terms(facts)) memory[term.name] = term.bytes;
  memory["model_states"] = plan.model_states();
  memory["padding"] = plan.padding;
  memory["step_peak"] = plan.step_peak();
  memory["snapshot"] = plan.snapshot;
  memory["peak"] = plan.peak();
  memory["saved_by_unit"] = plan.saved_by_unit;
  memory["offloaded_in_a_step"] = plan.offloaded;
  const double flops = model_flops_per_step(facts);
  const Json json = {
      {"mesh",
       {{"tp", parallel.tp},
        {"sp", parallel.sp},
        {"dp", parallel.dp},
        {"pp", parallel.pp},
        {"ep", parallel.ep},
        {"ranks", facts.ranks}}},
      {"batch",
       {{"micro_batch_size", batch.rows},
        {"micro_batches", batch.microbatches},
        {"samples_per_step", batch.samples},
        {"tokens_per_step", batch.tokens},
        {"steps", batch.steps}}},
      {"parameters",
       {{"total", counts.total},
        {"embedding", counts.embedding},
        {"non_embedding", counts.rest()},
        {"trainable", counts.trainable}}},
      {"memory_bytes", memory},
      {"recomputed_blocks", facts.recomputed_blocks},
      {"machine",
       {{"free_bytes", facts.free_bytes},
        {"ranks_here", facts.ranks_here},
        {"fits", plan.peak() * facts.ranks_here <= facts.free_bytes}}},
      {"flops",
       {{"model_per_step", flops},
        {"model_per_token", flops / static_cast<double>(batch.tokens)},
        {"hardware_per_step", plan.hardware_flops * facts.ranks}}},
  };
  return json.dump(1) + "\n";
}

}  // namespace tessera
