// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/saved.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Tensor make(int64_t elements) {
  auto storage = std::make_shared<Storage>(nullptr, elements * 4, Device{DeviceKind::Shape, 0}, nullptr);
  return Tensor(storage, DType::F32, {elements});
}

TEST(Saved, ReturnsWhatWasKeptAndRefusesAnotherCount) {
  Saved saved;
  EXPECT_TRUE(saved.empty());
  const Tensor a = make(3), b = make(7);
  saved.keep(a, b);
  const auto [x, y] = saved.tensors<2>();
  EXPECT_EQ(x.storage(), a.storage());
  EXPECT_EQ(y.storage(), b.storage());
  EXPECT_THROW(saved.tensors<1>(), Error);
  EXPECT_THROW(Saved().tensors<0>(), Error);
  saved.keep();
  EXPECT_FALSE(saved.empty()) << "zero tensors are not the same as no forward";
  EXPECT_NO_THROW(saved.tensors<0>());
}

TEST(Saved, ReplacesASlotThatExists) {
  Saved saved;
  saved.keep(make(3), make(1));
  const Tensor other = make(5);
  saved.replace(1, other);
  EXPECT_EQ(saved.tensors<2>()[1].storage(), other.storage());
  saved.replace(1, {});
  EXPECT_FALSE(saved.tensors<2>()[1].defined());
  EXPECT_THROW(saved.replace(2, other), Error);
  EXPECT_THROW(Saved().replace(0, other), Error);
}

TEST(Saved, CountsEachStorageOnceInTheWholeTree) {
  Saved saved;
  const Tensor shared = make(10);
  saved.keep(shared, Tensor(), shared.narrow(0, 3));
  saved.child(2).keep(shared, make(7));
  saved.child(2).child(0).pin(4, make(1));
  EXPECT_EQ(saved.bytes(), 4 * (10 + 7 + 1));
  EXPECT_EQ(saved.child(1).bytes(), 0);
}

TEST(Saved, SlotsAreTheDefinedTensorsOfTheTree) {
  Saved saved;
  const Tensor shared = make(10), pinned = make(1);
  saved.keep(shared, Tensor(), shared.narrow(2, 3));
  saved.child(2).pin(4, pinned);
  const std::vector<Tensor*> slots = saved.slots();
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots[0]->storage(), slots[1]->storage());
  EXPECT_EQ(slots[2]->storage(), pinned.storage());
  *slots[1] = make(5);
  EXPECT_EQ(saved.tensors<3>()[2].elements(), 5);
}

TEST(Saved, PinsSurviveWhatIsClearedForRecomputation) {
  Saved saved;
  saved.keep(make(3));
  saved.child(1).keep(make(3));
  saved.child(1).pin(2, make(5));
  saved.clear_for_recompute();
  EXPECT_EQ(saved.bytes(), 4 * 5);
  EXPECT_TRUE(saved.child(1).pinned(2).defined());
  EXPECT_FALSE(saved.child(1).pinned(0).defined());
  EXPECT_THROW(saved.child(1).tensors<1>(), Error);
  EXPECT_FALSE(saved.empty());
  saved.clear();
  EXPECT_TRUE(saved.empty());
}

TEST(Saved, ChildrenKeepTheirAddress) {
  Saved saved;
  Saved& first = saved.child(0);
  saved.child(50);
  EXPECT_EQ(&first, &saved.child(0));
}

}  // namespace
}  // namespace tessera
