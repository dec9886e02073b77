// SPDX-License-Identifier: Apache-2.0
#include "framework/train/rank.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "framework/dataset/sequence_batch.h"
#include "framework/nn/attention_core.h"
#include "framework/train/logical.h"

namespace tessera {
namespace {

LossScaleOptions loss_scale_options(const LossScale& section) {
  LossScaleOptions options{.type = LossScaleOptions::Type::None,
                           .initial = section.initial,
                           .window = section.window,
                           .minimum = section.min};
  switch (section.type) {
    case LossScale::Type::None:
      break;
    case LossScale::Type::Static:
      options.type = LossScaleOptions::Type::Static;
      break;
    case LossScale::Type::Dynamic:
      options.type = LossScaleOptions::Type::Dynamic;
      break;
  }
  return options;
}

DType float_type(FloatType type) {
  switch (type) {
    case FloatType::Bf16:
      return DType::BF16;
    case FloatType::Fp16:
      return DType::F16;
    case FloatType::Fp32:
      break;
  }
  return DType::F32;
}

// What block number `block` of `blocks` recomputes. Full and selective start from the first block.
Recompute recompute_of_block(const ActivationCheckpointingSection& section, int block) {
  using Mode = ActivationCheckpointingSection::Mode;
  const bool here = !section.num_layers || block < *section.num_layers;
  if (section.mode == Mode::None || section.mode == Mode::Stage || !here) return {};
  if (section.mode != Mode::Selective) return {.block = true};
  const auto names = [&](std::string_view module) {
    return std::find(section.modules.begin(), section.modules.end(), module) != section.modules.end();
  };
  return {.attention = names("attention"), .mlp_activation = names("mlp_activation")};
}

std::string offload_folder(const ActivationCheckpointingSection& section) {
  if (!section.offload_dir.empty()) return section.offload_dir;
  const char* named = std::getenv("TMPDIR");
  return named && *named ? named : "/tmp";
}

AllReduceAlgorithm all_reduce_algorithm(CommSection::AllReduce choice) {
  switch (choice) {
    case CommSection::AllReduce::Direct:
      return AllReduceAlgorithm::Direct;
    case CommSection::AllReduce::Ring:
      return AllReduceAlgorithm::Ring;
    case CommSection::AllReduce::Tree:
      return AllReduceAlgorithm::Tree;
    case CommSection::AllReduce::Hierarchical:
      return AllReduceAlgorithm::Hierarchical;
    case CommSection::AllReduce::ParameterServer:
      return AllReduceAlgorithm::ParameterServer;
    case CommSection::AllReduce::Auto:
      break;
  }
  return AllReduceAlgorithm::Auto;
}

SequenceMode sequence_mode(ParallelSection::SequenceMode mode) {
  switch (mode) {
    case ParallelSection::SequenceMode::Ulysses:
      return SequenceMode::Ulysses;
    case ParallelSection::SequenceMode::Allgather:
      return SequenceMode::Gather;
    case ParallelSection::SequenceMode::Ring:
      break;
  }
  return SequenceMode::Ring;
}

// Those of the stages that the plan puts on this rank.
std::vector<std::unique_ptr<Module>> build_units(const RunConfig& config, const ModelDefinition& model,
                                                 const StagePlan& plan, int pipeline_rank,
                                                 const ParameterStore& store, Groups& groups,
                                                 Backend& backend) {
  std::vector<std::unique_ptr<Module>> units;
  Constants constants;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    if (plan.rank_of_unit(unit) != pipeline_rank) continue;
    const bool block = unit > 0 && unit + 1 < model.unit_count();
    const UnitOptions options{
        .backend = backend,
        .compute = compute_type(config.precision),
        .sequence_length = config.train.seq_length,
        .seed = static_cast<uint64_t>(config.run.seed),
        .recompute = block ? recompute_of_block(config.activation_checkpointing, unit - 1) : Recompute{},
        .constants = &constants,
        .groups = {.tensor = &groups.along({Axis::Tensor}),
                   .sequence = &groups.along({Axis::Sequence}),
                   .sequence_mode = sequence_mode(config.parallel.sp_mode),
                   .sequence_parallel = config.parallel.sequence_parallel,
                   .regather_inputs = config.comm.regather_inputs}};
    units.push_back(model.build_unit(unit, store, options));
  }
  return units;
}

// Whether a stage of this rank of the pipeline uses a parameter.
bool is_used_on(const StagePlan& plan, const ParameterSpec& spec, int pipeline_rank) {
  return plan.rank_of_unit(spec.unit) == pipeline_rank ||
         (spec.second_unit && plan.rank_of_unit(*spec.second_unit) == pipeline_rank);
}

std::vector<ParameterSpec> parameters_on(const StagePlan& plan, const ModelDefinition& model,
                                         int pipeline_rank) {
  std::vector<ParameterSpec> specs;
  for (const ParameterSpec& spec : model.parameters)
    if (is_used_on(plan, spec, pipeline_rank)) specs.push_back(spec);
  return specs;
}

}  // namespace

