// SPDX-License-Identifier: Apache-2.0
#include "framework/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "framework/checkpoint/agree.h"
#include "framework/checkpoint/save.h"
#include "framework/checkpoint/space.h"
#include "framework/config/load.h"
#include "framework/ops/memory.h"
#include "framework/train/data_feed.h"
#include "framework/train/data_ledger.h"
#include "framework/train/event_file.h"
#include "framework/train/matmul_peak.h"
#include "framework/train/replicas.h"
#include "framework/train/resume.h"
#include "framework/train/run_folder.h"
#include "framework/train/step_dump.h"
#include "framework/train/step_tracer.h"
#include "framework/train/tensor_watch.h"
#include "framework/train/time_summary.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

SaveOptions save_options(const CheckpointSection& section) {
  return {.max_files = static_cast<int>(section.max_files),
          .verify = section.verify,
          .shared_fs = section.shared_fs,
          .async = section.async,
          .snapshot_limit_bytes = snapshot_limit_bytes(section),
          .keep_last = section.keep_last,
          .keep_every = section.keep_every};
}

class Trainer {
 public:
  Trainer(const TrainRequest& request, RankEnvironment environment)
      : request_(request),
        config_(request.config),
        world_(environment.world),
        backend_(environment.backend),
        log_(environment.log),
        stop_(environment.stop),
        folder_(config_.run.output_dir),
        ledger_(config_.run.output_dir),
        progress_(::isatty(STDERR_FILENO) != 0, config_.logging.interval),
        tracer_(config_, timeline_, log_) {
    world_.set_timeline(&timeline_);
  }

  ~Trainer() { world_.set_timeline(nullptr); }

  TrainOutcome run();

 private:
  bool first() const { return world_.rank() == 0; }

  void prepare();
  void agree_on_schedule();
  void restore(const Checkpoint& checkpoint);
  void begin_folder();
  void begin_events();
  void describe_run();

  TrainOutcome loop();
  // What all ranks agree on before a step: its trained tokens, and whether a signal asks to stop.
  struct Agreement {
    Tokens trained{0};
    std::vector<int64_t> trained_by_source;
    bool stop = false;
  };
  DataFeed::GlobalBatch next_batch();
  std::vector<Batch> upload(const DataFeed::GlobalBatch& global);
  Agreement agree_on_step(const std::vector<HostBatch>& microbatches);
  void train_one_step(const DataFeed::GlobalBatch& global, const Agreement& agreed, Clock::time_point start);
  void apply_numeric_policy(const StepResult& result, const DataFeed::GlobalBatch& global);
  void add_source_figures(StepMetrics& metrics, const StepResult& result, const Agreement& agreed) const;
  void finish_metrics(StepMetrics& metrics, const DataFeed::GlobalBatch& global, double seconds);
  void write_events(const StepMetrics& metrics);
  void doubt_peak(const StepMetrics& metrics);
  double evaluate_all();

  void compare_memory();
  bool save_is_due() const;
  void save(bool last = false);
  void poll_saving();
  void finish_saving();
  void note_saved(const std::optional<SaveResult>& result);

  const TrainRequest& request_;
  const RunConfig& config_;
  Communicator& world_;
  Backend& backend_;
  Log& log_;
  StopFlag& stop_;
  RunFolder folder_;
  DataLedger ledger_;
  std::optional<EventFile> events_;  // with logging.tensorboard, on rank 0
  ProgressLine progress_;
  Timeline timeline_;  // outlives all that communicates
  StepTracer tracer_;

  std::unique_ptr<Rank> rank_;
  std::unique_ptr<DataFeed> data_;
  std::unique_ptr<CheckpointWriter> writer_;
  TrainState state_;
  Steps saved_{-1};  // the last step that a save was started for
  std::optional<double> peak_flops_;
  bool peak_doubted_ = false;
  double seconds_in_steps_ = 0;  // of this process
  int64_t peak_memory_ = 0;      // of the largest rank, after the last step
};

