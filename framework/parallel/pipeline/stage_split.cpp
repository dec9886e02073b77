// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/stage_split.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>

#include "framework/base/check.h"

namespace tessera {
namespace {

class Balance {
 public:
  Balance(std::span<const double> unit_costs, const std::vector<int>& rank_of_stage)
      : rank_of_stage_(rank_of_stage), loads_(static_cast<size_t>(std::ranges::max(rank_of_stage)) + 1) {
    sum_to_.push_back(0);
    for (const double cost : unit_costs) sum_to_.push_back(sum_to_.back() + cost);
  }

  // Less is better: the largest load of a rank, then how far loads are apart.
  struct Score {
    double largest = 0, squares = 0;
    bool operator<(const Score& other) const {
      const double close = 1e-9 * other.largest;
      if (largest < other.largest - close) return true;
      return largest < other.largest + close && squares < other.squares * (1 - 1e-9);
    }
  };

  Score score(const std::vector<int>& blocks) {
    std::ranges::fill(loads_, 0);
    size_t unit = 0;
    for (size_t stage = 0; stage < blocks.size(); ++stage) {
      const size_t first = unit;
      unit += static_cast<size_t>(blocks[stage]) + (stage == 0) + (stage + 1 == blocks.size());
      loads_[static_cast<size_t>(rank_of_stage_[stage])] += sum_to_[unit] - sum_to_[first];
    }
    Score score;
    for (const double load : loads_) {
      score.largest = std::max(score.largest, load);
      score.squares += load * load;
    }
    return score;
  }

 private:
  const std::vector<int>& rank_of_stage_;
  std::vector<double> sum_to_;  // of the units before
  std::vector<double> loads_;
};

// "7*2" or "2": how many stages of how many blocks.
bool read_piece(std::string_view piece, int& times, int& blocks) {
  const auto number = [](std::string_view text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= 1 << 20;
  };
  const size_t star = piece.find('*');
  times = 1;
  if (star == std::string_view::npos) return number(piece, blocks);
  return number(piece.substr(0, star), times) && number(piece.substr(star + 1), blocks);
}

}  // namespace

std::vector<int> split_by_cost(std::span<const double> unit_costs, const std::vector<int>& rank_of_stage) {
  const int stages = static_cast<int>(rank_of_stage.size()), blocks = static_cast<int>(unit_costs.size()) - 2;
  CHECK_AS(ExitCode::Usage, stages >= 1 && blocks >= stages, "{} layers are too few for {} pipeline stages",
           blocks, stages);
  std::vector<int> split(rank_of_stage.size(), blocks / stages);
  for (size_t s = 0; s < static_cast<size_t>(blocks % stages); ++s) ++split[s];
  Balance balance(unit_costs, rank_of_stage);
  Balance::Score best = balance.score(split);
  // Takes a block from one stage and gives one to another, those between shifting by one, while that helps.
  for (bool better = true; better;) {
    better = false;
    std::vector<int> next = split;
    for (size_t from = 0; from < split.size(); ++from)
      for (size_t to = 0; to < split.size(); ++to) {
        if (from == to || split[from] == 1) continue;
        std::vector<int> candidate = split;
        --candidate[from];
        ++candidate[to];
        if (const Balance::Score score = balance.score(candidate); score < best) {
          best = score;
          next = candidate;
          better = true;
        }
      }
    split = next;
  }
  return split;
}

std::vector<int> split_from_text(std::string_view text, int stages, int blocks) {
  std::vector<int> split;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view piece = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    while (piece.starts_with(' ')) piece.remove_prefix(1);
    while (piece.ends_with(' ')) piece.remove_suffix(1);
    int times = 0, count = 0;
    CHECK_AS(ExitCode::Usage, read_piece(piece, times, count),
             "'{}' in parallel.stage_layout '{}' is not a number of blocks such as 2, or 7*2 for seven "
             "stages of 2",
             piece, text);
    CHECK_AS(ExitCode::Usage, times <= stages, "parallel.stage_layout '{}' names more than {} stages", text,
             stages);
    split.insert(split.end(), static_cast<size_t>(times), count);
  }
  const int sum = std::accumulate(split.begin(), split.end(), 0);
  CHECK_AS(ExitCode::Usage, static_cast<int>(split.size()) == stages && sum == blocks,
           "parallel.stage_layout '{}' puts {} blocks on {} stages, the model has {} blocks and the pipeline "
           "{} stages",
           text, sum, split.size(), blocks, stages);
  for (size_t s = 1; s + 1 < split.size(); ++s)
    CHECK_AS(ExitCode::Usage, split[s] > 0, "parallel.stage_layout '{}' leaves stage {} empty", text, s);
  return split;
}

std::vector<UnitRange> units_of_stages(const std::vector<int>& blocks_of_stage) {
  std::vector<UnitRange> ranges;
  int unit = 0;
  for (size_t stage = 0; stage < blocks_of_stage.size(); ++stage) {
    const int count = blocks_of_stage[stage] + (stage == 0) + (stage + 1 == blocks_of_stage.size());
    ranges.push_back({unit, count});
    unit += count;
  }
  return ranges;
}

}  // namespace tessera
