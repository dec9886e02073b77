// SPDX-License-Identifier: Apache-2.0
// Writes this rank's bytes into its part file: from front to back, hashed on the way. Ranks that share a part
// take turns; the first writes everything that is not a later rank's tensor data.
#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "framework/checkpoint/hash.h"
#include "framework/checkpoint/hdf5_image.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/save_plan.h"

namespace tessera {

// Gives the bytes [begin, end) of a piece of this rank, by its index. The span is valid until the next call.
using PieceBytes = std::function<std::span<const std::byte>(size_t index, int64_t begin, int64_t end)>;

class PartWriter {
 public:
  static constexpr int64_t kBlock = int64_t{8} << 20;  // bytes handled at once

  // `stop` ends the writing with an exception when it becomes true.
  PartWriter(std::filesystem::path file, const PlannedPart& part, int rank, const std::atomic<bool>& stop);

  bool has_turn(int turn) const;
  bool first() const { return part_.ranks.front() == rank_; }

  // This rank's turn.
  void write(const PieceBytes& bytes);

  // After all turns, by the first rank: the file's name, size and checksum. Reads the file back when `verify`
  // or when several ranks wrote it, and compares with what was hashed on the way; `checksums` has one for
  // each piece of the part.
  StoredFile seal(bool verify, std::span<const Digest> checksums);

  // Of this rank's pieces, in the order of its declaration.
  const std::vector<Digest>& checksums() const { return checksums_; }
  const std::vector<int64_t>& positions() const { return positions_; }

 private:
  struct Extent {
    size_t piece;  // in part_.pieces
    int64_t position;
  };
  void write_image(class StoredOutput& file, int64_t begin, int64_t end);
  void write_piece(class StoredOutput& file, const Extent& extent, const PieceBytes& bytes);
  void check_stop() const;

  std::filesystem::path path_;
  const PlannedPart& part_;
  int rank_;
  const std::atomic<bool>& stop_;
  Hdf5DataImage laid_out_;
  std::vector<Extent> extents_;  // by position
  Hasher whole_;                 // complete only where one rank wrote the part
  std::vector<Digest> checksums_;
  std::vector<int64_t> positions_;
};

// Reads a file once from front to back and returns its size and checksum.
StoredFile measured_file(const std::filesystem::path& path, const std::atomic<bool>* stop = nullptr);

}  // namespace tessera
