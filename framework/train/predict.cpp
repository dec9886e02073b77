// SPDX-License-Identifier: Apache-2.0
#include "framework/train/predict.h"

#include <algorithm>
#include <set>

#include "framework/backends/cpu/workspace.h"
#include "framework/backends/shape/shape_backend.h"
#include "framework/checkpoint/tensor_map.h"
#include "framework/comm/shape/shape_communicator.h"
#include "framework/config/resolve.h"
#include "framework/dataset/host_batch.h"
#include "framework/ops/memory.h"
#include "framework/planner/check_report.h"
#include "framework/train/launch.h"
#include "framework/train/matmul_peak.h"
#include "framework/train/rank.h"
#include "framework/train/resume.h"
#include "framework/train/step.h"
#include "framework/train/tensor_watch.h"

namespace tessera {
namespace {

using RecomputeMode = ActivationCheckpointingSection::Mode;

// Micro-batches of the trial: later ones repeat the second, which starts with gradients in place.
constexpr int64_t kTrialMicrobatches = 2;

// Rounded bytes of storages, each counted once.
class StorageSum {
 public:
  // Of the storage's elements, `idle` hold no value of a parameter.
  void add(const Tensor& tensor, int64_t idle = 0) {
    if (!tensor.defined() || !seen_.insert(tensor.storage().get()).second) return;
    const int64_t bytes = tensor.storage()->bytes(), rounded = Allocator::rounded(bytes);
    bytes_ += rounded;
    padding_ += rounded - bytes + idle * size_of(tensor.dtype());
  }
  int64_t take() { return std::exchange(bytes_, 0); }
  int64_t padding() const { return padding_; }

 private:
  std::set<const Storage*> seen_;
  int64_t bytes_ = 0, padding_ = 0;
};

// Whole rows of one document each, every position trained.
HostBatch trial_batch(const RunConfig& config) {
  HostBatch host(0, config.train.micro_batch_size, config.train.seq_length);
  std::ranges::fill(host.document_start, 0);
  std::ranges::fill(host.weights, 1.0f);
  host.source_count = static_cast<int64_t>(config.data.sources.size());
  host.count_weights();
  return host;
}

void measure_state(Rank& rank, ShapeBackend& backend, MemoryPlan& plan) {
  const int64_t live = backend.allocator().live_bytes();
  StorageSum sum;
  const auto take = [&](Tensor Bucket::*whole, Tensor Bucket::*shard) {
    for (const Bucket& bucket : rank.buffers().buckets()) {
      if (whole != nullptr) sum.add(bucket.*whole, bucket.elements - bucket.used);
      sum.add(bucket.*shard, std::clamp(bucket.shard.end - bucket.used, int64_t{0}, bucket.shard.size()));
    }
    return sum.take();
  };
  plan.parameters = take(&Bucket::values, &Bucket::value_shard);
  plan.masters = take(nullptr, &Bucket::masters);
  plan.gradients = take(&Bucket::gradients, &Bucket::gradient_shard);
  rank.optimizer().visit_state(
      [&](const ParameterShard&, std::string_view, const Tensor& state) { sum.add(state); });
  plan.optimizer = sum.take();
  plan.padding = sum.padding();
  plan.constants = live - plan.model_states();
}

// The first step, of no values: what units of a trial run in.
struct TrialStep {
  TrialStep(Backend& backend, const RunConfig& config)
      : sources(static_cast<int64_t>(config.data.sources.size())),
        info{.step = Steps(1),
             .step_number = zeros(backend, DType::I64, {1}),
             .loss_scale = zeros(backend, DType::F64, {1})} {}

  // Refers to this step.
  Context context(Backend& backend, const Batch& batch, MetricSink& metrics) const {
    return {.backend = backend,
            .batch = batch,
            .step = info,
            .metrics = metrics,
            .loss_total = loss_totals(backend, sources)};
  }

