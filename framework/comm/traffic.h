// SPDX-License-Identifier: Apache-2.0
// Bytes that this rank sent, per kind of call. Formulas of docs/ are tested against these counts.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace tessera {

enum class TrafficKind : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Exchange, Host };

class Traffic {
 public:
  void add(TrafficKind kind, int64_t bytes) {
    auto& count = counts_[static_cast<size_t>(kind)];
    count.fetch_add(bytes, std::memory_order_relaxed);
  }
  int64_t sent(TrafficKind kind) const {
    return counts_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }
  int64_t sent() const {  // of all kinds
    int64_t total = 0;
    for (const auto& count : counts_) total += count.load(std::memory_order_relaxed);
    return total;
  }
  void reset() {
    for (auto& count : counts_) count.store(0, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<int64_t>, 7> counts_{};
};

}  // namespace tessera
