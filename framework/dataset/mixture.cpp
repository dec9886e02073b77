// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/mixture.h"

#include <cassert>
#include <cmath>
#include <numeric>

#include "framework/base/check.h"

namespace tessera {
namespace {

constexpr int64_t kOne = int64_t{1} << 62;
using Wide = __int128;

}  // namespace

Mixture::Mixture(std::span<const double> weights) : taken_(weights.size()), deficits_(weights.size()) {
  CHECK_AS(ExitCode::Usage, !weights.empty() && weights.size() <= 1024, "a mixture of {} sources",
           weights.size());
  double sum = 0;
  for (const double weight : weights) {
    CHECK_AS(ExitCode::Usage, std::isfinite(weight) && weight >= 0, "a source has weight {}", weight);
    sum += weight;
  }
  CHECK_AS(ExitCode::Usage, sum > 0 && std::isfinite(sum), "the weights of all sources sum to {}", sum);
  size_t largest = 0;
  for (const double weight : weights) {
    shares_.push_back(static_cast<int64_t>(weight / sum * static_cast<double>(kOne)));
    if (shares_.back() > shares_[largest]) largest = shares_.size() - 1;
  }
  // What rounding left over goes where it matters least.
  shares_[largest] += kOne - std::accumulate(shares_.begin(), shares_.end(), int64_t{0});
  int64_t sources = 0;
  for (const int64_t share : shares_) sources += share > 0;
  threshold_ = sources > 1 ? kOne / (2 * sources - 2) : 0;
}

Mixture::Mixture(std::span<const double> weights, std::span<const int64_t> taken) : Mixture(weights) {
  CHECK_AS(ExitCode::Data, taken.size() == weights.size(), "{} counts for {} sources", taken.size(),
           weights.size());
  taken_.assign(taken.begin(), taken.end());
  for (const int64_t count : taken) {
    CHECK_AS(ExitCode::Data, count >= 0 && count <= INT64_MAX - position_, "{} samples taken of a source",
             count);
    position_ += count;
  }
  for (size_t i = 0; i < taken_.size(); ++i) {
    const Wide deficit = Wide{position_} * shares_[i] - Wide{taken_[i]} * kOne;
    CHECK_AS(ExitCode::Data, deficit > -kOne && deficit < kOne,
             "{} samples of a source with share {} in {}: the weights are not those of this state", taken_[i],
             share(i), position_);
    deficits_[i] = static_cast<int64_t>(deficit);
  }
}

double Mixture::share(size_t source) const {
  return static_cast<double>(shares_[source]) / static_cast<double>(kOne);
}

size_t Mixture::next() {
  ++position_;
  size_t chosen = shares_.size();
  for (size_t i = 0; i < shares_.size(); ++i) {
    deficits_[i] += shares_[i];
    if (shares_[i] == 0 || deficits_[i] < threshold_) continue;
    // The deadline is when the deficit would reach 1 - threshold: (room / share) samples from here.
    const auto later = [&](size_t a, size_t b) {
      const Wide room_a = kOne - threshold_ - deficits_[a], room_b = kOne - threshold_ - deficits_[b];
      return room_a * shares_[b] > room_b * shares_[a];
    };
    if (chosen == shares_.size() || later(chosen, i)) chosen = i;
  }
  assert(chosen < shares_.size());
  deficits_[chosen] -= kOne;
  ++taken_[chosen];
  return chosen;
}

}  // namespace tessera
