// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/validate.h"

#include <algorithm>

#include "framework/parallel/pipeline/validate_parts.h"

namespace tessera {
namespace {

// One row of the table: the cells around the place that a rank has come to.
std::string row(size_t rank, const std::vector<Action>& actions, size_t at, std::string_view open,
                std::string_view close) {
  constexpr size_t kBefore = 12, kAfter = 8;
  const size_t begin = at - std::min(at, kBefore), end = std::min(actions.size(), at + kAfter + 1);
  std::string text = fmt::format("\n rank {}:{}", rank, begin > 0 ? " ..." : "");
  for (size_t i = begin; i < end; ++i)
    text += i == at ? fmt::format(" {}{}{}", open, to_text(actions[i]), close) : " " + to_text(actions[i]);
  if (at >= actions.size() && !open.empty()) text += fmt::format(" {}end{}", open, close);
  return end < actions.size() ? text + " ..." : text;
}

// Everything that arrays are sized or indexed by.
void check_sizes(const Schedule& schedule, const ValidationSizes& sizes, ExitCode code) {
  const size_t stages = sizes.units_of_stage.size(), ranks = schedule.by_rank.size();
  CHECK_AS(code, ranks > 0 && static_cast<size_t>(schedule.stages) == stages,
           "a schedule of {} stages on {} ranks was checked against {} stages", schedule.stages, ranks,
           stages);
  CHECK_AS(code, schedule.rank_of_stage.size() == stages, "of {} stages {} have a rank", stages,
           schedule.rank_of_stage.size());
  CHECK_AS(code, sizes.bucket_first_unit.empty() || sizes.bucket_first_unit.size() == stages,
           "buckets of {} stages for a schedule of {}", sizes.bucket_first_unit.size(), stages);
  CHECK_AS(code, !sizes.costs || static_cast<size_t>(sizes.costs->stages()) == stages,
           "a bound on memory needs the bytes of all {} stages", stages);
  size_t actions = 0;
  for (const auto& list : schedule.by_rank) actions += list.size();
  CHECK_AS(code, schedule.microbatches >= 1 && static_cast<size_t>(schedule.microbatches) * stages <= actions,
           "{} actions are too few for {} stages and {} micro-batches", actions, stages,
           schedule.microbatches);
  for (size_t stage = 0; stage < stages; ++stage) {
    const int rank = schedule.rank_of_stage[stage], units = sizes.units_of_stage[stage];
    CHECK_AS(code, units >= 1, "stage {} has {} units", stage, units);
    CHECK_AS(code, rank >= 0 && static_cast<size_t>(rank) < ranks, "stage {} is on no rank of the schedule",
             stage);
    CHECK_AS(code, !sizes.costs || sizes.costs->units(static_cast<int>(stage)) == units,
             "a bound on memory needs the bytes of all {} units of stage {}", units, stage);
  }
  for (const TiedBucket& bucket : sizes.tied)
    for (const UnitPlace& use : bucket)
      CHECK_AS(code,
               use.stage >= 0 && use.stage < schedule.stages && use.unit >= 0 &&
                   use.unit < sizes.units_of_stage[static_cast<size_t>(use.stage)],
               "a tied bucket names unit {} of stage {}", use.unit, use.stage);
}

class Names {
 public:
  Names(const Schedule& schedule, const ValidationSizes& sizes) : schedule_(schedule), sizes_(sizes) {}

  std::string problem(int rank, const Action& a) const {
    if (a.stage < 0 || a.stage >= schedule_.stages) return "no such stage";
    if (a.microbatch < 0 || a.microbatch >= schedule_.microbatches) return "no such micro-batch";
    if (a.kind == ActionKind::ReduceTied) return tied_bucket(rank, a.unit);
    if (rank_of(a.stage) != rank) return fmt::format("stage {} lives on rank {}", a.stage, rank_of(a.stage));
    if (a.kind == ActionKind::ReduceGradients) return bucket(a);
    if (is_message(a.kind)) return message(a);
    if (a.unit < -1 || a.unit >= sizes_.units_of_stage[static_cast<size_t>(a.stage)]) return "no such unit";
    if (!is_work(a.kind) && !is_transfer(a.kind)) {
      if (a.unit < 0) return "parameters are gathered and dropped unit by unit";
      return sizes_.gathered_units > 0 ? "" : "all parameters are always there";
    }
    if (!sizes_.forward_only || a.kind == ActionKind::Forward) return {};
    return is_work(a.kind) ? "a backward in a schedule of forwards" : "forwards alone leave nothing";
  }

