// SPDX-License-Identifier: Apache-2.0
// The k-th system call of a save fails, for every k: the error is the same on all ranks, nothing partial is
// left, and the checkpoint before is found whole. The linker routes the calls of the checkpoint library
// through the __wrap_ functions here (-Wl,--wrap).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <fstream>

#include "framework/checkpoint/folders.h"
#include "framework/checkpoint/load.h"
#include "framework/checkpoint/save.h"
#include "tests/support/checkpoint_support.h"
#include "tests/support/thread_ranks.h"

namespace {

enum class Call { Open, Write, Read, Resize, Sync, MakeDirectory, Rename, Exchange };

// Fails one call, and with `onwards` all after it, as a full disk does.
struct Faults {
  std::atomic<int64_t> calls = 0, fail_at = -1;
  std::atomic<bool> onwards = false, flip_reads = false, no_exchange = false, in_small_steps = false;
  std::atomic<int> error = 0;
  std::atomic<Call> first = Call::Open;  // the one at fail_at

  bool hit(Call kind) {
    const int64_t call = calls++;
    const bool now = fail_at >= 0 && (call == fail_at || (onwards && call > fail_at));
    if (call == fail_at) first = kind;
    if (now) errno = error;
    return now;
  }
  void set(int64_t at, int code, bool all_after) {
    calls = 0;
    error = code;
    onwards = all_after;
    fail_at = at;
  }
  void clear() { fail_at = -1; }
};
Faults faults;

}  // namespace

extern "C" {
int __real_open(const char* path, int flags, ...);
ssize_t __real_pwrite(int descriptor, const void* bytes, size_t size, off_t position);
ssize_t __real_pread(int descriptor, void* bytes, size_t size, off_t position);
int __real_ftruncate(int descriptor, off_t size);
int __real_fsync(int descriptor);
int __real_mkdir(const char* path, mode_t mode);
int __real_rename(const char* from, const char* to);
int __real_renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags);

int __wrap_open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return faults.hit(Call::Open) ? -1 : __real_open(path, flags, mode);
}
ssize_t __wrap_pwrite(int descriptor, const void* bytes, size_t size, off_t position) {
  if (faults.in_small_steps) size = std::min<size_t>(size, 999);
  if (!faults.hit(Call::Write)) return __real_pwrite(descriptor, bytes, size, position);
  // A disk that fills up takes a part first.
  if (size < 2 || errno != ENOSPC) return -1;
  const ssize_t part = __real_pwrite(descriptor, bytes, size / 2, position);
  faults.onwards = true;  // the count of calls stays as it is: other ranks' threads are counting, too
  return part;
}
ssize_t __wrap_pread(int descriptor, void* bytes, size_t size, off_t position) {
  if (faults.in_small_steps) size = std::min<size_t>(size, 1001);
  if (faults.hit(Call::Read)) return -1;
  const ssize_t count = __real_pread(descriptor, bytes, size, position);
  if (faults.flip_reads && count > 1000) static_cast<char*>(bytes)[777] ^= 4;
  return count;
}
int __wrap_ftruncate(int descriptor, off_t size) {
  return faults.hit(Call::Resize) ? -1 : __real_ftruncate(descriptor, size);
}
int __wrap_fsync(int) {
  return faults.hit(Call::Sync) ? -1 : 0;  // these tests do not cut the power
}
int __wrap_mkdir(const char* path, mode_t mode) {
  return faults.hit(Call::MakeDirectory) ? -1 : __real_mkdir(path, mode);
}
int __wrap_rename(const char* from, const char* to) {
  return faults.hit(Call::Rename) ? -1 : __real_rename(from, to);
}
int __wrap_renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  if (faults.no_exchange) {
    errno = EINVAL;  // as NFS says
    return -1;
  }
  return faults.hit(Call::Exchange) ? -1 : __real_renameat2(from_at, from, to_at, to, flags);
}
}