TrainOutcome Trainer::run() {
  const std::optional<Checkpoint> checkpoint = find_checkpoint(request_, world_, log_);
  if (checkpoint) state_ = state_from_json(checkpoint->state());
  agree(world_, [&] {
    if (checkpoint && first()) check_changes(state_.config, request_, log_);
  });
  prepare();
  if (checkpoint)
    restore(*checkpoint);
  else
    rank_->initialise_parameters();
  if (request_.eval_only) {
    const double loss = evaluate_all();
    if (first())
      fmt::print("{}\n", nlohmann::ordered_json{{"step", state_.step.value}, {"eval_loss", loss}}.dump());
    return TrainOutcome::Finished;
  }
  begin_folder();
  if (checkpoint && first())
    log_.info(fmt::format("resumed from {} after step {}", checkpoint->path.string(), state_.step.value));
  describe_run();
  return loop();
}

// Processes on several hosts may have read several copies of a schedule's file.
void Trainer::agree_on_schedule() {
  const ParallelSection& parallel = config_.parallel;
  std::string text = parallel.schedule_text;
  world_.broadcast_host(text, 0);
  agree(world_, [&] {
    CHECK_AS(ExitCode::Usage, text == parallel.schedule_text,
             "{}: rank {} has read another schedule than rank 0", parallel.schedule, world_.rank());
  });
}

void Trainer::prepare() {
  agree_on_schedule();
  rank_ = std::make_unique<Rank>(config_, request_.model, world_, backend_);
  agree(world_, [&] { data_ = std::make_unique<DataFeed>(config_, rank_->data_rank()); });
}

void Trainer::restore(const Checkpoint& checkpoint) {
  load_tensors(checkpoint, tensors_of(*rank_, TensorsFor::Loading), world_, backend_);
  rank_->gather_values();
  rank_->optimizer().set_updates(state_.updates);
  if (config_.precision.loss_scale.type != LossScale::Type::None) rank_->scaler().restore(state_.loss_scale);
  agree(world_, [&] { data_->dataset().restore(state_.data_cursor); });
  if (checkpoint.path.parent_path() == std::filesystem::path(config_.checkpoint.dir)) saved_ = state_.step;
}

void Trainer::begin_folder() {
  state_.config = to_toml(config_);
  agree(world_, [&] {
    if (!first()) return;
    folder_.begin(state_.config, state_.step);
    ledger_.begin(state_.step, data_->dataset().cursor(), state_.config);
    log_.append_to(folder_.log_file());
    if (config_.logging.tensorboard) begin_events();
  });
  writer_ = std::make_unique<CheckpointWriter>(config_.checkpoint.dir, save_options(config_.checkpoint),
                                               world_, backend_, log_);
  for (const auto& path : writer_->set_aside_later(state_.step))
    log_.info(fmt::format("a checkpoint of a later step was set aside: {}", path.string()));
}

void Trainer::begin_events() {
  const Steps next = state_.step + Steps(1);
  events_.emplace(folder_.event_folder(), next);
  EventSummary summary;
  summary.add_text("config", state_.config);
  events_->write(next, summary);
}

void Trainer::describe_run() {
  if (!config_.run.peak_flops)
    peak_flops_ = measure_matmul_peak(backend_, compute_type(config_.precision));
  else
    peak_flops_ = *config_.run.peak_flops;
  backend_.allocator().reset_peak();  // the metrics report the peak of training
  double total[1] = {*peak_flops_};
  world_.all_reduce_host(std::span(total), Reduce::Sum);
  peak_flops_ = total[0];
  const int64_t bytes = checkpoint_bytes(tensors_of(*rank_, TensorsFor::Saving), world_);
  if (!first()) return;
  log_.info(fmt::format("{} rank{}, {:.1f} GFLOP/s {} over all of them", world_.size(),
                        world_.size() == 1 ? "" : "s", total[0] / 1e9,
                        config_.run.peak_flops ? "peak (run.peak_flops)" : "matmul peak (measured)"));
  const DataFeed& data = *data_;
  const auto run_samples = static_cast<double>(config_.train.steps * config_.train.global_batch_size);
  const auto expected = [&](size_t source) {
    return data.dataset().expected_samples(source, config_.train.steps,
                                           Samples(config_.train.global_batch_size));
  };
  for (size_t i = 0; i < data.dataset().sources().size(); ++i)
    log_.info(describe(data.dataset().sources()[i].report(), expected(i) / run_samples, expected(i)));
  // The one that is kept and the one that is being written.
  if (const auto warning = space_warning(config_.checkpoint.dir, bytes / writer_->sites(), 2))
    log_.warn(*warning);
}

