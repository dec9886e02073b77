// SPDX-License-Identifier: Apache-2.0
// HDF5 files, made in memory. The library lays out groups, types and datasets and writes only its own
// metadata, into an image of a few pages; the tensors' bytes are written by us, straight to the places it
// gave them. So the HDF5 library never touches a disk, takes no file lock, cannot be caught by a full disk,
// and never reads a byte that came from a file. One mutex inside guards it: thread ranks share a process.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "framework/mesh/shard_spec.h"
#include "framework/tensor/dtype.h"

namespace tessera {

// The bytes that HDF5 wrote, by page; everything else reads as zero.
class Hdf5Image {
 public:
  int64_t size() const { return size_; }
  void read(int64_t position, std::span<std::byte> to) const;
  void write(int64_t position, std::span<const std::byte> from);
  void resize(int64_t size) { size_ = size; }

 private:
  static constexpr int64_t kPage = 4096;
  std::map<int64_t, std::array<std::byte, kPage>> pages_;
  int64_t size_ = 0;
};

using Hdf5Value = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Hdf5Attributes = std::vector<std::pair<std::string, Hdf5Value>>;

// A contiguous dataset. A scalar is stored as one element.
struct Hdf5Dataset {
  std::string path;  // "/parameters/final_norm.weight/0"
  DType dtype;
  Shape shape;
  Hdf5Attributes attributes = {};
};

// A dataset whose elements lie in datasets of other files, named relative to this one. What no source gives
// reads as NaN, and as the smallest value (255 for uint8) for integers.
struct Hdf5VirtualDataset {
  struct Source {
    std::string file, dataset;
    Box box;
  };
  std::string path;
  DType dtype;
  Shape shape;
  std::vector<Source> sources;
};

struct Hdf5DataImage {
  Hdf5Image image;
  std::vector<int64_t> positions;  // of each dataset's bytes in the file, row-major and little-endian
};

// The same input gives the same bytes. No dataset may be empty.
Hdf5DataImage make_data_image(std::span<const Hdf5Dataset> datasets, const Hdf5Attributes& attributes);

// `links` are soft: path, target.
Hdf5Image make_index_image(std::span<const Hdf5VirtualDataset> datasets,
                           std::span<const std::pair<std::string, std::string>> links,
                           const Hdf5Attributes& attributes);

}  // namespace tessera
