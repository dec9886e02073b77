// SPDX-License-Identifier: Apache-2.0
// The table of contents of a checkpoint folder: every file with its size and checksum, every tensor with its
// pieces and where their bytes lie. It carries the checksum of its own text, is checked field by field when
// it is read, and proves that each element is stored exactly once.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/quantity.h"
#include "framework/checkpoint/hash.h"
#include "framework/mesh/shard_spec.h"
#include "framework/tensor/dtype.h"

namespace tessera {

struct StoredFile {
  std::string name;
  int64_t bytes = 0;
  Digest checksum;
};

struct StoredPiece {
  int64_t part = 0;      // index in Manifest::parts
  std::string dataset;   // its path in that HDF5 file
  int64_t position = 0;  // of its bytes in the file: row-major, little-endian
  Box box;               // of the logical tensor
  Digest checksum;       // of those bytes
};

struct StoredTensor {
  DType dtype = DType::F32;
  Shape shape;
  std::vector<StoredPiece> pieces;
  int64_t bytes() const { return shape.elements() * size_of(dtype); }
};

struct Manifest {
  Steps step;
  std::string state;  // the trainer's JSON object
  StoredFile index;
  std::vector<StoredFile> parts;
  std::map<std::string, StoredTensor> tensors;

  int64_t bytes() const;  // of all files but the manifest itself
};

// Groups of logical tensors: "parameters/blocks.0.mlp.up.weight" is the value, "masters/..." its fp32
// original.
inline constexpr std::string_view kParameters = "parameters/";
inline constexpr std::string_view kMasters = "masters/";
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kIndexName = "index.h5";
inline constexpr int64_t kLargestManifest = int64_t{256} << 20;

std::string part_name(int64_t part);  // "part_00000.h5"

// Throws ExitCode::Communication when the tensors are not covered exactly once or the state is not a JSON
// object: that is a fault of the caller.
std::string to_text(const Manifest& manifest);

// Throws ExitCode::Data on anything that to_text would not have written; the message does not name the
// file. Safe on hostile input.
Manifest manifest_from_text(std::string_view text);

// Top-level members of the trainer's state that are plain numbers or texts, others as JSON text; for the
// attributes of index.h5. Throws ExitCode::Communication when the text is not a JSON object.
struct StateValue {
  enum class Kind : uint8_t { Integer, Real, Text } kind = Kind::Text;
  int64_t integer = 0;
  double real = 0;
  std::string text;
};
std::vector<std::pair<std::string, StateValue>> values_of_state(std::string_view state);

}  // namespace tessera
