// SPDX-License-Identifier: Apache-2.0
#include "tests/support/checkpoint_support.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "framework/ops/memory.h"

namespace tessera::test {

std::vector<TestTensor> test_tensors(bool with_large) {
  std::vector<TestTensor> tensors{
      {"adamw/m/blocks.0.mlp.up.weight", DType::F32, {7, 33}},
      {"adamw/v/blocks.0.mlp.up.weight", DType::F32, {7, 33}},
      {"counters/seen", DType::I64, {3}},
      {"counters/small", DType::I32, {1, 5}},
      {"flags/bytes", DType::U8, {1003}},
      {"flags/none", DType::F32, {0, 5}},
      {"masters/blocks.0.mlp.up.weight", DType::F32, {7, 33}},
      {"parameters/blocks.0.mlp.up.weight", DType::BF16, {7, 33}},
      {"parameters/blocks.1.moe.experts.up.weight", DType::F16, {3, 5, 7}},
      {"parameters/embedding.token.weight", DType::F32, {103, 11}},
      {"parameters/final_norm.weight", DType::F64, {1}},
      {"parameters/scale", DType::F32, {}},
      {"parameters/wide", DType::F32, {2, 3, 5, 7}},
  };
  if (with_large) tensors.push_back({"parameters/zz_large", DType::F32, {1003, 2311}});
  return tensors;
}

std::vector<std::byte> expected_bytes(const TestTensor& tensor, int64_t begin, int64_t end, int version) {
  const auto element = static_cast<size_t>(size_of(tensor.dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(end - begin) * element);
  // checkpoint_h5py.py has the same rule.
  int64_t salt = 0;
  for (const char c : tensor.name) salt += c;
  for (int64_t i = begin; i < end; ++i) {
    // Small integers are exact in every float type of 32 bits and more; 16-bit types get the bits themselves.
    const int64_t value = i + salt % 100 + 100000 * version;
    std::byte* to = bytes.data() + static_cast<size_t>(i - begin) * element;
    const auto store = [&](auto v) { std::memcpy(to, &v, sizeof v); };
    switch (tensor.dtype) {
      case DType::F64:
        store(static_cast<double>(value));
        break;
      case DType::F32:
        store(static_cast<float>(value));
        break;
      case DType::I64:
        store(value);
        break;
      case DType::I32:
        store(static_cast<int32_t>(value));
        break;
      case DType::BF16:
      case DType::F16:
        store(static_cast<uint16_t>(value % 0x7000));
        break;
      case DType::U8:
        store(static_cast<uint8_t>(value));
        break;
    }
  }
  return bytes;
}

namespace {

int64_t flat_index(const Shape& shape, const std::vector<int64_t>& at) {
  int64_t index = 0;
  for (int d = 0; d < shape.rank(); ++d) index = index * shape[d] + at[static_cast<size_t>(d)];
  return index;
}

// The expected bytes of a box, element by element: slow and plain on purpose.
std::vector<std::byte> bytes_of_box(const TestTensor& tensor, const Box& box, int version) {
  const std::vector<std::byte> whole = expected_bytes(tensor, 0, tensor.shape.elements(), version);
  const auto element = static_cast<size_t>(size_of(tensor.dtype));
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(box.elements()) * element);
  std::vector<int64_t> at = box.offset;
  for (int64_t n = 0; n < box.elements(); ++n) {
    const size_t from = static_cast<size_t>(flat_index(tensor.shape, at)) * element;
    bytes.insert(bytes.end(), whole.begin() + static_cast<std::ptrdiff_t>(from),
                 whole.begin() + static_cast<std::ptrdiff_t>(from + element));
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < box.offset[d] + box.extent[d]) break;
      at[d] = box.offset[d];
    }
  }
  return bytes;
}

Tensor filled(Backend& backend, const TestTensor& tensor, const Box& box, std::optional<int> version) {
  Tensor data = empty(backend, tensor.dtype, Shape(box.extent));
  std::vector<std::byte> bytes(static_cast<size_t>(data.bytes()), std::byte{0xA5});
  if (version) bytes = bytes_of_box(tensor, box, *version);
  backend.upload(bytes, data);
  return data;
}

Box whole_box(const Shape& shape) {
  return {std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0),
          std::vector<int64_t>(shape.dims().begin(), shape.dims().end())};
}

}  // namespace

TensorMap tensor_map(const std::vector<TestTensor>& tensors, Cut cut, int ranks, int rank, Backend& backend,
                     std::optional<int> version, bool for_saving) {
  TensorMap map;
  for (const TestTensor& tensor : tensors) {
    GlobalTensor& global = map[tensor.name];
    global.dtype = tensor.dtype;
    global.shape = tensor.shape;
    Box box = whole_box(tensor.shape);
    if (cut == Cut::Flat) {
      const Range range = part_of(tensor.shape.elements(), ranks, rank);
      for (const Box& part : boxes_of_flat_range(tensor.shape, range.begin, range.end))
        global.pieces.push_back({part, filled(backend, tensor, part, version), true});
      continue;
    }
    const bool by_rows = cut == Cut::Rows;
    if (cut != Cut::Replicated && tensor.shape.rank() > 0) {
      const int dim = by_rows ? 0 : tensor.shape.rank() - 1;
      const Range range = part_of(tensor.shape[dim], ranks, rank);
      box.offset[static_cast<size_t>(dim)] = range.begin;
      box.extent[static_cast<size_t>(dim)] = range.size();
      global.pieces.push_back({box, filled(backend, tensor, box, version), true});
      continue;
    }
    const Tensor data = filled(backend, tensor, box, version);
    if (for_saving)
      global.pieces = pieces_of_replica(tensor.name, box, data, ranks, rank);
    else
      global.pieces.push_back({box, data});
  }
  return map;
}

void expect_values(const std::vector<TestTensor>& tensors, const TensorMap& map, Backend& backend,
                   int version) {
  for (const TestTensor& tensor : tensors) {
    for (const Piece& piece : map.at(tensor.name).pieces) {
      std::vector<std::byte> bytes(static_cast<size_t>(piece.data.bytes()));
      backend.download(piece.data, bytes);
      EXPECT_TRUE(bytes == bytes_of_box(tensor, piece.box, version))
          << tensor.name << " piece of shape " << Shape(piece.box.extent).to_string();
    }
  }
}

}  // namespace tessera::test