namespace tessera {
namespace {

using namespace test;
namespace fs = std::filesystem;

const std::vector<TestTensor> kTensors{{"parameters/a", DType::F32, {1003, 7}},
                                       {"parameters/b", DType::BF16, {3}}};

struct Outcome {
  bool failed = false;
  ExitCode code = ExitCode::Success;
  std::vector<std::string> messages;  // by rank
};

Outcome attempt(const fs::path& directory, int step, int ranks, const SaveOptions& options) {
  Outcome outcome;
  outcome.messages.resize(static_cast<size_t>(ranks));
  std::atomic<int> failed = 0, code = 0;
  run_ranks(ranks, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    try {
      CheckpointWriter writer(directory, options, world, backend, log);
      writer.start(Steps(step), tensor_map(kTensors, Cut::Flat, ranks, rank, backend, step, true), "{}");
      writer.wait();
    } catch (const Error& error) {
      ++failed;
      code = static_cast<int>(error.code());
      outcome.messages[static_cast<size_t>(rank)] = error.what();
    }
  });
  EXPECT_TRUE(failed == 0 || failed == ranks) << "ranks disagree";
  for (const std::string& message : outcome.messages) EXPECT_EQ(message, outcome.messages[0]);
  outcome.failed = failed > 0;
  outcome.code = static_cast<ExitCode>(code.load());
  return outcome;
}

int64_t newest_whole(const fs::path& directory) {
  int64_t step = 0;
  run_ranks(1, [&](Communicator& world, Backend& backend, int) {
    Log log(LogLevel::Error);
    const auto found = find_newest(directory, world, log);
    ASSERT_TRUE(found);
    step = found->step().value;
    const TensorMap map = tensor_map(kTensors, Cut::Replicated, 1, 0, backend, std::nullopt, false);
    load_tensors(*found, map, world, backend);
    expect_values(kTensors, map, backend, static_cast<int>(step));
  });
  return step;
}

bool has_hidden(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().filename().string().starts_with(".")) return true;
  return false;
}

struct Case {
  int error;
  bool onwards, async;
  int ranks, max_files;
  bool replace;  // saves a step that is already there
  bool no_exchange = false;
};

class EveryCall : public testing::TestWithParam<Case> {};

TEST_P(EveryCall, MayFail) {
  const Case& parameters = GetParam();
  const SaveOptions options{.max_files = parameters.max_files, .async = parameters.async};
  const ScratchFolder scratch;
  faults.no_exchange = parameters.no_exchange;
  attempt(scratch.path(), 1, parameters.ranks, {});
  if (parameters.replace) attempt(scratch.path(), 2, parameters.ranks, {});
  int failures = 0;
  for (int64_t call = 0;; ++call) {
    ASSERT_LT(call, 500);
    faults.set(call, parameters.error, parameters.onwards);
    const Outcome outcome = attempt(scratch.path(), 2, parameters.ranks, options);
    const bool reached = faults.calls > call;
    faults.clear();
    if (outcome.failed) {
      ++failures;
      EXPECT_EQ(outcome.code, ExitCode::Data) << outcome.messages[0];
      EXPECT_NE(outcome.messages[0].find(std::generic_category().message(parameters.error)),
                std::string::npos)
          << outcome.messages[0];
      EXPECT_NE(outcome.messages[0].find(scratch.path().string()), std::string::npos) << outcome.messages[0];
    }
    // Only the exchange of two folders has another way.
    const Call first = faults.first;
    EXPECT_TRUE(outcome.failed || !reached || first == Call::Exchange) << "call " << call;
    // A replaced checkpoint is kept while it is not certain that the new one has its place for good.
    if (parameters.no_exchange && outcome.failed && (first == Call::Sync || first == Call::Open))
      clean_leftovers(scratch.path(), [](const std::string&) {});
    EXPECT_FALSE(has_hidden(scratch.path())) << "call " << call;
    // What cannot be told from success afterwards (the last sync) may have published step 2.
    const int64_t newest = newest_whole(scratch.path());
    EXPECT_TRUE(newest == 2 || (outcome.failed && !parameters.replace && newest == 1)) << "call " << call;
    if (!reached) break;  // the whole save ran without meeting the fault
    if (!parameters.replace) fs::remove_all(scratch.path() / "step_00000002");
  }
  EXPECT_GT(failures, 20);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, EveryCall,
    testing::Values(Case{ENOSPC, true, false, 1, 256, false}, Case{ENOSPC, true, true, 3, 256, false},
                    Case{EIO, false, true, 2, 1, false}, Case{EDQUOT, false, false, 2, 256, true},
                    Case{EROFS, true, false, 1, 256, true}, Case{EIO, false, false, 1, 256, true, true}));

