// SPDX-License-Identifier: Apache-2.0
// Working memory of one backend's kernels, kept between calls: packed panels, partial sums. It comes from
// the backend's allocator, so it is counted, and WorkspaceModel says how much each call needs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "framework/tensor/allocator.h"

namespace tessera::cpu {

class Scratch {
 public:
  explicit Scratch(Allocator& allocator) : allocator_(allocator) {}

  // At least `bytes`, uninitialised; the memory of the last call is gone.
  void* reserve(int64_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();  // before the new block, so that both never exist at once
      bytes_ = 0;
      memory_ = allocator_.allocate(bytes);
      bytes_ = bytes;
    }
    return memory_ ? memory_->data() : nullptr;
  }
  template <class T>
  T* reserve_elements(int64_t count) {
    return static_cast<T*>(reserve(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  Allocator& allocator_;
  std::shared_ptr<Storage> memory_;
  int64_t bytes_ = 0;
};

}  // namespace tessera::cpu