  int64_t sources;
  StepInfo info;
};

// What each unit keeps between its forward and its backward.
void measure_saved(const RunConfig& config, Rank& rank, ShapeBackend& backend, const Batch& batch,
                   MemoryPlan& plan) {
  const TrialStep step(backend, config);
  Context context = step.context(backend, batch, rank.observed());
  const bool gathers = rank.buffers().options().stage == ZeroStage::Parameters;
  Tensor x;
  for (const int unit : rank.executor().units()) {
    if (unit > 0 && !x.defined())
      x = empty(backend, rank.buffers().options().compute,
                {batch.token_index.size(0), rank.model().hidden_size});
    if (gathers) rank.gatherer().gather(unit);
    Saved saved;
    x = rank.executor().unit(unit).forward(x, saved, context);
    if (gathers) rank.gatherer().drop(unit);
    plan.saved_by_unit.push_back(saved.bytes());
  }
}

// Of the first rank with this place on the pipeline.
MemoryPlan run_trial(const RunConfig& config, const ModelDefinition& model, int ranks, int threads,
                     int pipeline_rank) {
  ShapeBackend backend(make_cpu_workspace_model(threads));
  const int stage_ranks = ranks / static_cast<int>(config.parallel.pp);
  const std::unique_ptr<Communicator> world = make_shape_world(ranks, pipeline_rank * stage_ranks, backend);
  Rank rank(config, model, *world, backend);
  MemoryPlan plan;
  measure_state(rank, backend, plan);
  rank.initialise_parameters();
  // Leaves its workspace behind; the trainer, too, counts the peak from here.
  if (!config.run.peak_flops) (void)measure_matmul_peak(backend, compute_type(config.precision));
  backend.allocator().reset_peak();

  const int64_t microbatches = config.train.gradient_accumulation_steps;
  // On a pipeline the schedule decides how many are in flight, and a file names all of them.
  const bool all = config.parallel.pp > 1 || !config.parallel.schedule_text.empty();
  const int64_t run = all ? microbatches : std::min(microbatches, kTrialMicrobatches);
  const int64_t before = backend.allocator().live_bytes();
  std::vector<Batch> batches;
  for (int64_t m = 0; m < run; ++m) batches.push_back(rank.upload(trial_batch(config)));
  const int64_t batch_bytes = backend.allocator().live_bytes() - before;
  double weight_sum = 0;
  for (const Batch& batch : batches) weight_sum += batch.weight_sum;
  // The second step begins with the workspace that the first has grown.
  for (int64_t step = 1; step <= 2; ++step) {
    backend.flops() = {};
    std::optional<TensorWatch> watch;
    if (config.logging.per_tensor > 0) watch.emplace(rank, config.logging.tensorboard);
    rank.step().run(batches, weight_sum, Steps(step), config.optimizer.lr, watch ? &*watch : nullptr);
    if (watch) (void)watch->finish(1);
  }

  plan.workspace = backend.allocator().workspace_at_peak();
  plan.activations = backend.allocator().peak_bytes() - plan.state() - batch_bytes - plan.workspace;
  plan.batches = batch_bytes / run * microbatches;
  const double repeats = static_cast<double>(microbatches) / static_cast<double>(run);
  plan.model_flops = static_cast<double>(backend.flops().model) * repeats;
  plan.hardware_flops = static_cast<double>(backend.flops().hardware) * repeats;
  plan.offloaded = rank.executor().offloaded_bytes() / 2 / run * microbatches;  // of one of the two steps
  measure_saved(config, rank, backend, batches[0], plan);
  const bool saves_meanwhile = config.checkpoint.async && config.checkpoint.interval > 0 &&
                               config.checkpoint.interval < config.train.steps;
  if (saves_meanwhile) {
    const int64_t bytes = written_bytes(tensors_of(rank, TensorsFor::Saving));
    if (bytes <= snapshot_limit_bytes(config.checkpoint)) plan.snapshot = bytes;
  }
  return plan;
}

int threads_here(const RunConfig& config, int ranks_here) {
  std::string warning;
  return threads_of_rank(config.run.threads_per_rank, ranks_here, warning);
}

}  // namespace

namespace {

// The rank of the pipeline that needs most, with the mean of all ranks' operations.
MemoryPlan largest_trial(const RunConfig& config, const ModelDefinition& model, int ranks, int threads) {
  MemoryPlan largest;
  const auto places = static_cast<int>(config.parallel.pp);
  double model_flops = 0, hardware_flops = 0;
  for (int place = 0; place < places; ++place) {
    MemoryPlan plan = run_trial(config, model, ranks, threads, place);
    model_flops += plan.model_flops / places;
    hardware_flops += plan.hardware_flops / places;
    if (place == 0 || plan.step_peak() > largest.step_peak()) largest = std::move(plan);
  }
  largest.model_flops = model_flops;
  largest.hardware_flops = hardware_flops;
  return largest;
}

}  // namespace

MemoryPlan predict_memory(const RunConfig& config, const ModelDefinition& model, int ranks, int threads) {
  MemoryPlan plan = largest_trial(config, model, ranks, threads);
  // Copies in a narrower type than the gradients' are the only memory that communication adds.
  RunConfig plain = config;
  plain.comm.grad_reduce_dtype = FloatType::Fp32;
  if (config.comm.grad_reduce_dtype == FloatType::Fp32 || ranks == 1) return plan;
  const int64_t without = largest_trial(plain, model, ranks, threads).step_peak();
  plan.communication = plan.step_peak() - without;
  plan.activations -= plan.communication;
  return plan;
}

std::vector<WorkCost> predict_unit_costs(const RunConfig& config, const ModelDefinition& model) {
  // All units on one rank, whose state does not matter here.
  RunConfig whole = config;
  whole.parallel.pp = 1;
  whole.parallel.schedule = "1f1b";
  whole.parallel.schedule_text.clear();
  whole.parallel.virtual_stages = 1;
  whole.parallel.stage_layout.clear();
  whole.parallel.zero_stage = 0;
  if (whole.activation_checkpointing.mode == RecomputeMode::Stage)
    whole.activation_checkpointing.mode = RecomputeMode::None;
  ShapeBackend backend(make_cpu_workspace_model(1));
  const std::unique_ptr<Communicator> world =
      make_shape_world(static_cast<int>(mesh_ranks(whole)), 0, backend);
  Rank rank(whole, model, *world, backend);

  const Batch batch = rank.upload(trial_batch(whole));
  const TrialStep step(backend, whole);
  Context context = step.context(backend, batch, rank.observed());
  // A lookup takes next to no time, not none.
  const auto operations = [&] {
    const auto count = static_cast<double>(std::exchange(backend.flops(), {}).hardware);
    return 1.0 + count;
  };
  backend.flops() = {};
  std::vector<WorkCost> costs(static_cast<size_t>(model.unit_count()));
  std::vector<Saved> saved(costs.size());
  Tensor x;
  for (size_t i = 0; i < costs.size(); ++i) {
    costs[i].input = x.defined() ? x.bytes() : 0;
    x = rank.executor().unit(static_cast<int>(i)).forward(x, saved[i], context);
    costs[i].forward = operations();
    costs[i].saved = saved[i].bytes();
  }
  Tensor dx;
  for (size_t i = costs.size(); i-- > 0;) {
    const Module& unit = rank.executor().unit(static_cast<int>(i));
    dx = unit.backward_input(dx, saved[i], context);
    costs[i].backward_input = operations();
    costs[i].saved_for_weight = saved[i].bytes();
    unit.backward_weight(saved[i], context);
    costs[i].backward_weight = operations();
  }
  return costs;
}

void resolve_auto_schedule(RunConfig& config, const ModelDefinition& model) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.schedule != "auto" || parallel.pp == 1 || !parallel.schedule_text.empty()) return;
  const StagePlan plan = stage_plan(config, model);
  const auto microbatches = static_cast<int>(config.train.gradient_accumulation_steps);
  config.parallel.schedule_text =
      to_text(plain_schedule(step_schedule(config), plan, step_costs(config, plan, model), microbatches));
}

