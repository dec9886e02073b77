// SPDX-License-Identifier: Apache-2.0
#include "framework/train/schedule_file.h"

#include <algorithm>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/validate.h"

namespace tessera {
namespace {

class FileCheck {
 public:
  FileCheck(const std::string& file, const PlacedSchedule& placed) : file_(file), placed_(placed) {}

  void run(int ranks, int microbatches) const {
    const Schedule& schedule = placed_.schedule;
    const auto lists = static_cast<int>(schedule.by_rank.size());
    if (lists != ranks)
      fail(ExitCode::Usage,
           "{}:1:1: it has lists of {} rank{}, and parallel.pp is {} (an empty line ends the "
           "lists)",
           file_, lists, lists == 1 ? "" : "s", ranks);
    every_cell([&](size_t rank, size_t cell, const Action& action) {
      if (action.microbatch >= microbatches)
        refuse(rank, cell,
               "it is of micro-batch {}, and there are {}, counted from 0 (train."
               "gradient_accumulation_steps)",
               action.microbatch, microbatches);
      if (!(is_work(action.kind) || is_transfer(action.kind)) || action.unit >= 0)
        refuse(rank, cell,
               "a file has the work of whole stages (F I W B K C), and what leaves and comes back (O L); "
               "messages, gathers and reductions are put in by the run");
    });
    for (size_t rank = 0; rank < schedule.by_rank.size(); ++rank)
      if (std::ranges::count(schedule.rank_of_stage, static_cast<int>(rank)) == 0)
        refuse(rank, 0, "rank {} has no stage of its own", rank);
    for (size_t stage = 0; stage < schedule.rank_of_stage.size(); ++stage)
      if (schedule.rank_of_stage[stage] < 0)
        fail(ExitCode::Usage, "{}:1:1: there are stages above {}, and no work of stage {}", file_, stage,
             stage);
    size_t actions = 0;
    for (const auto& list : schedule.by_rank) actions += list.size();
    if (actions < static_cast<size_t>(schedule.stages) * static_cast<size_t>(microbatches))
      fail(ExitCode::Usage, "{}:1:1: {} actions are too few for {} stages and {} micro-batches", file_,
           actions, schedule.stages, microbatches);
    Schedule whole = schedule;
    whole.microbatches = microbatches;
    validate(whole,
             {.units_of_stage = std::vector<int>(static_cast<size_t>(schedule.stages), 1),
              .messages = false,
              .place = [&](size_t rank, size_t cell) { return place(rank, cell); }},
             ExitCode::Usage);
  }

 private:
  std::string place(size_t rank, size_t cell) const {
    const TextPlace& at = placed_.places.at(rank).at(cell);
    return fmt::format("{}:{}:{}: ", file_, at.line, at.column);
  }
  template <class... Args>
  [[noreturn]] void refuse(size_t rank, size_t cell, fmt::format_string<Args...> format,
                           Args&&... args) const {
    const auto& actions = placed_.schedule.by_rank[rank];
    fail(ExitCode::Usage, "{}{}: {}", place(rank, cell), to_text(actions[cell]),
         fmt::format(format, std::forward<Args>(args)...));
  }
  template <class Visit>
  void every_cell(Visit&& visit) const {
    for (size_t rank = 0; rank < placed_.schedule.by_rank.size(); ++rank)
      for (size_t cell = 0; cell < placed_.schedule.by_rank[rank].size(); ++cell)
        visit(rank, cell, placed_.schedule.by_rank[rank][cell]);
  }

  const std::string& file_;
  const PlacedSchedule& placed_;
};

}  // namespace

Schedule schedule_of_file(const std::string& file, const std::string& text, int ranks, int microbatches) {
  PlacedSchedule placed = placed_schedule_from_text(text, file);
  FileCheck(file, placed).run(ranks, microbatches);
  return std::move(placed.schedule);
}

}  // namespace tessera