TrainOutcome Trainer::loop() {
  const Steps last(config_.train.steps);
  if (state_.step >= last && first())
    log_.info(fmt::format("nothing to do: {} of {} steps are done", state_.step.value, last.value));
  while (true) {
    const bool done = state_.step >= last;
    // The cursor moves with next(), so a stop at this boundary must come before it.
    const auto start = Clock::now();
    const std::string cursor_before = data_->dataset().cursor();
    DataFeed::GlobalBatch global;
    if (!done) tracer_.begin(state_.step + Steps(1));
    if (!done) global = next_batch();
    const Agreement agreed = agree_on_step(global.microbatches);
    if (done || agreed.stop) {
      tracer_.cancel();
      const StopFlag::Answer together(stop_);
      state_.data_cursor = done ? data_->dataset().cursor() : cursor_before;
      if (saved_ != state_.step) save(true);
      finish_saving();
      progress_.finish();
      compare_memory();
      report_time(world_, log_, folder_, timeline_.totals(), seconds_in_steps_);
      if (agreed.stop && !done && first())
        log_.info(fmt::format("stopped after step {} by signal {}; start again to go on", state_.step.value,
                              stop_.signal_number()));
      return agreed.stop && !done ? TrainOutcome::Stopped : TrainOutcome::Finished;
    }
    train_one_step(global, agreed, start);
    state_.data_cursor = data_->dataset().cursor();
    if (save_is_due()) save();
    poll_saving();
    tracer_.end(*rank_, state_.step);
  }
}

DataFeed::GlobalBatch Trainer::next_batch() {
  const Timeline::Scope scope(&timeline_, Activity::Data);
  DataFeed::GlobalBatch global;
  agree(world_, [&] { global = data_->next(); });
  return global;
}

std::vector<Batch> Trainer::upload(const DataFeed::GlobalBatch& global) {
  const Timeline::Scope scope(&timeline_, Activity::Data);
  std::vector<Batch> batches;
  for (const HostBatch& host : global.microbatches) batches.push_back(rank_->upload(host));
  return batches;
}

Trainer::Agreement Trainer::agree_on_step(const std::vector<HostBatch>& microbatches) {
  std::vector<int64_t> sums(1 + data_->dataset().sources().size(), 0);  // to stop, then tokens of each source
  sums[0] = stop_.requested() ? 1 : 0;
  if (rank_->counts_rows())
    for (const HostBatch& batch : microbatches) {
      const std::vector<int64_t> trained = batch.trained_by_source();
      std::transform(trained.begin(), trained.end(), sums.begin() + 1, sums.begin() + 1, std::plus<>());
    }
  world_.all_reduce_host(std::span(sums), Reduce::Sum);
  return {.trained = Tokens(std::accumulate(sums.begin() + 1, sums.end(), int64_t{0})),
          .trained_by_source = {sums.begin() + 1, sums.end()},
          .stop = sums[0] > 0};
}

