// SPDX-License-Identifier: Apache-2.0
#include "tests/support/protected_backend.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "framework/ops/elementwise.h"
#include "framework/ops/memory.h"
#include "framework/ops/reduce.h"

namespace tessera::test {
namespace {

TEST(ProtectedBackendDeathTest, the_host_cannot_touch_a_tensor) {
  const auto backend = make_protected_backend(1);
  const Tensor x = zeros(*backend, DType::F32, {7, 3});
  EXPECT_DEATH({ [[maybe_unused]] volatile float value = *x.data<float>(); }, "");
  EXPECT_DEATH(*x.data<float>() = 1, "");
}

TEST(ProtectedBackend, its_own_calls_can) {
  const auto backend = make_protected_backend(2);
  const std::vector<float> values{1, 2, 3};
  const Tensor x = from_host<float>(*backend, values, {3});
  const Tensor y = add(*backend, x, x);
  EXPECT_EQ(to_host<float>(*backend, y), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(backend->allocator().live_bytes(), 2 * 64);
}

TEST(ProtectedBackend, new_memory_is_not_a_number) {
  const auto backend = make_protected_backend(1);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Tensor x = empty(*backend, DType::F64, {3});
    for (const double value : to_host<double>(*backend, x)) EXPECT_NE(value, value);
    fill(*backend, x, 1);
  }
}

TEST(ProtectedBackend, ranks_that_share_memory_may_be_inside_together) {
  const auto memory = std::make_shared<ProtectedMemory>();
  const auto left = make_protected_backend(1, memory), right = make_protected_backend(1, memory);
  const Tensor a = zeros(*left, DType::F32, {1003}), b = zeros(*right, DType::F32, {1003});
  const auto work = [](Backend& backend, const Tensor& own, const Tensor& other) {
    for (int i = 0; i < 300; ++i) {
      const Tensor fresh = empty(backend, DType::F32, {1003});
      backend.copy(other, fresh);
      backend.add(own, own, fresh);
    }
  };
  std::thread thread([&] { work(*right, b, a); });
  work(*left, a, b);
  thread.join();
  EXPECT_EQ(to_host<float>(*left, b), std::vector<float>(1003, 0));
}

}  // namespace
}  // namespace tessera::test
