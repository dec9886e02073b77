// SPDX-License-Identifier: Apache-2.0
#include "framework/config/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "framework/base/check.h"
#include "framework/config/arithmetic.h"
#include "framework/config/rules.h"
#include "framework/config/schema_sections.h"

namespace tessera {
namespace config {
namespace {

// Rows that fill up the last micro-batch have weight zero, so the sizes need not divide: they agree when
// neither the micro-batch nor their number could be smaller.
Problem resolve_batch(TrainSection& train, int64_t dp) {
  int64_t& micro = train.micro_batch_size;
  int64_t& global = train.global_batch_size;
  int64_t& accumulation = train.gradient_accumulation_steps;
  const auto largest = product({std::max<int64_t>(1, micro), std::max<int64_t>(1, accumulation), dp});
  if (!largest || *largest > kMostSamples)
    return {"train",
            fmt::format("train.micro_batch_size = {} on {} data ranks, {} times, is a batch of more than {} "
                        "samples",
                        micro, dp, accumulation, kMostSamples)};
  if (global == 0) global = *largest;
  if (accumulation == 0) accumulation = divide_up(global, micro * dp);
  if (micro == 0) micro = divide_up(global, accumulation * dp);
  if (accumulation == divide_up(global, micro * dp) || micro == divide_up(global, accumulation * dp))
    return {};
  return {"train.gradient_accumulation_steps",
          fmt::format(
              "train.micro_batch_size = {}, global_batch_size = {} and gradient_accumulation_steps = {} "
              "contradict each other at dp = {} (leave one out, or set gradient_accumulation_steps = {} or "
              "global_batch_size = {})",
              micro, global, accumulation, dp, divide_up(global, micro * dp), micro * accumulation * dp)};
}

Problem resolve_steps(TrainSection& train) {
  const int64_t samples_per_step = train.global_batch_size;
  const auto tokens_per_step = product({samples_per_step, train.seq_length});
  const std::string key = train.tokens ? "train.tokens" : train.samples ? "train.samples" : "train.steps";
  if (train.samples) train.steps = divide_up(*train.samples, samples_per_step);
  if (train.tokens && tokens_per_step) train.steps = divide_up(*train.tokens, *tokens_per_step);
  train.samples.reset();
  train.tokens.reset();
  const auto tokens = product({train.steps, samples_per_step, train.seq_length});
  if (!tokens_per_step || !tokens || *tokens > kMostTokens || train.steps > kMostSteps)
    return {key,
            fmt::format(
                "a run of {} steps of {} samples of {} tokens is too long: at most {} steps and {} tokens",
                train.steps, samples_per_step, train.seq_length, kMostSteps, kMostTokens)};
  return {};
}

Problem resolve_schedule(LrScheduleSection& schedule, int64_t steps) {
  if (schedule.decay_steps == 0) schedule.decay_steps = std::max(steps, schedule.warmup_steps);
  if (schedule.warmup_steps > schedule.decay_steps)
    return {"lr_schedule.warmup_steps",
            fmt::format("lr_schedule.warmup_steps = {} is more than lr_schedule.decay_steps = {}",
                        schedule.warmup_steps, schedule.decay_steps)};
  const int64_t decay =
      schedule.type == LrScheduleSection::Type::Wsd ? schedule.wsd_decay_steps.value_or(0) : 0;
  if (schedule.warmup_steps + decay > schedule.decay_steps)
    return {
        "lr_schedule.wsd_decay_steps",
        fmt::format("lr_schedule.warmup_steps = {} and wsd_decay_steps = {} do not fit in decay_steps = {}",
                    schedule.warmup_steps, decay, schedule.decay_steps)};
  return {};
}

Problem resolve_stages(std::vector<DataStage>& stages, const TrainSection& train) {
  const auto tokens_per_step = product({train.global_batch_size, train.seq_length});
  for (size_t i = 0; i < stages.size(); ++i) {
    DataStage& stage = stages[i];
    const std::string key =
        fmt::format("data.stages[{}].{}", i, stage.start_tokens ? "start_tokens" : "start");
    if (stage.start_tokens) stage.start = divide_up(*stage.start_tokens, *tokens_per_step);
    stage.start_tokens.reset();
    if (i > 0 && *stage.start <= *stages[i - 1].start)
      return {key,
              fmt::format("data.stages[{}] begins after step {}, and the stage before it after step {}: each "
                          "must begin later than the one before it",
                          i, *stage.start, *stages[i - 1].start)};
  }
  return {};
}

}  // namespace

Problem resolve_amounts(RunConfig& config, int64_t dp) {
  if (Problem problem = resolve_batch(config.train, dp); !problem.text.empty()) return problem;
  if (Problem problem = resolve_steps(config.train); !problem.text.empty()) return problem;
  if (Problem problem = resolve_stages(config.data.stages, config.train); !problem.text.empty())
    return problem;
  const ParallelSection& p = config.parallel;
  if (const int64_t sharing = dp * p.sp; p.zero_shard_size && sharing % *p.zero_shard_size != 0)
    return {"parallel.zero_shard_size",
            fmt::format(
                "parallel.dp * sp = {} * {} = {} does not divide by parallel.zero_shard_size = {} (nearest "
                "that work: zero_shard_size {})",
                dp, p.sp, sharing, *p.zero_shard_size, nearest_divisors(sharing, *p.zero_shard_size))};
  return resolve_schedule(config.lr_schedule, config.train.steps);
}

Problem check_mesh(const RunConfig& config) {
  const ParallelSection& p = config.parallel;
  const int64_t heads = config.model.num_attention_heads;
  const bool ulysses = p.sp > 1 && p.sp_mode == ParallelSection::SequenceMode::Ulysses;
  const int64_t cut = ulysses ? p.tp * p.sp : p.tp;
  if (heads % cut != 0)
    return {"parallel.tp",
            fmt::format("model.num_attention_heads = {} does not divide by parallel.{} = {} (nearest "
                        "that work: num_attention_heads {}, {} {})",
                        heads, ulysses ? "tp * sp" : "tp", cut, nearest_multiples(heads, cut),
                        ulysses ? "tp * sp" : "tp", nearest_divisors(heads, cut))};
  const std::pair<const char*, int64_t> dims[] = {
      {"model.vocab_size", config.model.vocab_size},
      {"model.intermediate_size", config.model.intermediate_size}};
  for (const auto& [key, size] : dims)
    if (p.tp > size)
      return {"parallel.tp", fmt::format("parallel.tp = {} is more than {} = {} (nearest that works: tp {})",
                                         p.tp, key, size, size)};
  if (p.virtual_stages > 1 && p.schedule != "interleaved")
    return {"parallel.virtual_stages",
            fmt::format(
                "parallel.virtual_stages = {} needs parallel.schedule = \"interleaved\", and it is \"{}\" "
                "(zb_v, v_half, v_min and dualpipe_v have two a rank by themselves)",
                p.virtual_stages, p.schedule)};
  const int64_t chunks = stages_per_rank(p);
  if (p.pp * chunks > config.model.num_hidden_layers)
    return {"parallel.pp",
            fmt::format(
                "parallel.pp = {} times {} stages a rank is more than model.num_hidden_layers = {} (nearest "
                "that works: pp {})",
                p.pp, chunks, config.model.num_hidden_layers,
                std::max<int64_t>(1, config.model.num_hidden_layers / chunks))};
  return {};
}

}  // namespace config

int64_t stages_per_rank(const ParallelSection& parallel) {
  constexpr std::string_view kVForms[] = {"zb_v", "v_half", "v_min", "dualpipe_v"};
  const bool v = parallel.pp > 1 &&
                 std::find(std::begin(kVForms), std::end(kVForms), parallel.schedule) != std::end(kVForms);
  return v ? 2 : parallel.virtual_stages;
}

int64_t mesh_ranks(const RunConfig& config) {
  const ParallelSection& p = config.parallel;
  return p.tp * p.sp * p.pp * std::max<int64_t>(1, p.dp);
}

void resolve_parallel(RunConfig& config, int64_t world_size) {
  ParallelSection& p = config.parallel;
  const int64_t model_ranks = p.tp * p.sp * p.pp;
  if (p.dp == -1) {
    if (world_size % model_ranks != 0)
      fail(
          ExitCode::Usage,
          "{} ranks do not divide by parallel.tp * sp * pp = {} * {} * {} = {} (nearest that work: {} ranks)",
          world_size, p.tp, p.sp, p.pp, model_ranks, config::nearest_multiples(world_size, model_ranks));
    p.dp = world_size / model_ranks;
  }
  if (mesh_ranks(config) != world_size) {
    const std::string dp = world_size % model_ranks == 0 ? fmt::format("{}", world_size / model_ranks) : "-1";
    fail(ExitCode::Usage,
         "parallel.tp * sp * dp * pp = {} * {} * {} * {} = {}, and there are {} ranks (start {}, or set dp = "
         "{})",
         p.tp, p.sp, p.dp, p.pp, mesh_ranks(config), world_size, mesh_ranks(config), dp);
  }
  if (config::Problem problem = config::check_mesh(config); !problem.text.empty())
    fail(ExitCode::Usage, "{}", problem.text);
  if (config::Problem problem = config::resolve_amounts(config, p.dp); !problem.text.empty())
    fail(ExitCode::Usage, "{}", problem.text);
}

}  // namespace tessera
