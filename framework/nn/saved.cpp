// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/saved.h"

#include <set>

namespace tessera {
Tensor Saved::first() const {
  CHECK(filled_ && !kept_.empty(),
        "a backward asked for a saved tensor and found none: its forward did not run");
  return kept_.front();
}

void Saved::replace(size_t slot, const Tensor& tensor) {
  CHECK(filled_ && slot < kept_.size(), "slot {} of {} saved tensors cannot be replaced", slot, kept_.size());
  kept_[slot] = tensor;
}

Tensor Saved::pinned(int slot) const {
  const auto found = pinned_.find(slot);
  return found == pinned_.end() ? Tensor() : found->second;
}

Saved& Saved::child(size_t index) {
  if (children_.size() <= index) children_.resize(index + 1);
  if (!children_[index]) children_[index] = std::make_unique<Saved>();
  return *children_[index];
}

bool Saved::empty() const {
  if (filled_ || !pinned_.empty()) return false;
  for (const auto& child : children_)
    if (child && !child->empty()) return false;
  return true;
}

void Saved::clear() {
  kept_.clear();
  filled_ = false;
  pinned_.clear();
  children_.clear();
}

void Saved::clear_for_recompute() {
  kept_.clear();
  filled_ = false;
  for (const auto& child : children_)
    if (child) child->clear_for_recompute();
}

template <class Tree, class F>
void Saved::each_defined(Tree& saved, F&& f) {
  for (auto& tensor : saved.kept_)
    if (tensor.defined()) f(tensor);
  for (auto& [slot, tensor] : saved.pinned_)
    if (tensor.defined()) f(tensor);
  for (const auto& child : saved.children_)
    if (child) each_defined(static_cast<Tree&>(*child), f);
}

std::vector<Tensor*> Saved::slots() {
  std::vector<Tensor*> slots;
  each_defined(*this, [&](Tensor& tensor) { slots.push_back(&tensor); });
  return slots;
}

int64_t Saved::bytes() const {
  std::set<const Storage*> seen;
  int64_t total = 0;
  each_defined(*this, [&](const Tensor& tensor) {
    if (seen.insert(tensor.storage().get()).second) total += tensor.storage()->bytes();
  });
  return total;
}

}  // namespace tessera
