// SPDX-License-Identifier: Apache-2.0
// The extents of a tensor, at most four, row-major. No extent is negative.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tessera {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;  // a scalar: rank 0, one element
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int dim) const { return dims_[static_cast<size_t>(dim)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  int64_t elements() const;       // throws when the product does not fit 63 bits
  int64_t rows() const;           // the outermost extent; 1 for a scalar
  int64_t row_elements() const;   // elements of one outermost row
  std::string to_string() const;  // "[2, 3]"
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace tessera
