// SPDX-License-Identifier: Apache-2.0
// Saves a checkpoint so that at every instant, under kill and full disk, a complete and verified one is on
// disk: write to a hidden folder, sync, read back, agree, rename. A failure on any rank is the same exception
// on all of them, the partial folder is removed, and checkpoints before it are untouched.
#pragma once
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "framework/base/log.h"
#include "framework/base/quantity.h"
#include "framework/checkpoint/sites.h"
#include "framework/checkpoint/space.h"
#include "framework/checkpoint/tensor_map.h"
#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

struct SaveOptions {
  int max_files = 256;  // parts; more ranks than this share parts and take turns
  bool verify = true;   // read everything back once before it is published
  // false: ranks may see different directories under the same path (node-local disks). Each then holds the
  // parts of its own ranks, and loading sends them around.
  bool shared_fs = true;
  // Copy the tensors to host memory, go on training, and write meanwhile on a thread. When any rank's copy
  // would be larger than the limit, all ranks write before start() returns.
  bool async = true;
  int64_t snapshot_limit_bytes = std::numeric_limits<int64_t>::max();
  int64_t keep_last = 0;   // 0: all
  int64_t keep_every = 0;  // 0: none for ever
};

struct SaveResult {
  Steps step;
  std::filesystem::path path;
  int64_t bytes = 0;   // of all files but the manifest
  double seconds = 0;  // from start() to the rename
  bool async = false;  // whether training went on meanwhile
};

// All members are collective: every rank calls them in the same order. Communication happens only inside
// these calls, on the caller's thread; the writing thread makes none.
class CheckpointWriter {
 public:
  // Creates `directory` and removes what killed runs left in it. Not for a run that must not write.
  CheckpointWriter(std::filesystem::path directory, const SaveOptions& options, Communicator& world,
                   Backend& backend, Log& log);
  // Stops a save that was not waited for; its hidden folder is removed by the next start.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the save before, if one is outstanding, and returns its result unless poll() or wait() has
  // given it already; then takes what it needs and returns. Afterwards the tensors may change. `state` is a
  // JSON object, rank 0's is stored. Where nothing is left to do meanwhile (`last`) no copy is made: it
  // returns when the checkpoint is published.
  std::optional<SaveResult> start(Steps step, const TensorMap& tensors, std::string_view state,
                                  bool last = false);
  // To be called at step boundaries: moves an outstanding save on when all ranks are ready, never blocks for
  // the disk. The result once, when it is published. Makes no communication when nothing is outstanding.
  std::optional<SaveResult> poll();
  // Blocks until the outstanding save is published. The result unless poll() has given it already.
  std::optional<SaveResult> wait();

  // Takes checkpoints of later steps out of the way (folders.h) on every disk that the ranks write to.
  // Returns the new paths on the ranks that did so.
  std::vector<std::filesystem::path> set_aside_later(Steps step);

  int sites() const { return sites_.count(); }  // disks that the ranks write to
  // Host memory of the largest snapshot so far, on this rank.
  int64_t peak_snapshot_bytes() const { return peak_snapshot_bytes_; }

 private:
  struct Save;
  void make_plan(const TensorMap& tensors, std::string_view state);
  void make_folder();
  void choose_async(const TensorMap& tensors, bool last);
  void take_pieces(const TensorMap& tensors);

  // Each starts the next piece of work on this rank.
  void write_turn();
  void seal();
  void publish();

  void settle();  // the running work is done here: agree on how it ended, then go on
  void advance();
  void gather_pieces();
  void gather_parts();
  // Runs one step of a save; a failure becomes the agreed one, after the partial folder is gone.
  void guarded(const std::function<void()>& work);
  std::exception_ptr explained(std::exception_ptr failure) const;

  std::filesystem::path directory_;
  SaveOptions options_;
  Communicator& world_;
  Backend& backend_;
  Log& log_;
  Sites sites_;
  bool leads_ = false;  // whether this rank creates, publishes and removes where it writes
  std::unique_ptr<Save> save_;
  std::optional<SaveResult> finished_;
  int64_t peak_snapshot_bytes_ = 0;
};

// One save, finished when it returns.
SaveResult save_checkpoint(const std::filesystem::path& directory, Steps step, const TensorMap& tensors,
                           std::string_view state, Communicator& world, Backend& backend, Log& log,
                           SaveOptions options = {});

}  // namespace tessera
