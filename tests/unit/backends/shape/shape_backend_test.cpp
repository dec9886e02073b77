// SPDX-License-Identifier: Apache-2.0
// The shape backend must count what the CPU backend counts, byte for byte, and hold no data.
#include "framework/backends/shape/shape_backend.h"

#include <gtest/gtest.h>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/backends/cpu/workspace.h"
#include "framework/ops/matmul.h"
#include "framework/ops/memory.h"
#include "framework/ops/norm.h"
#include "framework/ops/reduce.h"

namespace tessera {
namespace {

TEST(ShapeBackend, HoldsNoDataAndReadsAsZeros) {
  ShapeBackend backend;
  const std::vector<float> values = {1, 2, 3};
  const Tensor x = from_host<float>(backend, values, {3});
  EXPECT_EQ(x.address(), nullptr);
  EXPECT_EQ(x.device().kind, DeviceKind::Shape);
  EXPECT_EQ(to_host<float>(backend, x), (std::vector<float>{0, 0, 0}));
}

TEST(ShapeBackend, TakesTensorsLargerThanAnyMachine) {
  ShapeBackend backend;
  const Tensor x = empty(backend, DType::F32, {1 << 20, 1 << 20});  // 4 TiB
  EXPECT_EQ(backend.allocator().live_bytes(), int64_t{1} << 42);
  const Tensor y = matmul(backend, x, x);
  EXPECT_EQ(y.shape(), (Shape{1 << 20, 1 << 20}));
  EXPECT_EQ(backend.flops().model, int64_t{1} << 61);
}

TEST(ShapeBackend, RoundsAndReturnsAsOtherAllocatorsDo) {
  ShapeBackend backend;
  {
    const Tensor x = empty(backend, DType::F32, {17});  // 68 bytes
    EXPECT_EQ(backend.allocator().live_bytes(), 128);
    const Tensor nothing = empty(backend, DType::F32, {0});
    EXPECT_EQ(backend.allocator().live_bytes(), 128);
  }
  EXPECT_EQ(backend.allocator().live_bytes(), 0);
  EXPECT_EQ(backend.allocator().peak_bytes(), 128);
}

TEST(ShapeBackend, StorageMayOutliveTheBackend) {
  Tensor x;
  {
    ShapeBackend backend;
    x = empty(backend, DType::F64, {5});
  }
  EXPECT_EQ(x.storage()->bytes(), 40);
}

// A short program with temporaries, views and scratch of growing and shrinking calls.
void run_program(Backend& backend) {
  for (const int64_t rows : {1, 3, 1003, 7, 64}) {
    const int64_t width = 7 * rows % 50 + 1;
    const Tensor x = zeros(backend, DType::F32, {rows, width}), gain = zeros(backend, DType::F32, {width});
    const Tensor sums = zeros(backend, DType::F32, {width});
    const LayerNormResult norm = layer_norm(backend, x, gain, gain, 1e-5);
    const Tensor dx = layer_norm_backward(backend, norm.y, x, gain, norm.mean, norm.inv_std, sums, sums);
    column_sum(backend, dx, sums);
    const Tensor square = matmul(backend, dx, x, {.transpose_a = true});
    accumulate_matmul(backend, dx, square, cloned(backend, x));
    sum_squares(backend, x, zeros(backend, DType::F64, {1}));
  }
}

class ShapeBackendTeams : public testing::TestWithParam<int> {};

TEST_P(ShapeBackendTeams, CountsWhatTheCpuBackendCounts) {
  ShapeBackend shape(make_cpu_workspace_model(GetParam()));
  const std::unique_ptr<Backend> cpu = make_cpu_backend(GetParam());
  run_program(shape);
  run_program(*cpu);
  EXPECT_EQ(shape.allocator().peak_bytes(), cpu->allocator().peak_bytes());
  EXPECT_EQ(shape.allocator().live_bytes(), cpu->allocator().live_bytes());
  EXPECT_GT(shape.allocator().live_bytes(), 0) << "the scratch of the largest call is kept";
  EXPECT_EQ(shape.flops().model, cpu->flops().model);
  EXPECT_EQ(shape.flops().hardware, cpu->flops().hardware);
}

INSTANTIATE_TEST_SUITE_P(Threads, ShapeBackendTeams, testing::Values(1, 2, 3));

// 100 bytes for a matmul, 300 for a column sum.
struct TwoSizes final : WorkspaceModel {
  int64_t matmul(const MatmulArgs&) const override { return 100; }
  int64_t column_sum(const Tensor&) const override { return 300; }
};

TEST(ShapeBackend, KeepsTheLargestWorkspaceAndKnowsItsShareOfThePeak) {
  ShapeBackend backend(std::make_shared<TwoSizes>());
  const Tensor x = zeros(backend, DType::F32, {4, 4}), sums = zeros(backend, DType::F32, {4});
  matmul(backend, x, x);
  EXPECT_EQ(backend.allocator().live_bytes(), 64 + 64 + 128);
  EXPECT_EQ(backend.allocator().peak_bytes(), 64 + 64 + 64 + 128);
  EXPECT_EQ(backend.allocator().workspace_at_peak(), 128);
  column_sum(backend, x, sums);
  matmul(backend, x, x);
  EXPECT_EQ(backend.allocator().live_bytes(), 64 + 64 + 320);
  EXPECT_EQ(backend.allocator().workspace_at_peak(), 320);
}

}  // namespace
}  // namespace tessera
