// SPDX-License-Identifier: Apache-2.0
// Where what forwards have left stays while it is not in the memory of the device: a file without a name in a
// folder, so that nothing is left of it however the process ends, written and read by one thread beside the
// work, one transfer after the other in the order of the calls. On the shape backend nothing moves, and only
// bytes are counted. Faults of the file end the run with Error(Data), which names the folder.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

class ActivationStore {
 public:
  // Makes the file; the thread starts with the first transfer. `backend` outlives the store, and the store
  // outlives the waits for its transfers.
  ActivationStore(Backend& backend, std::string folder);
  ~ActivationStore();  // lets the transfer at work end; those behind it do not begin
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;

  // Tensors that leave together. They belong to the caller and keep their address from write() to read().
  // Storages that several of them share leave once, whole, and are shared again when they are back. Memory
  // that others hold as well stays theirs: what is back is then a copy with the same bits.
  class Parcel {
   public:
    int64_t bytes() const { return bytes_; }

   private:
    friend class ActivationStore;
    std::vector<Tensor*> tensors_;
    std::vector<std::shared_ptr<Storage>> storages_;  // each once
    std::vector<size_t> storage_of_tensor_;
    int64_t bytes_ = 0, offset_ = 0;  // of the storages, one behind the other; in the file
    void put(std::vector<std::shared_ptr<Storage>> storages);
  };

  // Starts to write, until the wait for `written`. Until give_up() the tensors are as before.
  Parcel write(std::vector<Tensor*> tensors, Work& written);
  // After that wait: from here on the tensors have shapes and no memory.
  void give_up(Parcel& parcel) const;
  // The tensors have memory at once, and their values after the wait for the result.
  [[nodiscard]] Work read(Parcel parcel);

  int64_t written_bytes() const { return written_bytes_; }  // since it was made

 private:
  struct Transfer;
  class TransferWork;

  Work start(const Parcel& parcel, bool writes);
  void serve(const std::stop_token& stop);
  void move(const Transfer& transfer) const;
  [[noreturn]] void fail_at(const char* what, int64_t bytes, const char* reason) const;

  Backend& backend_;
  const std::string folder_;
  int file_ = -1;
  int64_t end_ = 0;                       // of the file
  std::multimap<int64_t, int64_t> free_;  // rooms in it: bytes, offset
  int64_t written_bytes_ = 0;

  std::mutex mutex_;  // of what follows and of the state of transfers
  std::condition_variable_any asked_;
  std::condition_variable done_;
  std::deque<std::shared_ptr<Transfer>> waiting_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace tessera
