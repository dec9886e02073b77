// SPDX-License-Identifier: Apache-2.0
// Host memory for tensors, with a cache of freed blocks. Real memory follows the counted peak: cached
// blocks are kept only while they and the live ones together stay below it. Blocks may be freed on any
// thread, also after the allocator is gone.
#pragma once
#include <memory>

#include "framework/tensor/allocator.h"

namespace tessera::cpu {

class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(bool poison) : poison_(poison) {}

  std::shared_ptr<Storage> allocate(int64_t bytes) override;

  int64_t cached_bytes() const;  // of freed blocks that are kept
  void release_cached();         // gives them back to the system

 private:
  class Cache;
  std::shared_ptr<Cache> cache_ = make_cache();
  bool poison_;

  static std::shared_ptr<Cache> make_cache();
};

}  // namespace tessera::cpu
