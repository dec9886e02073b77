// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <tuple>

#include "framework/parallel/pipeline/live_bytes.h"
#include "framework/parallel/pipeline/validate_parts.h"

namespace tessera {
namespace {

// Goes through one rank's list.
class RankResources {
 public:
  RankResources(size_t rank, const Schedule& schedule, const ValidationSizes& sizes)
      : rank_(static_cast<int>(rank)),
        schedule_(schedule),
        sizes_(sizes),
        index_(sizes, schedule.microbatches) {
    gathered_.assign(index_.units(), false);
    to_come_.assign(index_.units(), schedule.microbatches);
    final_.assign(index_.cells(), false);
    if (sizes.costs) live_.emplace_back(*sizes.costs);
  }

  const std::vector<int>& tied_order() const { return tied_order_; }

  // `in_pair`: another runs together with it, behind it.
  std::string problem(const Action& a, bool in_pair) {
    std::string text;
    if (is_work(a.kind)) {
      text = work(a);
    } else if (a.kind == ActionKind::GatherParameters || a.kind == ActionKind::DropParameters) {
      text = parameters(a);
    } else if (a.kind == ActionKind::ReduceGradients) {
      text = reduce(a);
    } else if (a.kind == ActionKind::ReduceTied) {
      text = reduce_tied(a);
    }
    return text.empty() && !live_.empty() ? memory(a, in_pair) : text;
  }

  std::string missing() const {
    if (gathered_count_ > 0) return "parameters stay gathered";
    if (sizes_.forward_only) return {};
    for (size_t stage = 0; stage < sizes_.bucket_first_unit.size(); ++stage)
      for (size_t bucket = 0; bucket < sizes_.bucket_first_unit[stage].size(); ++bucket)
        if (here(static_cast<int>(stage)) && !is_reduced(static_cast<int>(stage), static_cast<int>(bucket)))
          return fmt::format("bucket {} of stage {} is never reduced{}", bucket, stage,
                             every() ? " in some micro-batch" : "");
    for (size_t bucket = 0; bucket < sizes_.tied.size(); ++bucket)
      for (const UnitPlace& use : sizes_.tied[bucket])
        if (here(use.stage) && std::ranges::find(tied_order_, static_cast<int>(bucket)) == tied_order_.end())
          return fmt::format("tied bucket {} is never reduced", bucket);
    return {};
  }

 private:
  bool here(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)] == rank_; }
  int units(int stage) const { return sizes_.units_of_stage[static_cast<size_t>(stage)]; }

  std::string work(const Action& a) {
    for (int unit = std::max(a.unit, 0); unit < (a.unit < 0 ? units(a.stage) : a.unit + 1); ++unit) {
      const size_t i = index_.unit(a.stage, unit);
      if (finishes_weights(a.kind)) {
        --to_come_[i];
        final_[index_.cell(a.stage, unit, a.microbatch)] = true;
      }
      if (sizes_.gathered_units > 0 && !gathered_[i]) return "its parameters are not gathered";
    }
    return {};
  }

  std::string parameters(const Action& a) {
    const size_t i = index_.unit(a.stage, a.unit);
    const bool gather = a.kind == ActionKind::GatherParameters;
    if (gathered_[i] == gather) return gather ? "they are gathered already" : "they are not gathered";
    gathered_[i] = gather;
    gathered_count_ += gather ? 1 : -1;
    if (gathered_count_ <= sizes_.gathered_units) return {};
    return fmt::format("more than {} units are gathered at once", sizes_.gathered_units);
  }

  std::string reduce(const Action& a) {
    const int first = sizes_.bucket_first_unit[static_cast<size_t>(a.stage)][static_cast<size_t>(a.unit)];
    for (int unit = first; unit < units(a.stage); ++unit)
      if (every() ? !final_[index_.cell(a.stage, unit, a.microbatch)]
                  : to_come_[index_.unit(a.stage, unit)] > 0)
        return "its gradients are not final";
    const bool first_time = reduced_.insert({a.stage, a.unit, every() ? a.microbatch : 0}).second;
    return first_time ? "" : "the bucket is reduced twice";
  }

  bool every() const { return sizes_.reductions == Reductions::EveryMicrobatch; }
  bool is_reduced(int stage, int bucket) const {
    for (int m = 0; m < (every() ? schedule_.microbatches : 1); ++m)
      if (!reduced_.contains({stage, bucket, m})) return false;
    return true;
  }

  std::string reduce_tied(const Action& a) {
    for (const UnitPlace& use : sizes_.tied[static_cast<size_t>(a.unit)])
      if (here(use.stage) && to_come_[index_.unit(use.stage, use.unit)] > 0)
        return "its gradients are not final";
    if (std::ranges::find(tied_order_, a.unit) != tied_order_.end())
      return "the tied bucket is reduced twice";
    tied_order_.push_back(a.unit);
    return {};
  }

  // A message is given up by the work that starts from it.
  std::string memory(const Action& a, bool in_pair) {
    const bool top = a.unit < 0 || a.unit + 1 == units(a.stage);
    int from = -1;
    if (is_forward(a.kind) && a.unit <= 0) from = a.stage - 1;
    if (starts_backward(a.kind) && top && a.stage + 1 < schedule_.stages) from = a.stage + 1;
    live_[0].apply(a, sizes_.messages && from >= 0 && !here(from), !in_pair);
    if (live_[0].peak() <= sizes_.bytes) return {};
    return fmt::format("{} bytes of live activations are more than {}", live_[0].peak(), sizes_.bytes);
  }

  const int rank_;
  const Schedule& schedule_;
  const ValidationSizes& sizes_;
  const UnitIndex index_;
  std::vector<bool> gathered_;  // by unit
  std::vector<int> to_come_;    // by unit: micro-batches without weight gradient
  int gathered_count_ = 0;
  std::vector<bool> final_;                      // by unit and micro-batch: it has its weight gradient
  std::set<std::tuple<int, int, int>> reduced_;  // stage, bucket, micro-batch
  std::vector<int> tied_order_;
  std::vector<LiveBytes> live_;  // one, if memory is bounded
};

std::vector<int> shared(std::vector<int> order, const std::vector<int>& other) {
  std::erase_if(order, [&](int bucket) { return std::ranges::find(other, bucket) == other.end(); });
  return order;
}

}  // namespace

void check_resources(const Schedule& schedule, const ValidationSizes& sizes, const Refusal& refusal) {
  std::vector<std::vector<int>> tied_orders;
  for (size_t rank = 0; rank < schedule.by_rank.size(); ++rank) {
    RankResources resources(rank, schedule, sizes);
    const auto& actions = schedule.by_rank[rank];
    for (size_t i = 0; i < actions.size(); ++i)
      if (const std::string problem = resources.problem(actions[i], length_of_step(actions, i) > 1);
          !problem.empty())
        refusal.at(rank, i, problem);
    if (const std::string missing = resources.missing(); !missing.empty())
      refusal.at(rank, actions.size(), missing);
    for (size_t other = 0; other < tied_orders.size(); ++other)
      if (shared(resources.tied_order(), tied_orders[other]) !=
          shared(tied_orders[other], resources.tied_order()))
        refusal.at(rank, actions.size(), fmt::format("rank {} reduces tied buckets in another order", other));
    tied_orders.push_back(resources.tied_order());
  }
}

}  // namespace tessera
