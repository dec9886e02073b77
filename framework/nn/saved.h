// SPDX-License-Identifier: Apache-2.0
// What one forward leaves for its backward: a few tensors, and one child per sub-module. Countable in bytes.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "framework/base/check.h"
#include "framework/tensor/tensor.h"

namespace tessera {

class Saved {
 public:
  // Replaces what was kept. An undefined tensor keeps its slot.
  template <std::same_as<Tensor>... T>
  void keep(const T&... tensors) {
    kept_ = std::vector<Tensor>{tensors...};
    filled_ = true;
  }
  // The kept tensors; throws unless exactly N are kept, so a forgotten or foreign Saved is found at once.
  template <size_t N>
  std::array<Tensor, N> tensors() const {
    CHECK(filled_ && kept_.size() == N, "a backward asked for {} saved tensors and found {}: {}", N,
          kept_.size(), filled_ ? "the Saved of another module" : "its forward did not run or it ran twice");
    std::array<Tensor, N> result;
    for (size_t i = 0; i < N; ++i) result[i] = kept_[i];
    return result;
  }
  // The first kept tensor; throws when nothing is kept.
  Tensor first() const;
  // Puts another tensor, or none, in a slot that is kept.
  void replace(size_t slot, const Tensor& tensor);
  // Survives clear_for_recompute(): decisions that a repeated forward must not take again.
  void pin(int slot, const Tensor& tensor) { pinned_[slot] = tensor; }
  Tensor pinned(int slot) const;  // undefined when nothing is pinned there

  Saved& child(size_t index);
  bool empty() const;
  void clear();                // everything
  void clear_for_recompute();  // everything but what is pinned, in the whole tree
  int64_t bytes() const;       // each storage once
  // The defined tensors of the whole tree, what is pinned too, always in one order. They keep their address
  // until something is kept or cleared.
  std::vector<Tensor*> slots();

 private:
  template <class Tree, class F>  // Tree: Saved, or const Saved
  static void each_defined(Tree& saved, F&& f);

  std::vector<Tensor> kept_;
  bool filled_ = false;
  std::map<int, Tensor> pinned_;
  std::vector<std::unique_ptr<Saved>> children_;
};

}  // namespace tessera
