// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/memory.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A line of /proc/self/status in bytes.
int64_t process_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == key + ":") {
      int64_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
  return -1;
}

void touch(const Storage& storage) {
  std::memset(storage.data(), 1, static_cast<size_t>(storage.bytes()));
}

TEST(CachingAllocator, counts_rounded_sizes) {
  CachingAllocator allocator(false);
  const auto a = allocator.allocate(1), b = allocator.allocate(65);
  EXPECT_EQ(allocator.live_bytes(), 64 + 128);
  { const auto c = allocator.allocate(1000); }
  EXPECT_EQ(allocator.live_bytes(), 64 + 128);
  EXPECT_EQ(allocator.peak_bytes(), 64 + 128 + 1024);
  EXPECT_EQ(allocator.allocate(0)->bytes(), 0);
}

TEST(CachingAllocator, gives_aligned_memory_of_every_size) {
  CachingAllocator allocator(false);
  for (const int64_t bytes : {1, 63, 64, 1003, 1 << 20, (1 << 20) + 1, 5000003}) {
    const auto block = allocator.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % Allocator::kAlignment, 0u);
    EXPECT_EQ(block->bytes(), bytes);
    touch(*block);
  }
}

TEST(CachingAllocator, reuses_the_room_of_freed_blocks) {
  CachingAllocator allocator(false);
  void* memory = allocator.allocate(3 * kMiB)->data();
  EXPECT_EQ(allocator.allocate(3 * kMiB)->data(), memory);
  EXPECT_EQ(allocator.allocate(2 * kMiB)->data(), memory);
  const auto a = allocator.allocate(kMiB), b = allocator.allocate(kMiB), c = allocator.allocate(kMiB);
  EXPECT_EQ(a->data(), memory);
  EXPECT_EQ(allocator.resident_bytes(), 3 * kMiB);
}

TEST(CachingAllocator, joins_neighbours_in_any_order_of_freeing) {
  CachingAllocator allocator(false);
  std::array<int, 4> order{0, 1, 2, 3};
  void* memory = nullptr;
  do {
    std::vector<std::shared_ptr<Storage>> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(allocator.allocate(kMiB));
    if (memory == nullptr) memory = parts[0]->data();
    ASSERT_EQ(parts[0]->data(), memory);
    for (const int i : order) parts[static_cast<size_t>(i)].reset();
    ASSERT_EQ(allocator.allocate(4 * kMiB)->data(), memory);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(allocator.resident_bytes(), 4 * kMiB);
}

TEST(CachingAllocator, real_memory_stays_near_the_counted_peak) {
  CachingAllocator allocator(false);
  std::vector<std::shared_ptr<Storage>> live;
  uint64_t state = 12345;
  for (int i = 0; i < 3000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (live.size() > 12 || (state >> 60) < 6) {
      if (!live.empty()) live.erase(live.begin() + static_cast<int64_t>((state >> 33) % live.size()));
    } else {
      live.push_back(allocator.allocate(static_cast<int64_t>((state >> 20) % (3 << 20)) + 1));
    }
    ASSERT_LE(static_cast<double>(allocator.resident_bytes()),
              static_cast<double>(allocator.peak_bytes()) * (1 + CachingAllocator::kSlack) + 3 * kMiB);
  }
}

// What a steady step needs is there: nothing is asked of the system, so nothing is cleared again.
TEST(CachingAllocator, a_repeated_pattern_keeps_its_pages) {
  CachingAllocator allocator(false);
  const auto step = [&] {
    std::vector<std::shared_ptr<Storage>> kept;
    for (int64_t i = 1; i <= 9; ++i) {
      kept.push_back(allocator.allocate(i * 700001));
      const auto scratch = allocator.allocate(9 * kMiB - i * 1003);
    }
    while (!kept.empty()) kept.pop_back();
  };
  step();
  step();
  const int64_t before = allocator.resident_bytes();
  for (int i = 0; i < 20; ++i) {
    step();
    ASSERT_EQ(allocator.resident_bytes(), before);
  }
}

// ThreadSanitizer's shadow of the memory is resident, too.
#ifndef __SANITIZE_THREAD__
TEST(CachingAllocator, resident_memory_follows_the_peak) {
  CachingAllocator allocator(false);
  const int64_t before = process_bytes("VmRSS");
  // Sizes that never fit each other's blocks: a cache that only grew would hold all of them.
  for (int64_t size = 40; size >= 20; --size) touch(*allocator.allocate(size * kMiB));
  const int64_t growth = process_bytes("VmRSS") - before;
  EXPECT_LT(growth, 44 * kMiB);
  EXPECT_EQ(allocator.peak_bytes(), 40 * kMiB);
}
#endif

TEST(CachingAllocator, a_storage_outlives_its_allocator_and_dies_on_any_thread) {
  std::shared_ptr<Storage> survivor;
  {
    CachingAllocator allocator(false);
    survivor = allocator.allocate(5 * kMiB);
  }
  touch(*survivor);
  std::thread([storage = std::move(survivor)]() mutable { storage.reset(); }).join();
}

TEST(CachingAllocator, threads_may_allocate_together) {
  CachingAllocator allocator(false);
  const auto work = [&] {
    for (int64_t i = 0; i < 2000; ++i) {
      const auto block = allocator.allocate(64 * (1 + i % 7));
      touch(*block);
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(allocator.live_bytes(), 0);
}

TEST(CachingAllocator, poisons_new_and_reused_memory) {
  CachingAllocator allocator(true);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto block = allocator.allocate(100);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(static_cast<unsigned char*>(block->data())[i], 0xff);
    touch(*block);
  }
}

TEST(CachingAllocator, names_the_size_that_did_not_fit) {
  CachingAllocator allocator(false);
  try {
    allocator.allocate(int64_t{1} << 60);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos) << error.what();
  }
  EXPECT_EQ(allocator.live_bytes(), 0);
}

// A communicator's progress thread copies and adds while the rank's thread computes.
TEST(CpuBackend, copies_and_adds_beside_the_compute_thread) {
  const auto backend = make_cpu_backend(2);
  const Tensor a = zeros(*backend, DType::F32, {70000}), b = zeros(*backend, DType::F32, {70000});
  std::thread progress([&] {
    for (int i = 0; i < 100; ++i) {
      const Tensor fresh = empty(*backend, DType::F32, {70000});
      backend->fill(fresh, 1);
      backend->add(a, fresh, a);
    }
  });
  for (int i = 0; i < 100; ++i) {
    const Tensor fresh = empty(*backend, DType::F32, {70000});
    backend->fill(fresh, 2);
    backend->add(b, fresh, b);
  }
  progress.join();
  EXPECT_EQ(to_host<float>(*backend, a), std::vector<float>(70000, 100));
  EXPECT_EQ(to_host<float>(*backend, b), std::vector<float>(70000, 200));
}

}  // namespace
}  // namespace tessera::cpu
