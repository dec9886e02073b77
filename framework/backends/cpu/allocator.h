// SPDX-License-Identifier: Apache-2.0
// Host memory for tensors: a heap whose free pieces are split and joined, so that the sizes of one step fit
// into each other's room and a steady step asks the system for nothing. Real memory follows the counted
// peak: when touched pages exceed it by more than kSlack, free ones go back to the system. Blocks may be
// freed on any thread, also after the allocator is gone.
#pragma once
#include <memory>

#include "framework/tensor/allocator.h"

namespace tessera::cpu {

class CachingAllocator final : public Allocator {
 public:
  static constexpr double kSlack = 0.04;  // of the counted peak

  explicit CachingAllocator(bool poison) : poison_(poison) {}

  std::shared_ptr<Storage> allocate(int64_t bytes) override;

  int64_t resident_bytes() const;  // of pages that were touched and not given back, blocks in use included
  void release_cached();           // gives all free pages back to the system

 private:
  class Heap;
  std::shared_ptr<Heap> heap_ = make_heap();
  bool poison_;

  static std::shared_ptr<Heap> make_heap();
};

}  // namespace tessera::cpu
