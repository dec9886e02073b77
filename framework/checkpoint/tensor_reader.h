// SPDX-License-Identifier: Apache-2.0
// Reads boxes of logical tensors out of the parts of a checkpoint, whatever boxes they were written in.
#pragma once
#include <cstddef>
#include <deque>
#include <filesystem>
#include <span>
#include <vector>

#include "framework/checkpoint/file.h"
#include "framework/checkpoint/manifest.h"

namespace tessera {

class TensorReader {
 public:
  // The manifest must outlive the reader. Its files must have been checked. `parts_here` tells which parts
  // can be read; empty: all.
  TensorReader(std::filesystem::path folder, const Manifest& manifest, std::vector<bool> parts_here = {});

  // Elements [begin, end) of the box, in row-major order of the box, into `to`. What lies in parts that are
  // not here is left as it was.
  void read(const StoredTensor& tensor, const Box& box, int64_t begin, int64_t end, std::span<std::byte> to);

  static constexpr int64_t kBlock = int64_t{8} << 20;  // bytes worth reading at once

 private:
  void copy_common(const StoredPiece& piece, int64_t element, const Box& box, std::span<std::byte> to);
  void read_run(const StoredPiece& piece, int64_t piece_bytes, int64_t begin, std::span<std::byte> to);
  const StoredInput& file_of(int64_t part);
  bool is_here(int64_t part) const { return parts_here_.empty() || parts_here_[static_cast<size_t>(part)]; }

  static constexpr size_t kOpenFiles = 8;
  static constexpr int64_t kWindow = int64_t{1} << 20;

  std::filesystem::path folder_;
  const Manifest& manifest_;
  std::vector<bool> parts_here_;
  std::deque<std::pair<int64_t, StoredInput>> open_;  // by part, the last used in front
  // Bytes of the file around the last short run: the next one is often among them.
  std::vector<std::byte> window_;
  int64_t window_part_ = -1, window_begin_ = 0, window_size_ = 0;
};

}  // namespace tessera
