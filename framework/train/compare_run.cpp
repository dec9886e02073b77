// SPDX-License-Identifier: Apache-2.0
#include "framework/train/compare_run.h"

#include <bit>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/comm/in_process/thread_ranks.h"
#include "framework/config/resolve.h"
#include "framework/ops/memory.h"
#include "framework/train/launch.h"

namespace tessera {
namespace {

// Elements of the tensors that the ranks hand over between two barriers.
constexpr int64_t kElementsAtOnce = int64_t{1} << 20;

// What one rank holds of one parameter: elements [begin, begin + weight.size()) of its box, row-major.
struct RankPiece {
  Box box;
  int64_t begin = 0;
  std::vector<float> gradient, weight;
};

std::vector<float> download(Backend& backend, const Tensor& x) {
  if (x.dtype() == DType::F32 && x.elements() > 0) return to_host<float>(backend, x);
  const std::vector<double> wide = to_host_double(backend, x);
  return {wide.begin(), wide.end()};
}

// Calls run(from, at, count) for each run of a piece that is contiguous in the logical tensor too: elements
// from `from` of the piece lie at `at` of the tensor.
template <class Run>
void for_each_run(const RankPiece& piece, const Shape& shape, const Run& run) {
  const auto count = static_cast<int64_t>(piece.weight.size());
  const size_t dims = piece.box.extent.size();
  const int64_t width = piece.box.extent[dims - 1];
  for (int64_t from = 0; from < count;) {
    const int64_t local = piece.begin + from, column = local % width;
    int64_t rest = local / width, at = 0, stride = shape[static_cast<int>(dims) - 1];
    for (size_t dim = dims - 1; dim-- > 0;) {
      at += (piece.box.offset[dim] + rest % piece.box.extent[dim]) * stride;
      rest /= piece.box.extent[dim];
      stride *= shape[static_cast<int>(dim)];
    }
    at += piece.box.offset[dims - 1] + column;
    const int64_t length = std::min(width - column, count - from);
    run(from, at, length);
    from += length;
  }
}

// Puts the pieces of all ranks in rank order; the first that holds an element gives it.
class Assembly {
 public:
  explicit Assembly(LogicalTensor& tensor)
      : tensor_(tensor), holder_(static_cast<size_t>(tensor.spec->shape.elements()), -1) {
    tensor.weight.assign(holder_.size(), 0.0f);
  }

  void add(int rank, const RankPiece& piece) {
    if (!piece.gradient.empty() && tensor_.gradient.empty()) tensor_.gradient.assign(holder_.size(), 0.0f);
    for_each_run(piece, tensor_.spec->shape, [&](int64_t from, int64_t at, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        place(rank, piece, static_cast<size_t>(from + i), static_cast<size_t>(at + i));
    });
  }

  void finish() {
    std::string& text = tensor_.disagreement;
    if (different_ > 0)
      text = fmt::format("ranks {} and {} hold different copies of {} of {} elements", first_holder_,
                         other_holder_, different_, holder_.size());
    const auto missing = std::count(holder_.begin(), holder_.end(), -1);
    if (missing > 0) text = fmt::format("no rank holds {} of {} elements", missing, holder_.size());
  }

 private:
  void place(int rank, const RankPiece& piece, size_t from, size_t at) {
    const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
    const bool has_gradient = !piece.gradient.empty();
    if (holder_[at] < 0) {
      holder_[at] = rank;
      tensor_.weight[at] = piece.weight[from];
      if (has_gradient) tensor_.gradient[at] = piece.gradient[from];
      return;
    }
    const bool gradient = has_gradient && bits(tensor_.gradient[at]) != bits(piece.gradient[from]);
    tensor_.gradients_disagree |= gradient;
    if (!gradient && bits(tensor_.weight[at]) == bits(piece.weight[from])) return;
    if (different_++ > 0) return;
    first_holder_ = holder_[at];
    other_holder_ = rank;
  }

  LogicalTensor& tensor_;
  std::vector<int> holder_;
  int64_t different_ = 0;
  int first_holder_ = -1, other_holder_ = -1;
};

}  // namespace

// Between the caller of show() and the threads of the ranks: one of the two sides works at a time.
struct SteppedRun::Shared {
  Shared(const RunConfig& c, const ModelDefinition& m, CompareHooks h)
      : config(c), model(m), hooks(std::move(h)), pieces(static_cast<size_t>(mesh_ranks(c))) {}

  void run();  // on a thread of its own: all ranks, until the end is asked for
  void run_rank(Communicator& world, Backend& backend);
  StepNumbers make_step(Rank& rank, DataFeed& data, int step);
  void show_rank(Rank& rank, const StepNumbers& numbers, int step);
  void collect(Rank& rank, size_t first, size_t end, double scale, bool gradients);
  void visit_pieces(const StepNumbers& numbers, size_t first, size_t end);

  bool await_grant(int step) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return granted > step || ending; });
    return !ending;
  }

  const RunConfig& config;
  const ModelDefinition& model;
  CompareHooks hooks;

  std::mutex mutex;
  std::condition_variable changed;
  int granted = 0, shown = 0;  // calls of show() that began, and that ended
  bool ending = false, ended = false;
  std::exception_ptr failure;
  StepNumbers numbers;
  const Visit* visit = nullptr;
  std::vector<std::map<size_t, RankPiece>> pieces;  // by rank, then by parameter
  std::thread thread;
};