DType compute_type(const PrecisionSection& precision) {
  return float_type(precision.compute);
}

MeshSizes mesh_sizes(const ParallelSection& parallel) {
  return {.tp = static_cast<int>(parallel.tp),
          .sp = static_cast<int>(parallel.sp),
          .dp = static_cast<int>(parallel.dp),
          .pp = static_cast<int>(parallel.pp),
          .ep = static_cast<int>(parallel.ep),
          .etp = static_cast<int>(parallel.etp)};
}

OptimizerOptions optimizer_options(const OptimizerSection& section) {
  OptimizerOptions options{.type = section.type == OptimizerSection::Type::Sgd
                                       ? OptimizerOptions::Type::Sgd
                                       : OptimizerOptions::Type::AdamW,
                           .beta1 = section.betas[0],
                           .beta2 = section.betas[1],
                           .epsilon = section.eps,
                           .momentum = section.momentum,
                           .weight_decay = section.weight_decay,
                           .groups = {}};
  for (const OptimizerGroup& group : section.groups)
    options.groups.push_back({.match = group.match,
                              .rate_factor = group.lr_mult,
                              .weight_decay = group.weight_decay.value_or(0),
                              .overrides_decay = group.weight_decay.has_value()});
  return options;
}

int64_t snapshot_limit_bytes(const CheckpointSection& checkpoint) {
  constexpr double kGigabyte = int64_t{1} << 30;
  if (!checkpoint.memory_budget_gb) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(*checkpoint.memory_budget_gb * kGigabyte);
}

LearningRateOptions learning_rate_options(const RunConfig& config) {
  using Type = LrScheduleSection::Type;
  const LrScheduleSection& section = config.lr_schedule;
  LearningRateOptions options{.peak = config.optimizer.lr,
                              .minimum = section.min_lr,
                              .warmup_steps = section.warmup_steps,
                              .decay_steps = section.decay_steps,
                              .wsd_decay_steps = section.wsd_decay_steps.value_or(0)};
  switch (section.type) {
    case Type::Cosine:
      options.type = LearningRateOptions::Type::Cosine;
      break;
    case Type::Linear:
      options.type = LearningRateOptions::Type::Linear;
      break;
    case Type::Constant:
      options.type = LearningRateOptions::Type::Constant;
      break;
    case Type::InverseSqrt:
      options.type = LearningRateOptions::Type::InverseSqrt;
      break;
    case Type::Wsd:
      options.type = LearningRateOptions::Type::Wsd;
      break;
  }
  return options;
}

