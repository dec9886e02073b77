// SPDX-License-Identifier: Apache-2.0
#include "framework/train/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "framework/base/check.h"
#include "framework/base/random.h"

namespace tessera {
namespace {

// Tokens by falling logit, the first `count` of them sorted.
std::vector<int32_t> ranked(std::span<const float> logits, size_t count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](int32_t a, int32_t b) {
    const float la = logits[static_cast<size_t>(a)], lb = logits[static_cast<size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(), larger);
  order.resize(count);
  return order;
}

// Keeps the shortest prefix whose probability reaches top_p; at least one token.
void cut_to_mass(std::vector<int32_t>& order, std::vector<double>& weights, double top_p) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double mass = 0;
  size_t kept = 0;
  while (kept < weights.size() && mass < top_p * total) mass += weights[kept++];
  kept = std::max<size_t>(1, kept);
  order.resize(kept);
  weights.resize(kept);
}

}  // namespace

int32_t sample(std::span<const float> logits, const SamplingOptions& options, int64_t position) {
  if (options.vocabulary > 0)
    logits = logits.first(std::min(logits.size(), static_cast<size_t>(options.vocabulary)));
  CHECK(!logits.empty(), "there are no logits to draw from");
  for (const float logit : logits)
    CHECK_AS(ExitCode::Numeric, !std::isnan(logit), "the model's logits are not numbers at position {}",
             position);
  if (options.temperature <= 0) return ranked(logits, 1)[0];

  const size_t limit = options.top_k > 0 ? static_cast<size_t>(options.top_k) : logits.size();
  std::vector<int32_t> order = ranked(logits, std::min(limit, logits.size()));
  const double largest = logits[static_cast<size_t>(order[0])];
  std::vector<double> weights;
  for (const int32_t token : order)
    weights.push_back(
        std::exp((static_cast<double>(logits[static_cast<size_t>(token)]) - largest) / options.temperature));
  if (options.top_p < 1) cut_to_mass(order, weights, options.top_p);

  const auto bits = philox(random_key(options.seed, "generate"), static_cast<uint64_t>(position));
  const double uniform = (static_cast<double>(bits[0]) + 0.5) * 0x1p-32;
  double rest = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < order.size(); ++i)
    if ((rest -= weights[i]) < 0) return order[i];
  return order.back();
}

}  // namespace tessera
