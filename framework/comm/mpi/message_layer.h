// SPDX-License-Identifier: Apache-2.0
// Non-blocking messages between processes, as little as the collectives here need. MPI implements it in
// mpi_communicator.cpp, tests implement it in memory. All calls come from one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/base/check.h"

namespace tessera::messages {

// One message stays below 2^30 bytes: transports count with int.
constexpr int64_t kLargestMessage = (int64_t{1} << 30) - 1;
inline int checked_count(int64_t bytes) {
  CHECK(bytes >= 0 && bytes <= kLargestMessage, "a message of {} bytes; one message carries at most {}",
        bytes, kLargestMessage);
  return static_cast<int>(bytes);
}

class MessageLayer {
 public:
  struct Completed {
    int64_t id;
    int64_t bytes;  // received; of no meaning for a send
  };

  virtual ~MessageLayer() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int64_t largest_tag() const = 0;
  // By rank, a number of the node that it runs on.
  virtual std::vector<int> nodes() const = 0;

  // The memory must stay until the id is reported. Messages between two ranks with one tag are received in
  // the order in which they were sent; a receive may be longer than the message, not shorter.
  virtual void send(std::span<const std::byte> bytes, int peer, int tag, int64_t id) = 0;
  virtual void receive(std::span<std::byte> bytes, int peer, int tag, int64_t id) = 0;
  // Appends what has finished since the last call.
  virtual void poll(std::vector<Completed>& completed) = 0;

  virtual void close() = 0;           // nothing is outstanding; meets the other ranks
  virtual void abort() noexcept = 0;  // ends the processes of all ranks with exit code 5, without clean-up
};

using MakeMessageLayer = std::function<std::unique_ptr<MessageLayer>()>;

}  // namespace tessera::messages