Rank::Rank(const RunConfig& config, const ModelDefinition& model, Communicator& world, Backend& backend)
    : config_(config),
      model_(model),
      world_(world),
      backend_(backend),
      layout_(make_layout(mesh_sizes(config.parallel))),
      plan_(stage_plan(config, model)),
      pipeline_rank_(layout_.dense.coordinate(world.rank(), Axis::Pipeline)),
      data_rank_(layout_.dense.coordinate(world.rank(), Axis::Data)),
      scaler_(loss_scale_options(config.precision.loss_scale)) {
  const std::vector<AxisSet> sets = dense_axis_sets();
  world.use_all_reduce(all_reduce_algorithm(config.comm.all_reduce));
  groups_ = std::make_unique<Groups>(world, layout_, sets);
  const ZeroPlan zero = zero_plan(config.parallel);
  shards_ = zero.shards;
  shard_group_ = subgroup_of_data(false, "zero");
  replica_group_ = subgroup_of_data(true, "replicas");

  tied_group_ = tied_group();

  store_ = std::make_unique<ParameterStore>(parameters_on(plan_, model, pipeline_rank_), layout_.dense,
                                            world.rank());
  const DType compute = compute_type(config.precision);
  const bool narrow = config.precision.grad_accumulate == PrecisionSection::GradAccumulate::Compute;
  buffers_ = std::make_unique<FlatBuffers>(
      *store_, backend,
      FlatBufferOptions{.compute = compute,
                        .gradient = narrow ? compute : statistics_type(compute),
                        .bucket_bytes = static_cast<int64_t>(config.comm.bucket_size_mb * (1 << 20)),
                        .stage = zero.stage,
                        .shards = zero.shards,
                        .shard = shard_of(world.rank()),
                        .gradients_leave = zero.gradients_leave,
                        .stage_of_unit = stages_of_units()});
  gatherer_ = std::make_unique<ParameterGatherer>(*buffers_, *shard_group_, backend,
                                                  config.comm.overlap_param_gather);
  executor_ = std::make_unique<Executor>(
      backend, observed_, plan_,
      PipelineLinks{.group = &groups_->along({Axis::Pipeline}), .width = model.hidden_size, .type = compute},
      build_units(config, model, plan_, pipeline_rank_, *store_, *groups_, backend),
      offload_folder(config.activation_checkpointing));
  optimizer_ = make_optimizer(optimizer_options(config.optimizer), buffers_->shards(), backend);
  const GradientGroups groups{.data = groups_->along({Axis::Data, Axis::Sequence}),
                              .shards = *shard_group_,
                              .replicas = *replica_group_,
                              .tensor = groups_->along({Axis::Tensor}),
                              .tied = *tied_group_};
  step_ = std::make_unique<TrainStep>(
      StepParts{.backend = backend,
                .world = world,
                .groups = groups,
                .store = *store_,
                .executor = *executor_,
                .buffers = *buffers_,
                .gatherer = *gatherer_,
                .optimizer = *optimizer_,
                .scaler = scaler_},
      StepOptions{.grad_clip = config.train.grad_clip,
                  .reduction = {.overlap = config.comm.overlap_grad_reduce,
                                .wire = narrow ? compute : float_type(config.comm.grad_reduce_dtype),
                                .shards = zero.shards > 1},
                  .schedule = step_schedule(config),
                  .costs = step_costs(config, plan_, model),
                  .counts_loss = counts_loss(),
                  .norm_shards = own_shards(),
                  .sources = static_cast<int64_t>(config.data.sources.size())});
}

int64_t Rank::sent_bytes() const {
  int64_t bytes = groups_->sent_bytes();
  for (Communicator* group : {&world_, shard_group_.get(), replica_group_.get(), tied_group_.get()})
    bytes += group->traffic().sent();
  return bytes;
}

// Neighbours among the ranks that share gradients hold one copy of sharded state.
int Rank::shard_of(int rank) const {
  return layout_.dense.place(rank, {Axis::Data, Axis::Sequence}) % shards_;
}

