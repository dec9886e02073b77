// SPDX-License-Identifier: Apache-2.0
#include "framework/tensor/shape.h"

#include "framework/base/check.h"

namespace tessera {
namespace {
int64_t product(std::span<const int64_t> dims) {
  int64_t result = 1;
  for (const int64_t extent : dims)
    CHECK(!__builtin_mul_overflow(result, extent, &result), "tensor shape has more than 2^63 elements");
  return result;
}
}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  CHECK(dims.size() <= kMaxRank, "a tensor has at most {} dimensions, got {}", kMaxRank, dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    CHECK(dims[i] >= 0, "dimension {} of a tensor is negative: {}", i, dims[i]);
    dims_[i] = dims[i];
  }
}

int64_t Shape::elements() const {
  return product(dims());
}
int64_t Shape::rows() const {
  return rank_ == 0 ? 1 : dims_[0];
}
int64_t Shape::row_elements() const {
  return rank_ == 0 ? 1 : product(dims().subspan(1));
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string((*this)[i]);
  return text + "]";
}

}  // namespace tessera
