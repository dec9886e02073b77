// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/activation_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "framework/base/check.h"

namespace tessera {
namespace {

constexpr int64_t kRoomStep = 4096;                 // rooms in the file begin on its pages
constexpr int64_t kLargestCall = int64_t{1} << 30;  // bytes; the system moves less than 2^31 at once

int64_t room_for(int64_t bytes) {
  return (bytes + kRoomStep - 1) / kRoomStep * kRoomStep;
}

// All bytes of a storage.
Tensor bytes_of(const std::shared_ptr<Storage>& storage) {
  return Tensor(storage, DType::U8, {storage->bytes()});
}

}  // namespace

struct ActivationStore::Transfer {
  bool writes = false;
  int64_t offset = 0;
  std::vector<std::span<std::byte>> pieces = {};    // in host memory, one behind the other in the file
  std::vector<std::shared_ptr<Storage>> kept = {};  // what they lie in; let go before it is done
  std::vector<std::vector<std::byte>> staged = {};  // or else copies, for memory that is not the host's
  bool done = false;
  double end = 0;
  std::exception_ptr error = {};
};

class ActivationStore::TransferWork final : public Work::State {
 public:
  // `uploads` get what was staged, after a read.
  TransferWork(ActivationStore& store, std::shared_ptr<Transfer> transfer, std::vector<Tensor> uploads)
      : store_(store), transfer_(std::move(transfer)), uploads_(std::move(uploads)) {}

  void wait() override {
    {
      std::unique_lock lock(store_.mutex_);
      store_.done_.wait(lock, [&] { return transfer_->done; });
    }
    if (transfer_->error) std::rethrow_exception(transfer_->error);
    for (size_t i = 0; i < uploads_.size(); ++i) store_.backend_.upload(transfer_->staged[i], uploads_[i]);
  }
  bool done() override {
    const std::lock_guard lock(store_.mutex_);
    return transfer_->done;
  }
  double finished() override { return transfer_->end; }

 private:
  ActivationStore& store_;
  std::shared_ptr<Transfer> transfer_;
  std::vector<Tensor> uploads_;
};

ActivationStore::ActivationStore(Backend& backend, std::string folder)
    : backend_(backend), folder_(std::move(folder)) {
  if (backend.device().kind == DeviceKind::Shape) return;
  file_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  // Some file systems have no files without a name: one that loses it at once.
  if (file_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
    std::string name = folder_ + "/tessera_activations_XXXXXX";
    file_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (file_ >= 0) ::unlink(name.c_str());
  }
  if (file_ < 0)
    fail(ExitCode::Data,
         "cannot make a file for activations in the folder {} (activation_checkpointing.offload_dir): {}",
         folder_, std::strerror(errno));
}

ActivationStore::~ActivationStore() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  if (file_ >= 0) ::close(file_);
}

// The tensors lie in other storages.
void ActivationStore::Parcel::put(std::vector<std::shared_ptr<Storage>> storages) {
  storages_ = std::move(storages);
  for (size_t i = 0; i < tensors_.size(); ++i)
    *tensors_[i] = tensors_[i]->on(storages_[storage_of_tensor_[i]]);
}

ActivationStore::Parcel ActivationStore::write(std::vector<Tensor*> tensors, Work& written) {
  Parcel parcel;
  parcel.tensors_ = std::move(tensors);
  for (const Tensor* tensor : parcel.tensors_) {
    const auto found = std::ranges::find(parcel.storages_, tensor->storage());
    parcel.storage_of_tensor_.push_back(static_cast<size_t>(found - parcel.storages_.begin()));
    if (found != parcel.storages_.end()) continue;
    parcel.storages_.push_back(tensor->storage());
    parcel.bytes_ += tensor->storage()->bytes();
  }
  // A step repeats its sizes: rooms of the right one are free again from the second time on.
  const int64_t room = room_for(parcel.bytes_);
  if (const auto free = free_.find(room); free != free_.end()) {
    parcel.offset_ = free->second;
    free_.erase(free);
  } else {
    parcel.offset_ = std::exchange(end_, end_ + room);
  }
  written_bytes_ += parcel.bytes_;
  written = start(parcel, true);
  return parcel;
}

void ActivationStore::give_up(Parcel& parcel) const {
  std::vector<std::shared_ptr<Storage>> hollow;
  for (const auto& storage : parcel.storages_)
    hollow.push_back(std::make_shared<Storage>(nullptr, storage->bytes(), storage->device(), nullptr));
  parcel.put(std::move(hollow));
}

Work ActivationStore::read(Parcel parcel) {
  std::vector<std::shared_ptr<Storage>> storages;
  for (const auto& hollow : parcel.storages_)
    storages.push_back(backend_.allocator().allocate(hollow->bytes()));
  parcel.put(std::move(storages));
  // Free at once: what is written there next is behind this read.
  free_.emplace(room_for(parcel.bytes_), parcel.offset_);
  return start(parcel, false);
}

Work ActivationStore::start(const Parcel& parcel, bool writes) {
  if (file_ < 0 || parcel.bytes_ == 0) return {};
  auto transfer = std::make_shared<Transfer>();
  transfer->writes = writes;
  transfer->offset = parcel.offset_;
  std::vector<Tensor> uploads;
  for (const auto& storage : parcel.storages_) {
    const auto bytes = static_cast<size_t>(storage->bytes());
    if (backend_.host_addressable()) {
      transfer->pieces.emplace_back(static_cast<std::byte*>(storage->data()), bytes);
      transfer->kept.push_back(storage);
      continue;
    }
    transfer->pieces.emplace_back(transfer->staged.emplace_back(bytes));
    if (writes)
      backend_.download(bytes_of(storage), transfer->staged.back());
    else
      uploads.push_back(bytes_of(storage));
  }
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(transfer);
  }
  asked_.notify_one();
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  return Work(std::make_shared<TransferWork>(*this, std::move(transfer), std::move(uploads)));
}

void ActivationStore::serve(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (asked_.wait(lock, stop, [&] { return !waiting_.empty(); }) && !stop.stop_requested()) {
    const std::shared_ptr<Transfer> transfer = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      move(*transfer);
    } catch (...) {
      transfer->error = std::current_exception();
    }
    transfer->kept.clear();
    transfer->end = Timeline::now();
    lock.lock();
    transfer->done = true;
    done_.notify_all();
  }
}

void ActivationStore::move(const Transfer& transfer) const {
  int64_t at = transfer.offset;
  for (std::span<std::byte> left : transfer.pieces)
    while (!left.empty()) {
      const size_t bytes = std::min(left.size(), static_cast<size_t>(kLargestCall));
      const ssize_t moved =
          transfer.writes ? ::pwrite(file_, left.data(), bytes, at) : ::pread(file_, left.data(), bytes, at);
      if (moved < 0 && errno == EINTR) continue;
      const char* what = transfer.writes ? "write" : "read";
      if (moved < 0) fail_at(what, static_cast<int64_t>(left.size()), std::strerror(errno));
      if (moved == 0) fail_at(what, static_cast<int64_t>(left.size()), "the file takes or has no more");
      left = left.subspan(static_cast<size_t>(moved));
      at += moved;
    }
}

void ActivationStore::fail_at(const char* what, int64_t bytes, const char* reason) const {
  fail(ExitCode::Data,
       "cannot {} {} bytes of activations in the folder {} (activation_checkpointing.offload_dir): {}", what,
       bytes, folder_, reason);
}

}  // namespace tessera