SteppedRun::SteppedRun(const RunConfig& config, const ModelDefinition& model, CompareHooks hooks)
    : shared_(std::make_unique<Shared>(config, model, std::move(hooks))) {
  shared_->thread = std::thread([shared = shared_.get()] { shared->run(); });
}

SteppedRun::~SteppedRun() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ending = true;
    shared_->changed.notify_all();
  }
  shared_->thread.join();
}

StepNumbers SteppedRun::show(const Visit& visit) {
  std::unique_lock lock(shared_->mutex);
  shared_->visit = &visit;
  const int wanted = ++shared_->granted;
  shared_->changed.notify_all();
  shared_->changed.wait(lock, [&] { return shared_->shown == wanted || shared_->ended; });
  if (shared_->failure) std::rethrow_exception(shared_->failure);
  return shared_->numbers;
}

void SteppedRun::Shared::run() {
  std::exception_ptr caught;
  try {
    const int ranks = static_cast<int>(pieces.size());
    run_thread_ranks(ranks, {.patience = config.comm.timeout_s}, [&](InProcessWorld& world, int rank) {
      if (!await_grant(0)) return;
      std::string unused;
      const int threads = threads_of_rank(config.run.threads_per_rank, ranks, unused);
      const auto backend = make_cpu_backend(threads, {.poison = config.debug.poison});
      run_rank(*world.attach(rank, *backend), *backend);
    });
  } catch (...) {
    caught = std::current_exception();
  }
  const std::lock_guard lock(mutex);
  failure = caught;
  ended = true;
  changed.notify_all();
}

void SteppedRun::Shared::run_rank(Communicator& world, Backend& backend) {
  Rank rank(config, model, world, backend);
  rank.initialise_parameters();
  if (hooks.prepare) hooks.prepare(rank);
  DataFeed data(config, rank.data_rank());
  for (int step = 0; await_grant(step); ++step) {
    const StepNumbers made = step > 0 ? make_step(rank, data, step) : StepNumbers{};
    show_rank(rank, made, step);
    if (rank.number() != 0) continue;
    const std::lock_guard lock(mutex);
    numbers = made;
    shown = step + 1;
    changed.notify_all();
  }
}

StepNumbers SteppedRun::Shared::make_step(Rank& rank, DataFeed& data, int step) {
  DataFeed::GlobalBatch global = data.next();
  if (hooks.edit) hooks.edit(step, global);
  int64_t trained[1] = {0};
  std::vector<Batch> batches;
  for (HostBatch& host : global.microbatches) {
    host.count_weights();
    if (rank.counts_rows()) trained[0] += host.trained.value;
    batches.push_back(rank.upload(host));
  }
  rank.world().all_reduce_host(std::span(trained), Reduce::Sum);
  const double rate = learning_rate(learning_rate_options(config), Steps(step - 1));
  const StepResult result = rank.step().run(batches, static_cast<double>(trained[0]), Steps(step), rate);
  return {.loss = result.loss,
          .grad_norm = result.grad_norm,
          .finite = result.finite,
          .updated = result.updated,
          .scale = result.scale,
          .tokens = trained[0],
          .learning_rate = rate};
}

// A few tensors at a time, so that the host holds little more than one of them for each rank.
void SteppedRun::Shared::show_rank(Rank& rank, const StepNumbers& made, int step) {
  for (size_t first = 0, end = 0; first < model.parameters.size(); first = end) {
    int64_t elements = 0;
    while (end < model.parameters.size() && (end == first || elements < kElementsAtOnce))
      elements += model.parameters[end++].shape.elements();
    collect(rank, first, end, made.scale, step > 0);
    rank.world().barrier();
    if (rank.number() == 0) visit_pieces(made, first, end);
    rank.world().barrier();
  }
}

void SteppedRun::Shared::collect(Rank& rank, size_t first, size_t end, double scale, bool gradients) {
  std::map<size_t, RankPiece>& mine = pieces[static_cast<size_t>(rank.number())];
  mine.clear();
  Backend& backend = rank.backend();
  std::map<std::string_view, size_t> index;
  for (size_t i = first; i < end; ++i) index[model.parameters[i].name] = i;
  for (const ParameterShard& shard : rank.buffers().shards()) {
    const auto found = index.find(shard.parameter->spec.name);
    if (found == index.end() || shard.master.elements() == 0) continue;
    RankPiece& piece = mine[found->second];
    piece = {.box = shard.parameter->box,
             .begin = shard.begin,
             .gradient = {},
             .weight = download(backend, shard.master)};
    if (!gradients) continue;
    piece.gradient = download(backend, shard.gradient);
    for (float& value : piece.gradient) value = static_cast<float>(value / scale);
  }
  for (const Parameter& parameter : rank.store().parameters()) {
    const auto found = index.find(parameter.spec.name);
    if (found == index.end() || parameter.spec.trainable || parameter.box.elements() == 0) continue;
    mine[found->second] = {
        .box = parameter.box, .begin = 0, .gradient = {}, .weight = download(backend, parameter.master)};
  }
}

void SteppedRun::Shared::visit_pieces(const StepNumbers& made, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    LogicalTensor tensor{.index = i, .spec = &model.parameters[i], .boxes = std::vector<Box>(pieces.size())};
    Assembly assembly(tensor);
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      const auto found = pieces[rank].find(i);
      if (found == pieces[rank].end()) continue;
      tensor.boxes[rank] = found->second.box;
      assembly.add(static_cast<int>(rank), found->second);
    }
    assembly.finish();
    (*visit)(made, tensor);
  }
}

}  // namespace tessera