TEST(Fault, BytesThatReadBackOtherwiseAreNotPublished) {
  const ScratchFolder scratch;
  attempt(scratch.path(), 1, 2, {});
  faults.flip_reads = true;
  const Outcome outcome = attempt(scratch.path(), 2, 2, {});
  const Outcome shared = attempt(scratch.path(), 2, 2, {.max_files = 1});
  faults.flip_reads = false;
  for (const Outcome& one : {outcome, shared}) {
    EXPECT_TRUE(one.failed);
    EXPECT_NE(one.messages[0].find("the storage is at fault"), std::string::npos) << one.messages[0];
    EXPECT_NE(one.messages[0].find("part_0000"), std::string::npos) << one.messages[0];
  }
  EXPECT_EQ(newest_whole(scratch.path()), 1);
}

TEST(Fault, CallsThatDoAPartAreGoneOnWith) {
  const ScratchFolder scratch;
  faults.in_small_steps = true;
  EXPECT_FALSE(attempt(scratch.path(), 1, 2, {}).failed);
  EXPECT_EQ(newest_whole(scratch.path()), 1);
  faults.in_small_steps = false;
  EXPECT_EQ(newest_whole(scratch.path()), 1);
}

TEST(Fault, TheMessageSaysWhatIsNeededAndFree) {
  const ScratchFolder scratch;
  faults.set(8, ENOSPC, true);
  const Outcome outcome = attempt(scratch.path(), 3, 1, {});
  faults.clear();
  ASSERT_TRUE(outcome.failed);
  for (const char* part : {"checkpoint of step 3", "part_00000.h5", "No space left on device",
                           "it needs about", "are free in", "older checkpoints are unharmed"})
    EXPECT_NE(outcome.messages[0].find(part), std::string::npos) << outcome.messages[0];
}

TEST(Fault, AReadThatFailsEndsLoadingOnAllRanks) {
  const ScratchFolder scratch;
  attempt(scratch.path(), 1, 2, {});
  for (int64_t call = 0; call < 6; ++call) {
    run_ranks(2, [&](Communicator& world, Backend&, int rank) {
      Log log(LogLevel::Error);
      if (rank == 0) faults.set(call, EIO, true);
      world.barrier();
      EXPECT_THROW(open_checkpoint(scratch.path() / "step_00000001", world, log), Error) << call;
      world.barrier();
      if (rank == 0) faults.clear();
    });
  }
  EXPECT_EQ(newest_whole(scratch.path()), 1);
}

TEST(Fault, WhereNothingCanBeMadeTheErrorIsClear) {
  const ScratchFolder scratch;
  { std::ofstream(scratch.path() / "file") << "x"; }
  const Outcome outcome = attempt(scratch.path() / "file" / "checkpoints", 1, 2, {});
  EXPECT_TRUE(outcome.failed);
  EXPECT_EQ(outcome.code, ExitCode::Data);
  EXPECT_NE(outcome.messages[0].find("cannot create"), std::string::npos) << outcome.messages[0];
}

}  // namespace
}  // namespace tessera
