// SPDX-License-Identifier: Apache-2.0
// Makes schedules of whole stages, without messages, for any number of ranks and micro-batches. Each form is
// a pattern (pattern.h); forms that split the backward then place the weight gradients in the gaps (fill.h).
// Where the forms come from:
//   gpipe              Huang et al. 2018, arXiv 1811.06965
//   1f1b               Fan et al. 2020, DAPPLE, arXiv 2007.01045
//   interleaved        Narayanan et al. 2021, arXiv 2104.04473
//   zb_h1 zb_h2 auto   Qi et al. 2023, Zero Bubble Pipeline Parallelism, arXiv 2401.10241
//   zb_v v_half v_min  Qi et al. 2024, Pipeline Parallelism with Controllable Memory, arXiv 2405.15362
//   dualpipe_v         DeepSeek-AI 2024, DualPipe, arXiv 2412.19437, cut in half: one copy of the parameters
#pragma once
#include <string_view>
#include <vector>

#include "framework/parallel/pipeline/costs.h"
#include "framework/parallel/pipeline/pattern.h"
#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

// Live activations below are those of a whole micro-batch on one rank: a V's stage holds half of one.
Schedule gpipe(int ranks, int microbatches);                     // all of them live
Schedule one_forward_one_backward(int ranks, int microbatches);  // at most `ranks` live
Schedule interleaved(int ranks, int microbatches, int chunks);   // ranks + (ranks - 1) / chunks
Schedule zb_h1(int ranks, int microbatches);                     // ranks
Schedule zb_h2(int ranks, int microbatches);                     // 2 * ranks - 1
Schedule zb_v(int ranks, int microbatches);                      // ranks
Schedule v_half(int ranks, int microbatches);                    // (ranks + 2) / 2, rounded down
Schedule v_min(int ranks, int microbatches);                     // (ranks + 4) / 3, rounded down
// In the middle of the step each forward runs together with the backward of the other stage behind it.
Schedule dualpipe_v(int ranks, int microbatches);  // ranks, and half a one more one by one

// The form that parallel.schedule names, all but "auto" and files. `chunks` (parallel.virtual_stages) counts
// for "interleaved" alone. Where stages live does not depend on the number of micro-batches. Exit code 2 for
// another name, with those that there are.
Schedule named_schedule(std::string_view name, int ranks, int microbatches, int chunks);
std::vector<std::string_view> schedule_names();

// The quickest of a few dozen zero bubble orders for stages of these costs, on straight_placement() or
// v_placement(), in which no rank holds more than `bytes` of live activations. Exit code 2 when even one
// micro-batch at a time is more.
Schedule auto_schedule(const CostModel& costs, const std::vector<int>& rank_of_stage, int microbatches,
                       int64_t bytes);

}  // namespace tessera