void Trainer::train_one_step(const DataFeed::GlobalBatch& global, const Agreement& agreed,
                             Clock::time_point start) {
  const Tokens trained = agreed.trained;
  const Steps step = state_.step + Steps(1);
  const double rate = learning_rate(learning_rate_options(config_), state_.step);
  backend_.flops() = {};
  std::vector<Batch> batches = upload(global);
  const bool dump = StepDump::wanted(config_.debug, step);
  std::optional<StepDump> dumped;
  if (dump) dumped.emplace(*rank_, config_);
  std::optional<TensorWatch> watch;
  if (TensorWatch::wanted(config_.logging, step)) watch.emplace(*rank_, config_.logging.tensorboard);
  const StepResult result =
      rank_->step().run(batches, static_cast<double>(trained.value), step, rate, watch ? &*watch : nullptr);
  if (dumped)
    agree(world_, [&] { dumped->write(folder_.path() / "debug", step, global, data_->dataset(), result); });
  batches.clear();
  apply_numeric_policy(result, global);

  state_.step = step;
  state_.seen_tokens += trained;
  state_.updates = rank_->optimizer().updates();
  state_.loss_scale = rank_->scaler().state();
  if (trained.value == 0) {
    ++state_.skipped_empty_batches;
    if (first()) log_.warn(fmt::format("step {} has no trained token: no update", step.value));
  }
  StepMetrics metrics{.step = step,
                      .loss = result.loss,
                      .grad_norm = result.grad_norm,
                      .learning_rate = rate,
                      .tokens = trained,
                      .seen_tokens = state_.seen_tokens,
                      .loss_scale = result.scale,
                      .skipped = !result.updated,
                      .skipped_empty_batches = state_.skipped_empty_batches};
  add_source_figures(metrics, result, agreed);
  if (watch) metrics.tensors = watch->finish(result.scale);
  finish_metrics(metrics, global, seconds_since(start));
  if (config_.debug.check_replicas) check_replicas(*rank_, step);
}

void Trainer::apply_numeric_policy(const StepResult& result, const DataFeed::GlobalBatch& global) {
  if (result.finite) return;
  const int64_t step = state_.step.value + 1;
  std::string where;  // of the first rank that has one
  for (const std::string& name : world_.all_gather_host(rank_->step().first_non_finite()))
    if (where.empty()) where = name;
  const std::string what =
      fmt::format("step {}: the gradient of {} is not finite (loss {}, loss scale {:g})", step,
                  where.empty() ? "no parameter (the loss itself)" : where, result.loss, result.scale);
  if (rank_->scaler().collapsed())
    fail(ExitCode::Numeric, "the loss scale fell below precision.loss_scale.min = {:g}. {}",
         config_.precision.loss_scale.min, what);
  if (!rank_->scaler().dynamic() &&
      config_.fault_tolerance.nan_policy == FaultToleranceSection::NanPolicy::Stop)
    fail(ExitCode::Numeric,
         "{}; the first sample of the batch is number {} of block {} of epoch {} of source {} "
         "(fault_tolerance.nan_policy)",
         what, global.samples.front().index, global.samples.front().block, global.samples.front().epoch,
         data_->dataset().sources()[static_cast<size_t>(global.samples.front().source)].report().name);
  if (first()) log_.warn(what + "; the update is skipped");
}

void Trainer::add_source_figures(StepMetrics& metrics, const StepResult& result,
                                 const Agreement& agreed) const {
  const std::vector<Source>& sources = data_->dataset().sources();
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string& name = sources[i].report().name;
    const int64_t tokens = metrics.source_tokens[name] = agreed.trained_by_source[i];
    if (tokens > 0)
      metrics.source_loss[name] =
          sources.size() == 1 ? result.loss : result.source_loss_sums[i] / static_cast<double>(tokens);
  }
}

void Trainer::finish_metrics(StepMetrics& metrics, const DataFeed::GlobalBatch& global, double seconds) {
  double flops[1] = {static_cast<double>(backend_.flops().model)};
  world_.all_reduce_host(std::span(flops), Reduce::Sum);
  int64_t memory[1] = {backend_.allocator().peak_bytes() + writer_->peak_snapshot_bytes()};
  world_.all_reduce_host(std::span(memory), Reduce::Max);
  metrics.step_seconds = seconds;
  seconds_in_steps_ += seconds;
  metrics.model_flops = flops[0];
  metrics.peak_flops = peak_flops_;
  metrics.peak_memory_bytes = peak_memory_ = memory[0];
  metrics.observed = rank_->observed().take();
  const int64_t interval = config_.train.eval_interval;
  if (interval > 0 && metrics.step.value % interval == 0) metrics.eval_loss = evaluate_all();
  if (!first()) return;
  if (config_.debug.log_sample_ids)
    for (const SampleId& id : global.samples)
      metrics.sample_ids.push_back({id.source, id.epoch, id.block, id.index});
  folder_.append_metrics(to_json_line(metrics));
  if (events_) write_events(metrics);
  doubt_peak(metrics);
  progress_.show(metrics, Steps(config_.train.steps));
}

