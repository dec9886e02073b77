// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

constexpr DType kLogitTypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Loss {
  std::vector<double> losses, gradient;
  double total;
};

Loss run(DType dtype, const std::vector<float>& logits, const std::vector<int32_t>& targets,
         const std::vector<float>& weights) {
  const auto backend = make_cpu_backend(2, {.poison = true});
  const int64_t n = static_cast<int64_t>(targets.size()), classes = static_cast<int64_t>(logits.size()) / n;
  const Tensor x = converted(*backend, from_host<float>(*backend, logits, {n, classes}), dtype);
  const Tensor t = from_host<int32_t>(*backend, targets, {n});
  const Tensor w = from_host<float>(*backend, weights, {n});
  const Tensor total = zeros(*backend, DType::F64, {1});
  const std::vector<double> one{1};
  const Tensor scale = from_host<double>(*backend, one, {1});
  const CrossEntropyOptions options{.classes = classes};
  const Tensor stats = cross_entropy_stats(*backend, x, t, options);
  const Tensor loss = cross_entropy_loss(*backend, stats, t, w, total, options);
  cross_entropy_backward(*backend, x, stats, t, w, scale, options);
  return {to_host_double(*backend, loss), to_host_double(*backend, x), to_host_double(*backend, total)[0]};
}

TEST(CrossEntropy, known_value) {
  // log(1 + e + e^2 + e^3) - 3
  EXPECT_NEAR(run(DType::F32, {0, 1, 2, 3}, {3}, {1}).total, 0.44018970, 1e-7);
}

TEST(CrossEntropy, a_row_of_weight_zero_has_no_influence) {
  for (const DType dtype : kLogitTypes) {
    SCOPED_TRACE(name_of(dtype));
    const Loss loss =
        run(dtype, {0, 1, 2, kNan, kNan, kNan, 3, 1, 2, kNan, INFINITY, 0}, {2, 1, 0, -1}, {1, 0, 2, 1});
    EXPECT_TRUE(std::isfinite(loss.total));
    EXPECT_EQ(loss.losses[1], 0);
    EXPECT_EQ(loss.losses[3], 0);  // no target
    for (const size_t i : {3, 4, 5, 9, 10, 11}) EXPECT_EQ(loss.gradient[i], 0) << i;
    const Loss alone = run(dtype, {0, 1, 2, 3, 1, 2}, {2, 0}, {1, 2});
    EXPECT_EQ(loss.total, alone.total);
    for (const size_t i : {0, 1, 2}) EXPECT_EQ(loss.gradient[i], alone.gradient[i]);
    for (const size_t i : {3, 4, 5}) EXPECT_EQ(loss.gradient[i + 3], alone.gradient[i]);
  }
}

// Each group gets what its rows add to the whole; a row of weight zero may have any group.
TEST(CrossEntropy, groups_share_the_total) {
  const auto backend = make_cpu_backend(2);
  const std::vector<float> logits{0.5f, -1, 2, 0.25f, 3, 1, -2, 0, 1.5f, 0.75f, 1, 2},
      weights{1, 2, 0, 3, 1, 1};
  const std::vector<int32_t> targets{1, 0, 1, 1, 0, -1}, groups{2, 0, 99, 2, 0, -5};
  const Tensor x = from_host<float>(*backend, logits, {6, 2}), t = from_host<int32_t>(*backend, targets, {6});
  const Tensor w = from_host<float>(*backend, weights, {6}), g = from_host<int32_t>(*backend, groups, {6});
  const CrossEntropyOptions options{.classes = 2};
  const Tensor stats = cross_entropy_stats(*backend, x, t, options);
  const std::vector<double> before{100, 10, 20, 30};  // added to
  const Tensor total = from_host<double>(*backend, before, {4});
  const Tensor loss = cross_entropy_loss(*backend, stats, t, w, total, options, g);
  const auto losses = to_host_double(*backend, loss), totals = to_host_double(*backend, total);
  EXPECT_NEAR(totals[1], 10 + 2 * losses[1] + losses[4], 1e-6);
  EXPECT_EQ(totals[2], 20);
  EXPECT_NEAR(totals[3], 30 + losses[0] + 3 * losses[3], 1e-6);
  EXPECT_NEAR(totals[0] - 100, totals[1] + totals[2] + totals[3] - 60, 1e-6);
  const std::vector<int32_t> outside{2, 0, 0, 3, 0, 0};
  EXPECT_THROW(
      cross_entropy_loss(*backend, stats, t, w, total, options, from_host<int32_t>(*backend, outside, {6})),
      Error);
}

