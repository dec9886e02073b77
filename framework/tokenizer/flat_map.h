// SPDX-License-Identifier: Apache-2.0
// A hash table from 64-bit keys to small values in one array: looking up is what encoding does most.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera {

constexpr uint64_t mixed_bits(uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Two ids side by side, in this order.
constexpr uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

template <class Value>
class FlatMap {
 public:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no key

  explicit FlatMap(size_t expected = 0) { reserve(expected); }

  size_t size() const { return size_; }

  void reserve(size_t expected) {
    size_t slots = 16;
    while (slots < 2 * expected) slots *= 2;
    if (slots > slots_.size()) rehash(slots);
  }

  // The value at `key`; a new one is Value{}. Valid until the next insertion.
  Value& operator[](uint64_t key) {
    assert(key != kEmpty);
    if (2 * (size_ + 1) > slots_.size()) rehash(2 * slots_.size());
    Slot& slot = slots_[place(key)];
    if (slot.key == kEmpty) {
      slot = {key, Value{}};
      ++size_;
    }
    return slot.value;
  }

  const Value* find(uint64_t key) const {
    const Slot& slot = slots_[place(key)];
    return slot.key == kEmpty ? nullptr : &slot.value;
  }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Value value{};
  };

  size_t place(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = mixed_bits(key) & mask;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }

  void rehash(size_t slots) {
    std::vector<Slot> old(slots);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.key != kEmpty) slots_[place(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace tessera