// The ranks with the same shard, or those that this rank's copy of the state lies on.
std::unique_ptr<Communicator> Rank::subgroup_of_data(bool same_shard, std::string_view name) {
  const AxisSet axes{Axis::Data, Axis::Sequence};
  const auto copy_of = [&](int rank) { return layout_.dense.place(rank, axes) / shards_; };
  std::vector<int> members;
  for (const int peer : layout_.dense.peers(world_.rank(), axes))
    if (same_shard ? shard_of(peer) == shard_of(world_.rank()) : copy_of(peer) == copy_of(world_.rank()))
      members.push_back(peer);
  return world_.subgroup(members, name);
}

Batch Rank::upload(const HostBatch& whole) {
  const HostBatch host =
      cut_batch(whole, make_sequence_cut(whole.length, static_cast<int>(config_.parallel.sp),
                                         layout_.dense.coordinate(world_.rank(), Axis::Sequence)));
  const bool cut = config_.parallel.sequence_parallel;
  const auto parts = static_cast<int>(config_.parallel.tp);
  const HiddenPart part{parts, layout_.dense.coordinate(world_.rank(), Axis::Tensor)};
  return tessera::upload(host, backend_, cut && parts > 1 ? part : HiddenPart{});
}

bool Rank::counts_rows() const {
  const auto first = [&](Axis axis) { return layout_.dense.coordinate(world_.rank(), axis) == 0; };
  return first(Axis::Tensor) && first(Axis::Sequence) && first(Axis::Pipeline);
}

bool Rank::counts_loss() const {
  return layout_.dense.coordinate(world_.rank(), Axis::Tensor) == 0 &&
         plan_.rank_of(plan_.stages() - 1) == pipeline_rank_;
}

std::vector<int> Rank::stages_of_units() const {
  std::vector<int> stages;
  for (int unit = 0; unit < plan_.units(); ++unit) stages.push_back(plan_.stage_of(unit));
  return stages;
}

// The ranks of the pipeline that hold a tensor of two stages, or this rank alone.
std::unique_ptr<Communicator> Rank::tied_group() {
  std::vector<int> members{world_.rank()};
  for (const ParameterSpec& spec : model_.parameters)
    if (spec.second_unit && is_used_on(plan_, spec, pipeline_rank_)) {
      members.clear();
      for (const int peer : layout_.dense.peers(world_.rank(), {Axis::Pipeline}))
        if (is_used_on(plan_, spec, layout_.dense.coordinate(peer, Axis::Pipeline))) members.push_back(peer);
    }
  return world_.subgroup(members, "tied");
}

std::vector<int> Rank::holders(const ParameterSpec& spec) const {
  AxisSet axes = copy_axes(spec.shard);
  axes.add(Axis::Pipeline);
  std::vector<int> holders;
  for (const int peer : layout_.dense.peers(world_.rank(), axes))
    if (shard_of(peer) == shard_of(world_.rank()) &&
        is_used_on(plan_, spec, layout_.dense.coordinate(peer, Axis::Pipeline)))
      holders.push_back(peer);
  return holders;
}

std::vector<ParameterShard> Rank::own_shards() const {
  std::vector<ParameterShard> shards;
  for (const ParameterShard& shard : buffers_->shards()) {
    if (holders(shard.parameter->spec).front() != world_.rank()) continue;
    const Range own = own_range(*this, shard);
    if (own.size() == 0) continue;
    const auto part = [&](const Tensor& whole) { return whole.narrow(own.begin - shard.begin, own.size()); };
    shards.push_back({.parameter = shard.parameter,
                      .value = part(shard.value),
                      .master = part(shard.master),
                      .gradient = part(shard.gradient),
                      .begin = own.begin});
  }
  return shards;
}

void Rank::initialise_parameters() {
  initialise(*buffers_, backend_, static_cast<uint64_t>(config_.run.seed));
  gather_values();
}

void Rank::gather_values() {
  gatherer_->gather_updated();
  gatherer_->wait_all();
}

}  // namespace tessera
