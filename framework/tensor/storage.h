// SPDX-License-Identifier: Apache-2.0
// A block of device memory and who gives it back. Tensors share it; the last one returns it.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>

#include "framework/tensor/device.h"

namespace tessera {

class Storage {
 public:
  // `release` runs once, when the storage dies. `data` is null on the shape device.
  Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
      : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}
  ~Storage() {
    if (release_) release_();
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void* data_;
  int64_t bytes_;
  Device device_;
  std::function<void()> release_;
};

}  // namespace tessera
