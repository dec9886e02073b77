// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "framework/base/check.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kMapFrom = int64_t{1} << 20;
constexpr int64_t kHugeFrom = int64_t{2} << 20;

void* system_allocate(int64_t bytes) {
  const size_t size = static_cast<size_t>(bytes);
  if (bytes < kMapFrom) return std::aligned_alloc(Allocator::kAlignment, size);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // A hint: without huge pages the memory is as good, and a little slower.
  if (bytes >= kHugeFrom) (void)madvise(memory, size, MADV_HUGEPAGE);
  return memory;
}

void system_free(void* memory, int64_t bytes) {
  if (bytes < kMapFrom)
    std::free(memory);
  else
    munmap(memory, static_cast<size_t>(bytes));
}

}  // namespace

// Shared with the storages. A block's size is what it was made with. A request may get a larger block, when
// less than an eighth is wasted and the blocks in use stay below the counted peak all the same.
class CachingAllocator::Cache {
 public:
  struct Block {
    void* memory;
    int64_t bytes;
  };

  ~Cache() { release_all(); }

  Block take(int64_t bytes, int64_t counted_peak) {
    const std::lock_guard lock(mutex_);
    const auto found = free_.lower_bound(bytes);
    if (found != free_.end() && serves(found->first, bytes, counted_peak)) {
      const Block block{found->second, found->first};
      free_.erase(found);
      cached_ -= block.bytes;
      in_use_ += block.bytes;
      return block;
    }
    release_until(counted_peak - in_use_ - bytes);
    Block block{system_allocate(bytes), bytes};
    if (block.memory == nullptr) {
      release_until(0);
      block.memory = system_allocate(bytes);
    }
    CHECK(block.memory != nullptr, "out of memory: a tensor of {} bytes beside {} in use", bytes, in_use_);
    in_use_ += bytes;
    return block;
  }

  void give_back(const Block& block) {
    const std::lock_guard lock(mutex_);
    in_use_ -= block.bytes;
    cached_ += block.bytes;
    free_.emplace(block.bytes, block.memory);
  }

  void release_all() {
    const std::lock_guard lock(mutex_);
    release_until(0);
  }

  int64_t cached() {
    const std::lock_guard lock(mutex_);
    return cached_;
  }

 private:
  bool serves(int64_t block, int64_t bytes, int64_t counted_peak) const {
    return block == bytes || ((block - bytes) * 8 < block && in_use_ + block <= counted_peak);
  }

  // Largest first, until at most `keep` bytes are cached.
  void release_until(int64_t keep) {
    while (cached_ > std::max<int64_t>(keep, 0)) {
      const auto last = std::prev(free_.end());
      system_free(last->second, last->first);
      cached_ -= last->first;
      free_.erase(last);
    }
  }

  std::mutex mutex_;
  std::multimap<int64_t, void*> free_;
  int64_t cached_ = 0, in_use_ = 0;
};

std::shared_ptr<CachingAllocator::Cache> CachingAllocator::make_cache() {
  return std::make_shared<Cache>();
}

std::shared_ptr<Storage> CachingAllocator::allocate(int64_t bytes) {
  const int64_t counted = rounded(bytes);
  if (counted == 0) return std::make_shared<Storage>(nullptr, 0, Device{}, nullptr);
  const Cache::Block block = cache_->take(counted, peak_bytes());
  counts_->add(counted);
  if (poison_) std::memset(block.memory, 0xff, static_cast<size_t>(counted));
  return std::make_shared<Storage>(block.memory, bytes, Device{},
                                   [cache = cache_, counts = counts_, block, counted] {
                                     counts->remove(counted);
                                     cache->give_back(block);
                                   });
}

int64_t CachingAllocator::cached_bytes() const {
  return cache_->cached();
}
void CachingAllocator::release_cached() {
  cache_->release_all();
}

}  // namespace tessera::cpu