TEST(CrossEntropy, no_trained_token_gives_zero) {
  const Loss loss = run(DType::F32, {kNan, 1, 2, 3}, {0, 1}, {0, 0});
  EXPECT_EQ(loss.total, 0);
  for (const double gradient : loss.gradient) EXPECT_EQ(gradient, 0);
}

TEST(CrossEntropy, a_bad_logit_of_a_trained_row_shows) {
  EXPECT_TRUE(std::isnan(run(DType::F32, {kNan, 1, 2, 3}, {0, 1}, {1, 1}).total));
}

TEST(CrossEntropy, huge_logits_stay_finite) {
  const Loss loss = run(DType::F32, {1e30f, -1e30f, 0, 5}, {0, 1}, {1, 1});
  EXPECT_TRUE(std::isfinite(loss.total));
  for (const double gradient : loss.gradient) EXPECT_TRUE(std::isfinite(gradient));
}

TEST(CrossEntropy, names_a_target_outside_the_classes) {
  try {
    run(DType::F32, {0, 1, 2, 3}, {4}, {1});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("target 4"), std::string::npos) << error.what();
  }
}

// A vocabulary cut in two: combined statistics give the loss and the gradient of the whole.
TEST(CrossEntropy, a_cut_vocabulary_agrees_with_the_whole) {
  const auto backend = make_cpu_backend(1);
  const std::vector<float> logits{0.5f, -1, 2, 0.25f, 3, 1, -2, 0, 1.5f, 0.75f};
  const std::vector<int32_t> targets{4, 1};
  const std::vector<float> weights{1, 2};
  const Loss whole = run(DType::F32, logits, targets, weights);
  const Tensor x = from_host<float>(*backend, logits, {2, 5});
  const Tensor t = from_host<int32_t>(*backend, targets, {2}), w = from_host<float>(*backend, weights, {2});
  const CrossEntropyOptions low{.classes = 5}, high{.classes = 5, .first_class = 3};
  const auto left = to_host<float>(*backend, cross_entropy_stats(*backend, x.columns(0, 3), t, low));
  const auto right = to_host<float>(*backend, cross_entropy_stats(*backend, x.columns(3, 2), t, high));
  std::vector<float> both(8);
  for (size_t i = 0; i < 8; i += 4) {
    both[i] = std::max(left[i], right[i]);
    both[i + 1] = left[i + 1] * std::exp(left[i] - both[i]) + right[i + 1] * std::exp(right[i] - both[i]);
    both[i + 2] = left[i + 2] + right[i + 2];
    both[i + 3] = left[i + 3] + right[i + 3];
  }
  const Tensor stats = from_host<float>(*backend, both, {2, 4});
  const Tensor total = zeros(*backend, DType::F64, {1});
  cross_entropy_loss(*backend, stats, t, w, total, low);
  EXPECT_NEAR(to_host_double(*backend, total)[0], whole.total, 1e-6);
  const std::vector<double> one{1};
  const Tensor scale = from_host<double>(*backend, one, {1});
  cross_entropy_backward(*backend, x.columns(0, 3), stats, t, w, scale, low);
  cross_entropy_backward(*backend, x.columns(3, 2), stats, t, w, scale, high);
  const std::vector<double> gradient = to_host_double(*backend, x);
  for (size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient[i], whole.gradient[i], 1e-6) << i;
}

}  // namespace
}  // namespace tessera
