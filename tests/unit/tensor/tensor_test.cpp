// SPDX-License-Identifier: Apache-2.0
#include "framework/tensor/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tessera {
namespace {

Tensor on(std::vector<float>& memory, Shape shape, int64_t byte_offset = 0) {
  auto storage = std::make_shared<Storage>(memory.data(), static_cast<int64_t>(memory.size() * sizeof(float)),
                                           Device{}, nullptr);
  return Tensor(storage, DType::F32, shape, byte_offset);
}

TEST(Shape, counts_elements) {
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{3, 0, 5}).elements(), 0);
  EXPECT_EQ((Shape{3, 7, 5}).elements(), 105);
  EXPECT_EQ((Shape{3, 7, 5}).rows(), 3);
  EXPECT_EQ((Shape{3, 7, 5}).row_elements(), 35);
  EXPECT_EQ((Shape{3, 7}).to_string(), "[3, 7]");
  EXPECT_NE((Shape{3, 7}), (Shape{3, 7, 1}));
}

TEST(Shape, refuses_what_cannot_be) {
  EXPECT_THROW((Shape{-1}), Error);
  const int64_t big = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_THROW((Shape{big, 3}).elements(), Error);
  EXPECT_EQ((Shape{int64_t{1} << 31, 4}).elements(), int64_t{1} << 33);
  const std::vector<int64_t> five(5, 1);
  EXPECT_THROW(Shape(std::span<const int64_t>(five)), Error);
}

TEST(Tensor, views_see_the_same_memory) {
  std::vector<float> memory(35);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const Tensor x = on(memory, {5, 7});
  EXPECT_TRUE(x.packed());
  const Tensor rows = x.narrow(2, 3), columns = x.columns(4, 2), both = rows.columns(1, 3);
  EXPECT_TRUE(rows.packed());
  EXPECT_FALSE(columns.packed());
  EXPECT_EQ(*rows.data<float>(), 14);
  EXPECT_EQ(*columns.data<float>(), 4);
  EXPECT_EQ(*both.data<float>(), 15);
  EXPECT_EQ(both.row_stride(), 7);
  EXPECT_EQ(both.shape(), (Shape{3, 3}));
  EXPECT_EQ(both.bytes(), 36);
  *both.data<float>() = -1;
  EXPECT_EQ(memory[15], -1);
  EXPECT_EQ(x.reshape({7, 5}).row_stride(), 5);
  EXPECT_EQ(x.flat().shape(), (Shape{35}));
  // One row is packed, however far the next would be.
  EXPECT_TRUE(x.columns(4, 2).narrow(1, 1).packed());
  EXPECT_EQ(x.columns(4, 2).narrow(1, 1).flat().elements(), 2);
}

TEST(Tensor, is_the_same_view_of_another_storage) {
  const auto make = [](int64_t bytes) {
    return std::make_shared<Storage>(nullptr, bytes, Device{DeviceKind::Shape, 0}, nullptr);
  };
  const Tensor view = Tensor(make(48), DType::F32, {4, 3}).narrow(1, 2).columns(1, 2);
  const auto other = make(48);
  const Tensor moved = view.on(other);
  EXPECT_EQ(moved.storage(), other);
  EXPECT_EQ(moved.shape(), view.shape());
  EXPECT_EQ(moved.row_stride(), 3);
  EXPECT_EQ(moved.byte_offset(), view.byte_offset());
  EXPECT_THROW(view.on(make(44)), Error);
  EXPECT_THROW(view.on(nullptr), Error);
  EXPECT_THROW(Tensor().on(other), Error);
}

TEST(Tensor, refuses_views_outside_of_it) {
  std::vector<float> memory(35);
  const Tensor x = on(memory, {5, 7});
  EXPECT_THROW(x.narrow(3, 3), Error);
  EXPECT_THROW(x.narrow(-1, 2), Error);
  EXPECT_THROW(x.columns(5, 3), Error);
  EXPECT_THROW(x.flat().columns(0, 1), Error);
  EXPECT_THROW(x.reshape({6, 6}), Error);
  EXPECT_THROW(x.columns(0, 2).flat(), Error);
  EXPECT_THROW(on(memory, {6, 6}), Error);
  EXPECT_THROW(on(memory, {5, 7}, 4), Error);
}

TEST(Tensor, knows_its_type) {
  std::vector<float> memory(2);
  const Tensor x = on(memory, {2});
  EXPECT_THROW(x.data<double>(), Error);
  EXPECT_THROW(Tensor().data<float>(), Error);
  EXPECT_THROW(Tensor().device(), Error);
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(x.describe(), "fp32[2]");
}

TEST(Storage, returns_its_memory_once_when_the_last_tensor_dies) {
  int released = 0;
  {
    float memory[4];
    Tensor view;
    {
      const Tensor x(std::make_shared<Storage>(memory, 16, Device{}, [&] { ++released; }), DType::F32, {4});
      view = x.narrow(1, 2);
    }
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace tessera