 private:
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }

  std::string tied_bucket(int rank, int index) const {
    if (index < 0 || index >= static_cast<int>(sizes_.tied.size())) return "no such tied bucket";
    for (const UnitPlace& use : sizes_.tied[static_cast<size_t>(index)])
      if (rank_of(use.stage) == rank) return {};
    return "no unit of the tied bucket is on this rank";
  }

  std::string bucket(const Action& a) const {
    const auto& buckets = sizes_.bucket_first_unit;
    const size_t count = buckets.empty() ? 0 : buckets[static_cast<size_t>(a.stage)].size();
    return a.unit >= 0 && static_cast<size_t>(a.unit) < count ? "" : "no such bucket";
  }

  std::string message(const Action& a) const {
    if (!sizes_.messages) return "messages have not been placed yet";
    if (a.unit != -1) return "a message is of a whole stage";
    const int other = other_end(a);
    if (other < 0 || other >= schedule_.stages) return "there is no stage at the other end";
    return rank_of(other) == rank_of(a.stage) ? "both stages are on one rank" : "";
  }

  const Schedule& schedule_;
  const ValidationSizes& sizes_;
};

}  // namespace

void Refusal::refuse(size_t rank, size_t cell, const std::string& problem, const std::string& table) const {
  fail(code_, "{}the schedule is not valid: rank {}: {}{}", sizes_.place ? sizes_.place(rank, cell) : "",
       rank, problem, table);
}

void Refusal::at(size_t rank, size_t cell, const std::string& problem) const {
  std::string table;
  for (size_t r = 0; r < schedule_.by_rank.size(); ++r) {
    const auto& actions = schedule_.by_rank[r];
    const bool bad = r == rank;
    table += row(r, actions, std::min(cell, actions.size()), bad ? ">>" : "", bad ? "<<" : "");
  }
  refuse(rank, std::min(cell, schedule_.by_rank[rank].size()), problem, table);
}

void Refusal::at(size_t rank, const std::vector<size_t>& reached, const std::string& problem) const {
  std::string table;
  for (size_t r = 0; r < reached.size(); ++r) {
    const auto& actions = schedule_.by_rank[r];
    const bool bad = r == rank, waits = reached[r] < actions.size();
    table += row(r, actions, reached[r], bad ? ">>" : waits ? "[" : "", bad ? "<<" : waits ? "]" : "");
  }
  refuse(rank, reached[rank], problem, table);
}

void check_names(const Schedule& schedule, const ValidationSizes& sizes, const Refusal& refusal) {
  const Names names(schedule, sizes);
  for (size_t rank = 0; rank < schedule.by_rank.size(); ++rank)
    for (size_t i = 0; i < schedule.by_rank[rank].size(); ++i) {
      const std::vector<Action>& actions = schedule.by_rank[rank];
      if (const auto problem = names.problem(static_cast<int>(rank), actions[i]); !problem.empty())
        refusal.at(rank, i, problem);
      if (actions[i].together && (i == 0 || !can_be_together(actions[i - 1], actions[i])))
        refusal.at(rank, i,
                   "only a backward right behind a forward of another micro-batch runs together with it");
    }
}

void validate(const Schedule& schedule, const ValidationSizes& sizes, ExitCode code) {
  check_sizes(schedule, sizes, code);
  const Refusal refusal(schedule, sizes, code);
  check_names(schedule, sizes, refusal);
  check_channels(schedule, refusal);
  check_order(schedule, sizes, refusal);
  check_resources(schedule, sizes, refusal);
}

}  // namespace tessera
