// SPDX-License-Identifier: Apache-2.0
// Device memory, counted. Every allocator rounds and counts in the same way, so that the shape backend
// predicts to the byte what another backend will ask for.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "framework/tensor/storage.h"

namespace tessera {

class Allocator {
 public:
  static constexpr int64_t kAlignment = 64;
  static constexpr int64_t rounded(int64_t bytes) {
    return bytes <= 0 ? 0 : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  virtual ~Allocator() = default;

  // Uninitialised memory, aligned to kAlignment. The storage may outlive the allocator.
  virtual std::shared_ptr<Storage> allocate(int64_t bytes) = 0;

  int64_t live_bytes() const { return counts_->live.load(std::memory_order_relaxed); }
  int64_t peak_bytes() const { return counts_->peak.load(std::memory_order_relaxed); }
  void reset_peak() { counts_->peak.store(live_bytes(), std::memory_order_relaxed); }

 protected:
  // Shared with the storages, which may die on another thread or after the allocator.
  struct Counts {
    std::atomic<int64_t> live{0}, peak{0};
    void add(int64_t bytes) {
      const int64_t total = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
      int64_t seen = peak.load(std::memory_order_relaxed);
      while (total > seen && !peak.compare_exchange_weak(seen, total, std::memory_order_relaxed)) {
      }
    }
    void remove(int64_t bytes) { live.fetch_sub(bytes, std::memory_order_relaxed); }
  };
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace tessera
