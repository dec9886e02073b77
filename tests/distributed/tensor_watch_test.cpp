// SPDX-License-Identifier: Apache-2.0
// The figures of single tensors (logging.per_tensor) on every kind of mesh: what follows from the run's own
// logical tensors, and what one rank says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/ops/reduce.h"
#include "tests/support/norm.h"
#include "tests/support/parity_data.h"
#include "tests/support/protected_backend.h"

namespace tessera::test {
namespace {

// Of values that were multiplied with `scale`.
void expect_histogram(const ValueHistogram& histogram, const std::vector<double>& values, double scale) {
  std::vector<double> limits;
  for (int bucket = 0; bucket < HistogramBuckets::kCount; ++bucket) limits.push_back(histogram_limit(bucket));
  const auto middle = static_cast<size_t>(HistogramBuckets::kEachSide);
  std::vector<int64_t> counts(limits.size());
  double sum = 0, sizes = 0;
  for (const double value : values) {
    // Buckets hold their limit that is nearer to zero.
    const auto above = std::upper_bound(limits.begin() + static_cast<int64_t>(middle), limits.end(),
                                        std::abs(value * scale));
    const auto place = static_cast<size_t>(above - limits.begin()) - middle;
    ++counts[value < 0 ? middle - place : middle + place];
    sum += value;
    sizes += std::abs(value);
  }
  EXPECT_EQ(histogram.counts, counts);
  EXPECT_EQ(histogram.scale, scale);
  EXPECT_NEAR(histogram.sum, sum, 1e-12 * sizes);
  EXPECT_NEAR(std::sqrt(histogram.sum_of_squares), norm_of(values), 1e-12 * norm_of(values));
}

// Against the logical tensors before and after the one step of the run. Updates are differences in fp32.
void expect_own_figures(const RunRecord& run, double scale) {
  ASSERT_EQ(run.figures.size(), 1u);
  ASSERT_EQ(run.figures[0].size(), run.gradients.size());
  double squares = 0;
  for (const TensorFigures& figures : run.figures[0]) {
    SCOPED_TRACE(figures.name);
    const std::vector<double>&before = run.initial.at(figures.name), &after = run.weights.at(figures.name);
    const std::vector<double>& gradient = run.gradients.at(figures.name);
    std::vector<double> update(after.size());
    for (size_t i = 0; i < update.size(); ++i) update[i] = after[i] - before[i];
    EXPECT_NEAR(figures.weight_norm, norm_of(after), 1e-12 * norm_of(after));
    EXPECT_NEAR(figures.gradient_norm, norm_of(gradient), 1e-12 * norm_of(gradient));
    EXPECT_NEAR(figures.update_ratio * figures.weight_norm, norm_of(update), 1e-6 * norm_of(update));
    expect_histogram(figures.weights, after, 1);
    expect_histogram(figures.gradients, gradient, scale);
    squares += figures.gradient_norm * figures.gradient_norm;
  }
  EXPECT_NEAR(std::sqrt(squares), run.norms[0], 1e-12 * run.norms[0]);
}

// As gradients are compared: against the tensor's own norm, or a thousandth of all of them.
void expect_figures_of_one_rank(const RunRecord& run, const RunRecord& reference) {
  ASSERT_EQ(run.figures[0].size(), reference.figures[0].size());
  double gradients = 0, updates = 0;
  for (const TensorFigures& figures : reference.figures[0]) {
    gradients = std::hypot(gradients, figures.gradient_norm);
    updates = std::hypot(updates, figures.update_ratio * figures.weight_norm);
  }
  for (size_t i = 0; i < run.figures[0].size(); ++i) {
    const TensorFigures &a = run.figures[0][i], &b = reference.figures[0][i];
    SCOPED_TRACE(b.name);
    ASSERT_EQ(a.name, b.name);
    EXPECT_NEAR(a.weight_norm, b.weight_norm, 1e-6 * b.weight_norm + 1e-8 * updates);
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-5 * std::max(b.gradient_norm, 1e-3 * gradients));
    const double update = b.update_ratio * b.weight_norm;
    EXPECT_NEAR(a.update_ratio * a.weight_norm, update, 1e-5 * std::max(update, 1e-3 * updates));
  }
}

class TensorFiguresOn : public testing::TestWithParam<LayoutCase> {};

TEST_P(TensorFiguresOn, AreThoseOfOneRank) {
  const RunOptions options{.watch = true, .edit = thin_out};
  // The update of AdamW turns the noise of a gradient that should be zero into steps of full size.
  const Keys model =
      odd_model(GetParam().family, 3) + Keys{"optimizer.type=sgd", "lr_schedule.warmup_steps=0"};
  const RunRecord run = run_fixture(fixture_config(model + GetParam().keys), options);
  expect_own_figures(run, 1);
  expect_figures_of_one_rank(run, run_fixture(fixture_config(model), options));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, TensorFiguresOn,
    testing::Values(
        LayoutCase{"tp3_tied", "gpt", {"parallel.tp=3"}},
        LayoutCase{"tp4_of_two_key_heads", "llama", {"parallel.tp=4"}},
        LayoutCase{"tp2_whole_rows",
                   "llama",
                   {"parallel.tp=2", "parallel.sequence_parallel=false", "parallel.dp=2"}},
        LayoutCase{"sp3", "llama", {"parallel.sp=3"}},
        LayoutCase{"pp2_tied", "gpt", {"parallel.pp=2", "train.micro_batch_size=2"}},
        LayoutCase{"pp2_tied_zero1", "gpt", {"parallel.pp=2", "parallel.dp=2", "parallel.zero_stage=1"}},
        LayoutCase{"dp3", "llama", {"parallel.dp=3"}},
        LayoutCase{"zero1", "gpt", {"parallel.dp=3", "parallel.zero_stage=1"}},
        LayoutCase{"zero1_in_shards_of_two",
                   "llama",
                   {"parallel.dp=4", "parallel.zero_stage=1", "parallel.zero_shard_size=2"}},
        LayoutCase{"zero2", "llama", {"parallel.dp=2", "parallel.zero_stage=2", "comm.bucket_size_mb=0.05"}},
        LayoutCase{"zero3_sp2", "llama", {"parallel.dp=2", "parallel.sp=2", "parallel.zero_stage=3"}},
        LayoutCase{
            "all", "gpt", {"parallel.tp=2", "parallel.pp=2", "parallel.dp=2", "parallel.zero_stage=2"}}),
    [](const auto& info) { return info.param.name; });

// Masters apart from values, a loss scale, clipping and decay; gradients in 16 bits.
TEST(TensorFiguresOfAdamW, FollowFromTheLogicalTensors) {
  const Keys model = odd_model("llama", 2) + Keys{"parallel.dp=2", "parallel.zero_stage=1"};
  expect_own_figures(run_fixture(fixture_config(model), {.watch = true}), 1);
  for (const Keys& precision :
       {Keys{"precision.compute=bf16"}, Keys{"precision.compute=bf16", "precision.grad_accumulate=compute"}})
    expect_own_figures(run_fixture(fixture_config(model + precision), {.watch = true}), 1);
  const Keys scaled{"precision.compute=fp16", "precision.loss_scale={type=\"static\",initial=1024}"};
  expect_own_figures(run_fixture(fixture_config(model + scaled), {.watch = true}), 1024);
}

// Its tensors are closed to all but the backend.
TEST(TensorFiguresOfAdamW, NeedNoAddressOfATensor) {
  const auto memory = std::make_shared<ProtectedMemory>();
  const auto make = [memory](int threads) { return make_protected_backend(threads, memory); };
  const Keys model = odd_model("gpt", 2) + Keys{"parallel.tp=2"};
  expect_own_figures(run_fixture(fixture_config(model), {.watch = true, .make_backend = make}), 1);
}

// A step without an update has no update ratio, and weights as they were.
TEST(TensorFiguresOfAdamW, OfASkippedStepHaveNoUpdate) {
  const auto spoil = [](int, DataFeed::GlobalBatch& global) {
    for (HostBatch& batch : global.microbatches) std::fill(batch.weights.begin(), batch.weights.end(), 0.0f);
  };
  const RunRecord run = run_fixture(fixture_config(odd_model("gpt", 2)), {.watch = true, .edit = spoil});
  EXPECT_EQ(run.weights, run.initial);
  for (const TensorFigures& figures : run.figures[0]) {
    EXPECT_EQ(figures.update_ratio, 0) << figures.name;
    EXPECT_EQ(figures.gradient_norm, 0) << figures.name;
    EXPECT_NEAR(figures.weight_norm, norm_of(run.initial.at(figures.name)), 1e-12 * figures.weight_norm);
  }
}

}  // namespace
}  // namespace tessera::test
