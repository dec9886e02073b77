// SPDX-License-Identifier: Apache-2.0
#include "tests/support/protected_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "framework/backends/cpu/cpu_backend.h"

namespace tessera::test {
namespace {

int64_t whole_pages(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

class ProtectedAllocator final : public Allocator {
 public:
  explicit ProtectedAllocator(std::shared_ptr<ProtectedMemory> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<Storage> allocate(int64_t bytes) override {
    const int64_t counted = rounded(bytes), mapped = whole_pages(bytes);
    if (counted == 0) return std::make_shared<Storage>(nullptr, 0, Device{}, nullptr);
    void* data = memory_->take(mapped);
    {
      const ProtectedMemory::Opening opening(*memory_);
      std::memset(data, 0xff, static_cast<size_t>(mapped));
    }
    counts_->add(counted);
    return std::make_shared<Storage>(data, bytes, Device{},
                                     [memory = memory_, counts = counts_, data, counted, mapped] {
                                       counts->remove(counted);
                                       memory->give_back(data, mapped);
                                     });
  }

 private:
  std::shared_ptr<ProtectedMemory> memory_;
};

class ProtectedBackend final : public Backend {
 public:
  ProtectedBackend(int threads, std::shared_ptr<ProtectedMemory> memory)
      : inner_(make_cpu_backend(threads, {.poison = true})),
        memory_(std::move(memory)),
        allocator_(memory_) {}

  Device device() const override { return inner_->device(); }
  Allocator& allocator() override { return allocator_; }
  Stream& compute_stream() override { return inner_->compute_stream(); }
  Stream& comm_stream() override { return inner_->comm_stream(); }

  void matmul(const MatmulArgs& a) override { call(&Backend::matmul, a); }
  void layer_norm(const LayerNormArgs& a) override { call(&Backend::layer_norm, a); }
  void layer_norm_backward(const LayerNormBackwardArgs& a) override {
    call(&Backend::layer_norm_backward, a);
  }
  void rms_norm(const RmsNormArgs& a) override { call(&Backend::rms_norm, a); }
  void rms_norm_backward(const RmsNormBackwardArgs& a) override { call(&Backend::rms_norm_backward, a); }
  void activation(const ActivationArgs& a) override { call(&Backend::activation, a); }
  void activation_backward(const ActivationBackwardArgs& a) override {
    call(&Backend::activation_backward, a);
  }
  void gated_activation(const GatedActivationArgs& a) override { call(&Backend::gated_activation, a); }
  void gated_activation_backward(const GatedActivationBackwardArgs& a) override {
    call(&Backend::gated_activation_backward, a);
  }
  void attention(const AttentionArgs& a) override { call(&Backend::attention, a); }
  void attention_backward(const AttentionBackwardArgs& a) override { call(&Backend::attention_backward, a); }
  void rope(const RopeArgs& a) override { call(&Backend::rope, a); }
  void embedding(const EmbeddingArgs& a) override { call(&Backend::embedding, a); }
  void embedding_backward(const EmbeddingBackwardArgs& a) override { call(&Backend::embedding_backward, a); }
  void cross_entropy_stats(const CrossEntropyStatsArgs& a) override {
    call(&Backend::cross_entropy_stats, a);
  }
  void cross_entropy_rescale(const CrossEntropyRescaleArgs& a) override {
    call(&Backend::cross_entropy_rescale, a);
  }
  void cross_entropy_loss(const CrossEntropyLossArgs& a) override { call(&Backend::cross_entropy_loss, a); }
  void cross_entropy_backward(const CrossEntropyBackwardArgs& a) override {
    call(&Backend::cross_entropy_backward, a);
  }
  void dropout(const DropoutArgs& a) override { call(&Backend::dropout, a); }
  void fill(const Tensor& x, double value) override { call(&Backend::fill, x, value); }
  void copy(const Tensor& from, const Tensor& to) override { call(&Backend::copy, from, to); }
  void add(const Tensor& a, const Tensor& b, const Tensor& y) override { call(&Backend::add, a, b, y); }
  void scale(const Tensor& x, double factor) override { call(&Backend::scale, x, factor); }
  void column_sum(const Tensor& x, const Tensor& out) override { call(&Backend::column_sum, x, out); }
  void sum(std::span<const Tensor> terms, const Tensor& out) override { call(&Backend::sum, terms, out); }
  void sum_squares(const Tensor& x, const Tensor& out) override { call(&Backend::sum_squares, x, out); }
  void sum_squared_differences(const Tensor& x, const Tensor& y, const Tensor& out) override {
    call(&Backend::sum_squared_differences, x, y, out);
  }
  void histogram(const Tensor& x, const Tensor& counts, const Tensor& sum) override {
    call(&Backend::histogram, x, counts, sum);
  }
  void init_normal(const InitNormalArgs& a) override { call(&Backend::init_normal, a); }
  void adamw(const AdamwArgs& a) override { call(&Backend::adamw, a); }
  void sgd(const SgdArgs& a) override { call(&Backend::sgd, a); }
  void upload(std::span<const std::byte> from, const Tensor& to) override {
    call(&Backend::upload, from, to);
  }
  void download(const Tensor& from, std::span<std::byte> to) override { call(&Backend::download, from, to); }

 private:
  template <class... Parameters, class... Args>
  void call(void (Backend::*operation)(Parameters...), Args&&... args) {
    const ProtectedMemory::Opening opening(*memory_);
    ((*inner_).*operation)(std::forward<Args>(args)...);
  }

  std::unique_ptr<Backend> inner_;
  std::shared_ptr<ProtectedMemory> memory_;
  ProtectedAllocator allocator_;
};

}  // namespace

ProtectedMemory::ProtectedMemory(int64_t reserved_bytes) : reserved_(whole_pages(reserved_bytes)) {
  void* memory = mmap(nullptr, static_cast<size_t>(reserved_), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED, "cannot reserve {} bytes of addresses", reserved_);
  base_ = static_cast<char*>(memory);
}

ProtectedMemory::~ProtectedMemory() {
  munmap(base_, static_cast<size_t>(reserved_));
}

void* ProtectedMemory::take(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto found = free_.find(bytes); found != free_.end()) {
    char* memory = found->second;
    free_.erase(found);
    return memory;
  }
  CHECK(used_ + bytes <= reserved_, "protected memory holds {} bytes, {} more do not fit", used_, bytes);
  char* memory = base_ + used_;
  used_ += bytes;
  if (inside_ > 0) protect(PROT_READ | PROT_WRITE);
  return memory;
}

// The pages go back to the system, the addresses serve the next request of the same size.
void ProtectedMemory::give_back(void* memory, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  madvise(memory, static_cast<size_t>(bytes), MADV_DONTNEED);
  free_.emplace(bytes, static_cast<char*>(memory));
}

void ProtectedMemory::open() {
  const std::lock_guard lock(mutex_);
  if (inside_++ == 0) protect(PROT_READ | PROT_WRITE);
}
void ProtectedMemory::close() {
  const std::lock_guard lock(mutex_);
  if (--inside_ == 0) protect(PROT_NONE);
}

void ProtectedMemory::protect(int protection) {
  if (used_ == 0) return;
  CHECK(mprotect(base_, static_cast<size_t>(used_), protection) == 0,
        "cannot change the protection of {} bytes", used_);
}

std::unique_ptr<Backend> make_protected_backend(int threads, std::shared_ptr<ProtectedMemory> memory) {
  return std::make_unique<ProtectedBackend>(threads, std::move(memory));
}

}  // namespace tessera::test
