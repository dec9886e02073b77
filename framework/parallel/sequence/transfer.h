// SPDX-License-Identifier: Apache-2.0
// A communication under way beside compute. It is waited for even when an exception passes by, so that no
// rank leaves a call with a transfer that nobody looks after; what it threw then gives way to that exception.
#pragma once
#include <utility>

#include "framework/comm/communicator.h"

namespace tessera {

class Transfer {
 public:
  Transfer() = default;  // nothing under way
  // Results are there for what `stream` does after wait().
  Transfer(Work work, Stream& stream) : work_(std::move(work)), stream_(&stream) {}
  Transfer(Transfer&& other) noexcept
      : work_(std::move(other.work_)), stream_(std::exchange(other.stream_, nullptr)) {}
  // Nothing may be under way in what is assigned to.
  Transfer& operator=(Transfer&& other) noexcept {
    work_ = std::move(other.work_);
    stream_ = std::exchange(other.stream_, nullptr);
    return *this;
  }
  ~Transfer() {
    try {
      wait();
    } catch (...) {  // this rank is failing already, with the cause that counts
    }
  }

  void wait() {
    if (stream_ == nullptr) return;
    Work work = std::move(work_);
    work.wait(*std::exchange(stream_, nullptr));
  }

 private:
  Work work_;
  Stream* stream_ = nullptr;
};

}  // namespace tessera
