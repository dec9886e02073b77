// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/activation_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <numeric>
#include <random>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/backends/shape/shape_backend.h"
#include "framework/nn/saved.h"
#include "framework/ops/memory.h"
#include "tests/support/scratch_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

Tensor numbers(Backend& backend, int64_t count, float first) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return from_host<float>(backend, values, {count});
}

// Bytes of the files that this process holds open in a folder, whatever name they have, and how many.
std::pair<int, int64_t> open_files(const fs::path& folder) {
  int count = 0;
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (!fs::read_symlink(entry.path(), ignored).string().starts_with(folder.string() + "/")) continue;
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) != 0) continue;
    ++count;
    bytes += status.st_size;
  }
  return {count, bytes};
}

// Written and given up.
ActivationStore::Parcel away(ActivationStore& store, std::vector<Tensor*> tensors) {
  Work written;
  ActivationStore::Parcel parcel = store.write(std::move(tensors), written);
  written.wait();
  store.give_up(parcel);
  return parcel;
}

TEST(ActivationStore, GivesMemoryUpAndBringsTheSameBitsBack) {
  const test::ScratchFolder folder;
  const auto backend = make_cpu_backend(1);
  ActivationStore store(*backend, folder.path());
  Saved saved;
  const int64_t before = backend->allocator().live_bytes();
  {
    // One storage with three views of it, in two nodes of the tree; one with gaps; one that is pinned.
    const Tensor whole = numbers(*backend, 300, 5);
    saved.keep(whole, Tensor(), whole.narrow(100, 50));
    saved.child(1).keep(whole.reshape({30, 10}).columns(2, 3));
    saved.child(3).pin(2, numbers(*backend, 7, -3));
  }
  const int64_t bytes = saved.bytes();
  EXPECT_EQ(bytes, 4 * 307);
  const int64_t live = backend->allocator().live_bytes();

  Work written;
  ActivationStore::Parcel parcel = store.write(saved.slots(), written);
  EXPECT_EQ(parcel.bytes(), bytes);
  EXPECT_EQ(backend->allocator().live_bytes(), live);
  written.wait();
  EXPECT_EQ(backend->allocator().live_bytes(), live) << "until it is given up";
  store.give_up(parcel);
  EXPECT_EQ(backend->allocator().live_bytes(), before);

  Work back = store.read(std::move(parcel));
  EXPECT_EQ(backend->allocator().live_bytes(), live) << "from the read on";
  back.wait();
  const auto [whole, none, part] = saved.tensors<3>();
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(part.storage(), whole.storage());
  EXPECT_EQ(saved.bytes(), bytes);
  EXPECT_EQ(to_host<float>(*backend, part)[0], 105);
  EXPECT_EQ(to_host<float>(*backend, whole)[299], 304);
  const Tensor columns = saved.child(1).first();
  EXPECT_EQ(columns.storage(), whole.storage());
  EXPECT_EQ(columns.row_stride(), 10);
  EXPECT_EQ(to_host_double(*backend, columns)[3], 5 + 12);
  EXPECT_EQ(to_host<float>(*backend, saved.child(3).pinned(2))[6], 3);
  EXPECT_EQ(store.written_bytes(), bytes);
}

TEST(ActivationStore, LeavesMemoryToItsOtherOwners) {
  const test::ScratchFolder folder;
  const auto backend = make_cpu_backend(1);
  ActivationStore store(*backend, folder.path());
  const Tensor weight = numbers(*backend, 10, 1);
  Tensor kept = weight;
  ActivationStore::Parcel parcel = away(store, {&kept});
  EXPECT_EQ(to_host<float>(*backend, weight)[9], 10);
  store.read(std::move(parcel)).wait();
  EXPECT_NE(kept.storage(), weight.storage());
  EXPECT_EQ(to_host<float>(*backend, kept), to_host<float>(*backend, weight));
}

TEST(ActivationStore, HasOneFileWithoutANameThatDoesNotGrowFromStepToStep) {
  const test::ScratchFolder folder;
  const auto backend = make_cpu_backend(1);
  {
    ActivationStore store(*backend, folder.path());
    int64_t size = 0;
    for (int step = 0; step < 5; ++step) {
      std::vector<Tensor> tensors;
      for (int i = 0; i < 6; ++i) tensors.push_back(numbers(*backend, 1000 + 500 * (i % 3), float(100 * i)));
      std::vector<ActivationStore::Parcel> parcels;
      for (Tensor& tensor : tensors) parcels.push_back(away(store, {&tensor}));
      std::vector<Work> reads;
      for (auto& parcel : parcels) reads.push_back(store.read(std::move(parcel)));
      for (int i = 0; i < 6; ++i) {
        reads[static_cast<size_t>(i)].wait();
        EXPECT_EQ(to_host<float>(*backend, tensors[static_cast<size_t>(i)])[999], float(100 * i + 999));
      }
      EXPECT_TRUE(fs::is_empty(folder.path()));
      const auto [files, bytes] = open_files(folder.path());
      EXPECT_EQ(files, 1);
      if (step == 0) size = bytes;
      EXPECT_EQ(bytes, size);
    }
    EXPECT_GE(size, 4 * 9000);
  }
  EXPECT_EQ(open_files(folder.path()).first, 0);
}

