// SPDX-License-Identifier: Apache-2.0
#include "framework/train/tensor_watch.h"

#include <algorithm>
#include <cmath>

#include "framework/ops/elementwise.h"
#include "framework/ops/memory.h"
#include "framework/ops/reduce.h"

namespace tessera {

TensorWatch::TensorWatch(Rank& rank, bool histograms) : rank_(rank) {
  std::map<std::string_view, size_t> places;
  for (const ParameterSpec& spec : rank.model().parameters) {
    if (!is_trained(spec)) continue;
    places[spec.name] = names_.size();
    names_.push_back(spec.name);
  }
  for (const ParameterShard& part : rank.own_shards())
    parts_.emplace(part.parameter, Watched{places.at(part.parameter->spec.name), part});
  const auto tensors = static_cast<int64_t>(names_.size());
  sums_ = zeros(rank.backend(), DType::F64, {tensors * kSums});
  if (histograms) counts_ = zeros(rank.backend(), DType::I64, {tensors * 2 * HistogramBuckets::kCount});
}

Tensor TensorWatch::sum(size_t tensor, Sum which) const {
  return sums_.narrow(static_cast<int64_t>(tensor) * kSums + which, 1);
}

Tensor TensorWatch::counts(size_t tensor, bool of_gradients) const {
  const auto place = static_cast<int64_t>(2 * tensor + (of_gradients ? 1 : 0));
  return counts_.narrow(place * HistogramBuckets::kCount, HistogramBuckets::kCount);
}

void TensorWatch::before(const ParameterShard& shard) {
  const auto found = parts_.find(shard.parameter);
  if (found != parts_.end()) before_ = cloned(rank_.backend(), found->second.part.master);
}

void TensorWatch::after(const ParameterShard& shard) {
  const auto found = parts_.find(shard.parameter);
  if (found == parts_.end()) return;
  const auto& [tensor, part] = found->second;
  sum_squared_differences(rank_.backend(), part.master, before_, sum(tensor, kUpdateSquares));
  before_ = {};
}

void TensorWatch::measure() {
  Backend& backend = rank_.backend();
  for (const auto& [parameter, watched] : parts_) {
    const auto& [tensor, part] = watched;
    sum_squares(backend, part.master, sum(tensor, kWeightSquares));
    sum_squares(backend, part.gradient, sum(tensor, kGradientSquares));
    if (!counts_.defined()) continue;
    histogram(backend, part.master, counts(tensor, false), sum(tensor, kWeights));
    histogram(backend, part.gradient, counts(tensor, true), sum(tensor, kGradients));
  }
}

std::vector<TensorFigures> TensorWatch::finish(double scale) {
  const Timeline::Scope scope(rank_.world().timeline(), Activity::Update);
  measure();
  Backend& backend = rank_.backend();
  std::vector<double> sums = to_host<double>(backend, sums_);
  rank_.world().all_reduce_host(std::span(sums), Reduce::Sum);
  std::vector<int64_t> buckets;
  if (counts_.defined()) {
    rank_.world().all_reduce(counts_, Reduce::Sum, backend.compute_stream()).wait(backend.compute_stream());
    buckets = to_host<int64_t>(backend, counts_);
  }

  std::vector<TensorFigures> figures(names_.size());
  for (size_t i = 0; i < figures.size(); ++i) {
    const double* of = sums.data() + i * size_t{kSums};
    const double weight = std::sqrt(of[kWeightSquares]), update = std::sqrt(of[kUpdateSquares]);
    figures[i] = {.name = names_[i],
                  .weight_norm = weight,
                  .gradient_norm = std::sqrt(of[kGradientSquares]) / scale,
                  .update_ratio = update == 0 ? 0 : update / weight};
    if (buckets.empty()) continue;
    const auto begin = buckets.begin() + static_cast<int64_t>(2 * i) * HistogramBuckets::kCount;
    const auto middle = begin + HistogramBuckets::kCount, end = middle + HistogramBuckets::kCount;
    figures[i].weights = {
        .counts = {begin, middle}, .sum = of[kWeights], .sum_of_squares = of[kWeightSquares]};
    figures[i].gradients = {.counts = {middle, end},
                            .scale = scale,
                            .sum = of[kGradients] / scale,
                            .sum_of_squares = of[kGradientSquares] / scale / scale};
  }
  return figures;
}

}  // namespace tessera
