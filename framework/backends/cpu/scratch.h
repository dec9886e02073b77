// SPDX-License-Identifier: Apache-2.0
// Working memory of one backend's kernels, kept between calls: packed panels, partial sums. It is small (a
// few MB a thread at most) and no part of the tensor memory that the allocator counts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace tessera::cpu {

class Scratch {
 public:
  static constexpr int64_t kAlignment = 64;

  // At least `bytes`, uninitialised; the memory of the last call is gone.
  void* reserve(int64_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();  // before the new block, so that both never exist at once
      bytes_ = 0;
      memory_.reset(::operator new(static_cast<size_t>(bytes), std::align_val_t(kAlignment)));
      bytes_ = bytes;
    }
    return memory_.get();
  }
  template <class T>
  T* reserve_elements(int64_t count) {
    return static_cast<T*>(reserve(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  struct Free {
    void operator()(void* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<void, Free> memory_;
  int64_t bytes_ = 0;
};

}  // namespace tessera::cpu