// Writes and reads under way at once, and rooms that are taken again before their read has been waited for.
TEST(ActivationStore, KeepsTransfersInTheOrderOfTheCalls) {
  const test::ScratchFolder folder;
  const auto backend = make_cpu_backend(1);
  ActivationStore store(*backend, folder.path());
  std::mt19937 random(7);
  struct Piece {
    Tensor tensor;
    float first = 0;
    ActivationStore::Parcel parcel = {};
    Work back = {};
  };
  std::deque<std::unique_ptr<Piece>> gone, coming;
  for (int i = 0; i < 300 || !gone.empty() || !coming.empty(); ++i) {
    if (i < 300) {
      auto piece = std::make_unique<Piece>();
      piece->first = float(i);
      piece->tensor = numbers(*backend, 5000, piece->first);
      piece->parcel = away(store, {&piece->tensor});
      gone.push_back(std::move(piece));
    }
    for (unsigned reads = i < 300 ? random() % 3 : 1; reads > 0 && !gone.empty(); --reads) {
      gone.front()->back = store.read(std::move(gone.front()->parcel));
      coming.push_back(std::move(gone.front()));
      gone.pop_front();
    }
    if (coming.empty() || (i < 300 && random() % 2 == 0)) continue;
    coming.front()->back.wait();
    const auto values = to_host<float>(*backend, coming.front()->tensor);
    EXPECT_EQ(values.front(), coming.front()->first);
    EXPECT_EQ(values.back(), coming.front()->first + 4999);
    coming.pop_front();
  }
}

TEST(ActivationStore, SaysWhichFolderDoesNotDo) {
  const auto backend = make_cpu_backend(1);
  const test::ScratchFolder folder;
  const std::string missing = (folder / "missing").string();
  try {
    ActivationStore store(*backend, missing);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data);
    EXPECT_NE(std::string(error.what()).find(missing), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
}

TEST(ActivationStore, AFileThatTakesNoMoreIsAnErrorOfTheWait) {
  const test::ScratchFolder folder;
  const auto backend = make_cpu_backend(1);
  ActivationStore store(*backend, folder.path());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{6000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  Tensor small = numbers(*backend, 1000, 0), large = numbers(*backend, 1000, 0);
  ActivationStore::Parcel fits = away(store, {&small});
  Work written;
  (void)store.write({&large}, written);  // 4,000 bytes from byte 4,096 on, of which 1,904 fit
  try {
    written.wait();
    ADD_FAILURE() << "a short write went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data);
    for (const std::string& part :
         {folder.path().string(), std::string("cannot write 2096 bytes"), std::string("File too large")})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  store.read(std::move(fits)).wait();
  EXPECT_EQ(to_host<float>(*backend, small)[999], 999);
}

TEST(ActivationStore, OnTheShapeBackendOnlyCounts) {
  ShapeBackend backend;
  ActivationStore store(backend, "/nowhere");
  Tensor tensor = empty(backend, DType::F32, {1000});
  ActivationStore::Parcel parcel = away(store, {&tensor});
  EXPECT_EQ(backend.allocator().live_bytes(), 0);
  store.read(std::move(parcel)).wait();
  EXPECT_EQ(backend.allocator().live_bytes(), Allocator::rounded(4000));
  EXPECT_EQ(store.written_bytes(), 4000);
}

TEST(ActivationStore, MayEndWithTransfersUnderWay) {
  const test::ScratchFolder folder;
  const auto backend = make_cpu_backend(1);
  std::vector<Tensor> tensors;
  for (int i = 0; i < 20; ++i) tensors.push_back(numbers(*backend, 200'000, float(i)));
  {
    ActivationStore store(*backend, folder.path());
    Work written;
    for (Tensor& tensor : tensors) (void)store.write({&tensor}, written);
  }
  EXPECT_EQ(to_host<float>(*backend, tensors[19])[0], 19);
}

}  // namespace
}  // namespace tessera
