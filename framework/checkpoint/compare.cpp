// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "framework/base/check.h"
#include "framework/checkpoint/tensor_reader.h"

namespace tessera {
namespace {

template <class T>
void widen_as(std::span<const std::byte> bytes, std::span<double> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
      values[i] = static_cast<double>(static_cast<float>(value));
    else
      values[i] = static_cast<double>(value);
  }
}

void widen(DType dtype, std::span<const std::byte> bytes, std::span<double> values) {
  switch (dtype) {
    case DType::F64:
      return widen_as<double>(bytes, values);
    case DType::F32:
      return widen_as<float>(bytes, values);
    case DType::BF16:
      return widen_as<BFloat16>(bytes, values);
    case DType::F16:
      return widen_as<Float16>(bytes, values);
    case DType::I64:
      return widen_as<int64_t>(bytes, values);
    case DType::I32:
      return widen_as<int32_t>(bytes, values);
    case DType::U8:
      return widen_as<uint8_t>(bytes, values);
  }
}

// One side of the comparison: a block of elements at a time.
struct Side {
  TensorReader reader;
  std::vector<std::byte> bytes;
  std::vector<double> values;

  void read(const StoredTensor& tensor, const Box& whole, int64_t begin, int64_t end) {
    const auto count = static_cast<size_t>(end - begin);
    bytes.resize(count * static_cast<size_t>(size_of(tensor.dtype)));
    values.resize(count);
    reader.read(tensor, whole, begin, end, bytes);
  }
};

void add_value(double a, double b, TensorDifference& difference) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return;
  ++difference.different_values;
  double absolute = std::abs(a - b);
  double relative = absolute / std::max(std::abs(a), std::abs(b));
  if (!std::isfinite(a) || !std::isfinite(b)) absolute = relative = std::numeric_limits<double>::infinity();
  difference.max_absolute = std::max(difference.max_absolute, absolute);
  difference.max_relative = std::max(difference.max_relative, relative);
}

void compare_block(const Side& a, const Side& b, TensorDifference& difference) {
  const bool one_type = difference.dtype_a == difference.dtype_b;
  const auto element = static_cast<size_t>(size_of(difference.dtype_a));
  const int64_t values_before = difference.different_values;
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (one_type && std::memcmp(a.bytes.data() + i * element, b.bytes.data() + i * element, element) != 0)
      ++difference.different_bits;
    add_value(a.values[i], b.values[i], difference);
  }
  if (!one_type) difference.different_bits += difference.different_values - values_before;
}

void compare_tensor(Side& a, const StoredTensor& tensor_a, Side& b, const StoredTensor& tensor_b,
                    TensorDifference& difference) {
  constexpr int64_t kElements = int64_t{1} << 20;
  const Shape& shape = tensor_a.shape;
  const Box whole{std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0),
                  std::vector<int64_t>(shape.dims().begin(), shape.dims().end())};
  difference.elements = shape.elements();
  for (int64_t begin = 0; begin < difference.elements; begin += kElements) {
    const int64_t end = std::min(begin + kElements, difference.elements);
    a.read(tensor_a, whole, begin, end);
    b.read(tensor_b, whole, begin, end);
    if (tensor_a.dtype == tensor_b.dtype && a.bytes == b.bytes) continue;
    widen(tensor_a.dtype, a.bytes, a.values);
    widen(tensor_b.dtype, b.bytes, b.values);
    compare_block(a, b, difference);
  }
}

}  // namespace

bool Comparison::equal(bool bitwise) const {
  return only_in_a.empty() && only_in_b.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [&](const TensorDifference& tensor) {
           return bitwise ? tensor.same_bits() : tensor.same_values();
         });
}

Comparison compare_checkpoints(const std::filesystem::path& folder_a, const Manifest& a,
                               const std::filesystem::path& folder_b, const Manifest& b) {
  Comparison result;
  Side side_a{TensorReader(folder_a, a), {}, {}}, side_b{TensorReader(folder_b, b), {}, {}};
  for (const auto& [name, tensor] : b.tensors)
    if (!a.tensors.contains(name)) result.only_in_b.push_back(name);
  for (const auto& [name, tensor] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end()) {
      result.only_in_a.push_back(name);
      continue;
    }
    TensorDifference difference{.name = name,
                                .dtype_a = tensor.dtype,
                                .dtype_b = other->second.dtype,
                                .shape_a = tensor.shape,
                                .shape_b = other->second.shape};
    if (difference.comparable()) compare_tensor(side_a, tensor, side_b, other->second, difference);
    result.tensors.push_back(std::move(difference));
  }
  return result;
}

}  // namespace tessera
