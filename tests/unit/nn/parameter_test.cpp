// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/parameter.h"

#include <gtest/gtest.h>

#include <numeric>

#include "framework/base/check.h"

namespace tessera {
namespace {

const Mesh kOne({{Axis::Tensor, 1}});

ParameterSpec spec(const std::string& name, Shape shape, const std::string& fused = "") {
  return {.name = name, .shape = shape, .role = Role::Matrix, .init = {}, .fused = fused};
}

// One buffer, the parameters of a store side by side in it from `first_byte` on.
std::shared_ptr<Storage> bind_side_by_side(ParameterStore& store) {
  auto storage = std::make_shared<Storage>(nullptr, 4000, Device{DeviceKind::Shape, 0}, nullptr);
  int64_t offset = 8;
  for (Parameter& parameter : store.parameters()) {
    const Shape shape{std::span<const int64_t>(parameter.box.extent)};
    parameter.value = Tensor(storage, DType::F32, shape, offset);
    offset += parameter.value.bytes();
  }
  return storage;
}

void refresh_all(ParameterStore& store) {
  std::vector<size_t> all(store.parameters().size());
  std::iota(all.begin(), all.end(), size_t{0});
  store.refresh_weights(all);
}

TEST(ParameterStore, FusedPartsAreOneWeight) {
  ParameterStore store({spec("q", {6, 5}, "qkv"), spec("k", {3, 5}, "qkv"), spec("o", {5, 6})}, kOne, 0);
  const Weight& qkv = store.weight("qkv");
  EXPECT_FALSE(qkv.value.defined());
  bind_side_by_side(store);
  refresh_all(store);
  EXPECT_EQ(&qkv, &store.weight("qkv"));
  EXPECT_EQ(qkv.value.shape(), (Shape{9, 5}));
  EXPECT_EQ(qkv.value.byte_offset(), 8);
  EXPECT_FALSE(qkv.gradient.defined());
  EXPECT_EQ(store.weight("k").value.shape(), (Shape{3, 5}));
  EXPECT_EQ(store.weight("k").value.byte_offset(), 8 + 4 * 30);
  EXPECT_EQ(store.at("o").spec.name, "o");
}

TEST(ParameterStore, FusedVectors) {
  ParameterStore store({spec("a", {3}, "ab"), spec("b", {4}, "ab")}, kOne, 0);
  bind_side_by_side(store);
  refresh_all(store);
  EXPECT_EQ(store.weight("ab").value.shape(), Shape{7});
}

TEST(ParameterStore, TensorsMayComeAndGo) {
  ParameterStore store({spec("a", {3, 2}, "ab"), spec("b", {4, 2}, "ab")}, kOne, 0);
  bind_side_by_side(store);
  refresh_all(store);
  for (Parameter& parameter : store.parameters()) parameter.value = {};
  refresh_all(store);
  EXPECT_FALSE(store.weight("ab").value.defined());
}

TEST(ParameterStore, RefreshesTheNamedWeightsAlone) {
  ParameterStore store({spec("q", {6, 5}, "qkv"), spec("k", {3, 5}, "qkv"), spec("o", {5, 6})}, kOne, 0);
  bind_side_by_side(store);
  store.refresh_weights(std::vector<size_t>{1});
  EXPECT_TRUE(store.weight("k").value.defined());
  EXPECT_TRUE(store.weight("qkv").value.defined());
  EXPECT_FALSE(store.weight("q").value.defined());
  EXPECT_FALSE(store.weight("o").value.defined());
  store.refresh_weights(std::vector<size_t>{0, 2});
  EXPECT_TRUE(store.weight("q").value.defined());
  EXPECT_TRUE(store.weight("o").value.defined());
}

TEST(ParameterStore, PartsApartInMemoryAreRefused) {
  ParameterStore store({spec("a", {3, 2}, "ab"), spec("b", {4, 2}, "ab")}, kOne, 0);
  const auto storage = bind_side_by_side(store);
  store.at("b").value = Tensor(storage, DType::F32, {4, 2}, 8 + 3 * 2 * 4 + 4);
  EXPECT_THROW(refresh_all(store), Error);
  store.at("b").value = {};
  EXPECT_THROW(refresh_all(store), Error);
}

TEST(ParameterStore, BadTablesAreRefused) {
  const auto build = [](std::vector<ParameterSpec> specs) { ParameterStore(std::move(specs), kOne, 0); };
  EXPECT_THROW(build({spec("a", {1}), spec("a", {1})}), Error);
  EXPECT_THROW(build({spec("a", {1, 2}, "ab"), spec("x", {1}), spec("b", {1, 2}, "ab")}), Error);
  EXPECT_THROW(build({spec("a", {1, 2}, "ab"), spec("b", {1, 3}, "ab")}), Error);
  EXPECT_THROW(build({spec("a", {1, 2}, "ab"), spec("b", {2}, "ab")}), Error);
  EXPECT_THROW(build({spec("a", {1}, "b"), spec("b", {1})}), Error);
  ParameterSpec frozen = spec("b", {1, 2}, "ab");
  frozen.trainable = false;
  EXPECT_THROW(build({spec("a", {1, 2}, "ab"), frozen}), Error);
  ParameterStore store({spec("a", {1})}, kOne, 0);
  EXPECT_THROW(store.weight("b"), Error);
  EXPECT_THROW(store.at("b"), Error);
  EXPECT_FALSE(store.contains("b"));
}

TEST(ParameterStore, HoldsItsPartOfACutTensor) {
  ParameterSpec rows = spec("rows", {7, 5}, "both");
  rows.shard.splits = {{.dim = 0, .axis = Axis::Tensor}};
  ParameterSpec heads = spec("heads", {9, 5}, "both");
  heads.shard.splits = {{.dim = 0, .axis = Axis::Tensor, .multiple = 3}};
  ParameterStore store({rows, heads}, Mesh({{Axis::Tensor, 2}}), 1);
  EXPECT_EQ(store.at("rows").box, (Box{{4, 0}, {3, 5}}));
  EXPECT_EQ(store.at("heads").box, (Box{{6, 0}, {3, 5}}));
  bind_side_by_side(store);
  refresh_all(store);
  EXPECT_EQ(store.weight("both").value.shape(), (Shape{6, 5}));
}

TEST(ParameterSpec, DecayFollowsTheRole) {
  const auto decays = [](Role role) {
    return ParameterSpec{.name = "x", .shape = {1}, .role = role, .init = {}}.decays();
  };
  EXPECT_TRUE(decays(Role::Matrix));
  EXPECT_TRUE(decays(Role::Embedding));
  EXPECT_FALSE(decays(Role::Norm));
  EXPECT_FALSE(decays(Role::Bias));
  EXPECT_FALSE(decays(Role::Buffer));
}

}  // namespace
}  // namespace tessera