void Trainer::write_events(const StepMetrics& metrics) {
  EventSummary summary;
  for (const auto& [name, value] : named_numbers(metrics)) summary.add_scalar(name, value);
  for (const TensorFigures& tensor : metrics.tensors) {
    add_histogram(summary, "weights/" + tensor.name, tensor.weights);
    add_histogram(summary, "gradients/" + tensor.name, tensor.gradients);
  }
  events_->write(metrics.step, summary);
}

// Nothing is faster than the peak: where a step is, the peak is wrong, and with it every MFU of the run.
void Trainer::doubt_peak(const StepMetrics& metrics) {
  const double rate = metrics.model_flops / metrics.step_seconds;
  if (peak_doubted_ || rate <= *peak_flops_) return;
  peak_doubted_ = true;
  log_.warn(fmt::format(
      "step {} reached {:.3g} GFLOP/s, more than the peak of {:.3g}: MFU is too high in this run, as {}",
      metrics.step.value, rate / 1e9, *peak_flops_ / 1e9,
      config_.run.peak_flops
          ? "run.peak_flops is too low"
          : "other work slowed the measurement at the start (run.peak_flops sets the peak)"));
}

double Trainer::evaluate_all() {
  const Timeline::Scope scope(&timeline_, Activity::Evaluation);
  rank_->wait_for_values();
  double sums[2] = {0, 0};
  for (int64_t i = 0; i < config_.train.eval_steps; ++i) {
    DataFeed::GlobalBatch global;
    agree(world_, [&] { global = data_->evaluation(i); });
    if (global.samples.empty()) break;
    std::vector<Batch> batches;
    for (const HostBatch& host : global.microbatches) {
      batches.push_back(rank_->upload(host));
      if (rank_->counts_rows()) sums[1] += host.weight_sum;
    }
    const double loss_sum = rank_->step().evaluate(batches);
    if (rank_->counts_loss()) sums[0] += loss_sum;
  }
  world_.all_reduce_host(std::span(sums), Reduce::Sum);
  CHECK_AS(ExitCode::Data, sums[1] > 0,
           "there is no evaluation data: data.split leaves no whole sample for it");
  return sums[0] / sums[1];
}

void Trainer::compare_memory() {
  if (!first() || request_.planned_peak_bytes == 0 || peak_memory_ == 0) return;
  const auto planned = static_cast<double>(request_.planned_peak_bytes),
             measured = static_cast<double>(peak_memory_);
  log_.info(
      fmt::format("peak memory of the largest rank: planned {:.1f} MiB, measured {:.1f} MiB ({:+.1f} %)",
                  planned / (1 << 20), measured / (1 << 20), 100 * (measured / planned - 1)));
}

bool Trainer::save_is_due() const {
  const int64_t interval = config_.checkpoint.interval;
  return interval > 0 && state_.step.value % interval == 0 && state_.step.value < config_.train.steps;
}

void Trainer::save(bool last) {
  const Timeline::Scope scope(&timeline_, Activity::Checkpoint);
  const StopFlag::Answer together(stop_);
  note_saved(writer_->start(state_.step, tensors_of(*rank_, TensorsFor::Saving),
                            to_json(state_, config_.run.seed), last));
  saved_ = state_.step;
  if (first()) ledger_.note(state_.step, state_.data_cursor);
}

void Trainer::poll_saving() {
  const Timeline::Scope scope(&timeline_, Activity::Checkpoint);
  note_saved(writer_->poll());
}

void Trainer::finish_saving() {
  const Timeline::Scope scope(&timeline_, Activity::Checkpoint);
  note_saved(writer_->wait());
}

void Trainer::note_saved(const std::optional<SaveResult>& result) {
  if (!result || !first()) return;
  log_.info(fmt::format("saved {} ({:.1f} MiB in {:.2f} s)", result->path.string(),
                        static_cast<double>(result->bytes) / (1 << 20), result->seconds));
}

}  // namespace

TrainOutcome train(const TrainRequest& request, RankEnvironment environment) {
  return Trainer(request, environment).run();
}

}  // namespace tessera
