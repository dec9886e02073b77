// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "framework/base/check.h"

namespace tessera::cpu {
namespace {

// Below this the C library's heap is as good; long-lived small blocks would only break up the large room.
constexpr int64_t kHeapFrom = int64_t{256} << 10;
// Address space asked for at once. Pages cost nothing until they are touched.
constexpr int64_t kChunk = int64_t{256} << 20;
constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

// Shared with the storages.
class CachingAllocator::Heap {
 public:
  ~Heap() {
    for (const Chunk& chunk : chunks_) munmap(chunk.base, static_cast<size_t>(chunk.bytes));
  }

  char* take(int64_t bytes, int64_t counted_peak) {
    const std::lock_guard lock(mutex_);
    auto found = by_size_.lower_bound({bytes, nullptr});
    if (found == by_size_.end()) {
      if (!add_chunk(bytes)) return nullptr;
      found = by_size_.lower_bound({bytes, nullptr});
    }
    char* const start = found->second;
    Piece piece = remove(start);
    // The touched part is taken to lie in front; only the estimate of real memory depends on it.
    const int64_t warm = std::min(piece.touched, bytes);
    if (piece.bytes > bytes) insert(start + bytes, {piece.bytes - bytes, piece.touched - warm});
    in_use_ += bytes;
    touched_ += bytes - warm;
    trim(std::max(counted_peak, in_use_));
    return start;
  }

  void give_back(char* start, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    Piece piece{bytes, bytes};
    const auto next = free_.find(start + bytes);
    if (next != free_.end() && !begins_chunk(next->first)) {
      const Piece joined = remove(next->first);
      piece = {piece.bytes + joined.bytes, piece.touched + joined.touched};
    }
    const auto above = free_.lower_bound(start);
    if (above != free_.begin() && !begins_chunk(start)) {
      const auto before = std::prev(above);
      if (before->first + before->second.bytes == start) {
        char* const first = before->first;
        const Piece joined = remove(first);
        piece = {piece.bytes + joined.bytes, piece.touched + joined.touched};
        start = first;
      }
    }
    insert(start, piece);
  }

  int64_t touched() {
    const std::lock_guard lock(mutex_);
    return touched_;
  }

  void release_free() {
    const std::lock_guard lock(mutex_);
    for (auto& [start, piece] : free_) give_pages_back(start, piece);
  }

  int64_t in_use() {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }

 private:
  struct Piece {
    int64_t bytes;
    int64_t touched;  // of them, estimated from above
  };
  struct Chunk {
    char* base;
    int64_t bytes;
  };

  bool add_chunk(int64_t bytes) {
    int64_t size = 0;
    if (__builtin_add_overflow(std::max(bytes, kChunk), kHugePage - 1, &size)) return false;
    size = size / kHugePage * kHugePage;
    void* const base = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return false;
    // A hint: without huge pages the memory is as good, and a little slower.
    (void)madvise(base, static_cast<size_t>(size), MADV_HUGEPAGE);
    chunks_.push_back({static_cast<char*>(base), size});
    insert(static_cast<char*>(base), {size, 0});
    return true;
  }

  bool begins_chunk(const char* address) const {
    return std::any_of(chunks_.begin(), chunks_.end(),
                       [&](const Chunk& chunk) { return chunk.base == address; });
  }

  void insert(char* start, const Piece& piece) {
    free_.emplace(start, piece);
    by_size_.emplace(piece.bytes, start);
  }
  Piece remove(char* start) {
    const auto found = free_.find(start);
    const Piece piece = found->second;
    by_size_.erase({piece.bytes, start});
    free_.erase(found);
    return piece;
  }

  // Gives pages of the largest free pieces back until what is touched is near what was counted.
  void trim(int64_t counted) {
    const auto limit = static_cast<int64_t>(static_cast<double>(counted) * (1 + kSlack)) + kHugePage;
    for (auto largest = by_size_.rbegin(); largest != by_size_.rend() && touched_ > limit; ++largest) {
      const auto found = free_.find(largest->second);
      give_pages_back(found->first, found->second);
    }
  }

  void give_pages_back(char* start, Piece& piece) {
    const auto address = reinterpret_cast<uintptr_t>(start);
    const uintptr_t first = (address + kPage - 1) / kPage * kPage;
    const uintptr_t last = (address + static_cast<uintptr_t>(piece.bytes)) / kPage * kPage;
    if (piece.touched == 0 || first >= last) return;
    (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    touched_ -= piece.touched;
    piece.touched = 0;
  }

  std::mutex mutex_;
  std::map<char*, Piece> free_;
  std::set<std::pair<int64_t, char*>> by_size_;  // best fit, then lowest address
  std::vector<Chunk> chunks_;
  int64_t in_use_ = 0, touched_ = 0;
};

std::shared_ptr<CachingAllocator::Heap> CachingAllocator::make_heap() {
  return std::make_shared<Heap>();
}

std::shared_ptr<Storage> CachingAllocator::allocate(int64_t bytes) {
  const int64_t counted = rounded(bytes);
  if (counted == 0) return std::make_shared<Storage>(nullptr, 0, Device{}, nullptr);
  const bool small = counted < kHeapFrom;
  void* const memory = small ? std::aligned_alloc(kAlignment, static_cast<size_t>(counted))
                             : heap_->take(counted, peak_bytes());
  CHECK(memory != nullptr, "out of memory: a tensor of {} bytes beside {} in use", bytes, heap_->in_use());
  counts_->add(counted);
  if (poison_) std::memset(memory, 0xff, static_cast<size_t>(counted));
  return std::make_shared<Storage>(memory, bytes, Device{},
                                   [heap = heap_, counts = counts_, memory, counted, small] {
                                     counts->remove(counted);
                                     if (small)
                                       std::free(memory);
                                     else
                                       heap->give_back(static_cast<char*>(memory), counted);
                                   });
}

int64_t CachingAllocator::resident_bytes() const {
  return heap_->touched();
}
void CachingAllocator::release_cached() {
  heap_->release_free();
}

}  // namespace tessera::cpu
