// SPDX-License-Identifier: Apache-2.0
// A backend whose tensors the host cannot touch: their pages are closed except inside its own calls, as if
// they lay on a device. Code above the backends that reads or writes tensor memory dies at once.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "framework/ops/backend.h"

namespace tessera::test {

// One reserved range of addresses for all protected tensors. Ranks that exchange tensors share it: a call
// of any of them opens all of it. Threads may be inside at the same time; the last one out closes it.
class ProtectedMemory {
 public:
  explicit ProtectedMemory(int64_t reserved_bytes = int64_t{64} << 30);
  ~ProtectedMemory();
  ProtectedMemory(const ProtectedMemory&) = delete;
  ProtectedMemory& operator=(const ProtectedMemory&) = delete;

  void* take(int64_t bytes);
  void give_back(void* memory, int64_t bytes);

  class Opening {
   public:
    explicit Opening(ProtectedMemory& memory) : memory_(memory) { memory_.open(); }
    ~Opening() { memory_.close(); }
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;

   private:
    ProtectedMemory& memory_;
  };

 private:
  void open();
  void close();
  void protect(int protection);

  std::mutex mutex_;
  char* base_ = nullptr;
  int64_t reserved_, used_ = 0;  // bytes; addresses from base_ + used_ on were never given out
  std::multimap<int64_t, char*> free_;
  int inside_ = 0;
};

// A CPU backend in protected memory; new tensors are filled with NaN bytes.
std::unique_ptr<Backend> make_protected_backend(
    int threads, std::shared_ptr<ProtectedMemory> memory = std::make_shared<ProtectedMemory>());

}  // namespace tessera::test