void resolve_memory_budget(RunConfig& config, const ModelDefinition& model, int ranks, int threads) {
  ActivationCheckpointingSection& section = config.activation_checkpointing;
  if (section.mode != RecomputeMode::Budget) return;
  const auto budget = static_cast<int64_t>(*section.memory_budget_gb * static_cast<double>(int64_t{1} << 30));
  RunConfig trial = config;
  const int blocks = model.unit_count() - 2;
  trial.activation_checkpointing.mode = RecomputeMode::Full;
  trial.activation_checkpointing.memory_budget_gb.reset();
  const int recomputed = choose_recomputed_blocks(blocks, budget, [&](int count) {
    trial.activation_checkpointing.num_layers = count;
    return predict_memory(trial, model, ranks, threads).step_peak();
  });
  section.mode = recomputed > 0 ? RecomputeMode::Full : RecomputeMode::None;
  section.num_layers = recomputed > 0 ? std::optional<int64_t>(recomputed) : std::nullopt;
  section.memory_budget_gb.reset();
}

std::string check_report(RunConfig config, const ModelDefinition& model, int ranks, int ranks_here,
                         bool json) {
  const int threads = threads_here(config, ranks_here);
  resolve_memory_budget(config, model, ranks, threads);
  const MemoryPlan plan = predict_memory(config, model, ranks, threads);
  const ActivationCheckpointingSection& section = config.activation_checkpointing;
  const int64_t blocks =
      section.mode == RecomputeMode::None ? 0 : section.num_layers.value_or(model.unit_count() - 2);
  const CheckFacts facts{.config = config,
                         .model = model,
                         .ranks = ranks,
                         .mesh = make_layout(mesh_sizes(config.parallel)).dense.to_string(),
                         .memory = plan,
                         .threads_per_rank = threads,
                         .free_bytes = available_memory_bytes(),
                         .ranks_here = ranks_here,
                         .recomputed_blocks = static_cast<int>(blocks)};
  return json ? check_json(facts) : check_text(facts);
}

void refuse_when_too_large(const RunConfig& config, const ModelDefinition& model, int ranks, int ranks_here) {
  const MemoryPlan plan = predict_memory(config, model, ranks, threads_here(config, ranks_here));
  const int64_t needed = plan.peak() * ranks_here, free = available_memory_bytes();
  const double gib = static_cast<double>(int64_t{1} << 30);
  CHECK_AS(
      ExitCode::Usage, needed <= free,
      "{} rank{} on this machine would need {:.2f} GiB and {:.2f} GiB are free; `--check` shows the terms, "
      "and --threads-anyway starts them all the same",
      ranks_here, ranks_here == 1 ? "" : "s", static_cast<double>(needed) / gib,
      static_cast<double>(free) / gib);
}

}  // namespace tessera
