// SPDX-License-Identifier: Apache-2.0
#include "framework/mesh/mesh.h"

#include <limits>
#include <numeric>
#include <utility>

#include "framework/base/check.h"

namespace tessera {

namespace {

// A product of sizes that each are at least 1; throws when it is no rank number any more.
int checked_product(std::initializer_list<int> sizes) {
  int64_t product = 1;
  for (const int size : sizes) {
    product *= size;
    CHECK_AS(ExitCode::Usage, product <= std::numeric_limits<int>::max(), "the mesh has more than {} ranks",
             std::numeric_limits<int>::max());
  }
  return static_cast<int>(product);
}

// The divisors of `whole` on both sides of `wanted`, for error texts: "2 or 4".
std::string nearest_divisors(int whole, int wanted) {
  int below = 1, above = whole;
  for (int divisor = 1; divisor <= whole; ++divisor) {
    if (whole % divisor != 0) continue;
    if (divisor <= wanted) below = divisor;
    if (divisor >= wanted) {
      above = divisor;
      break;
    }
  }
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

}  // namespace

Mesh::Mesh(std::vector<Dim> fastest_first) : dims_(std::move(fastest_first)) {
  int64_t product = 1;
  for (size_t i = 0; i < dims_.size(); ++i) {
    CHECK_AS(ExitCode::Usage, dims_[i].size >= 1, "mesh axis {} has size {}; sizes start at 1",
             name_of(dims_[i].axis), dims_[i].size);
    for (size_t j = 0; j < i; ++j)
      CHECK_AS(ExitCode::Usage, dims_[j].axis != dims_[i].axis, "mesh axis {} is named twice",
               name_of(dims_[i].axis));
    product *= dims_[i].size;
    CHECK_AS(ExitCode::Usage, product <= std::numeric_limits<int>::max(),
             "the mesh {} has more than {} ranks", to_string(), std::numeric_limits<int>::max());
  }
}

int Mesh::ranks() const {
  int product = 1;
  for (const Dim& dim : dims_) product *= dim.size;
  return product;
}

int Mesh::size(Axis axis) const {
  for (const Dim& dim : dims_)
    if (dim.axis == axis) return dim.size;
  return 1;
}

int Mesh::coordinate(int rank, Axis axis) const {
  CHECK(rank >= 0 && rank < ranks(), "rank {} is not on the mesh {}", rank, to_string());
  for (const Dim& dim : dims_) {
    if (dim.axis == axis) return rank % dim.size;
    rank /= dim.size;
  }
  return 0;
}

std::vector<int> Mesh::peers(int rank, AxisSet axes) const {
  CHECK(rank >= 0 && rank < ranks(), "rank {} is not on the mesh {}", rank, to_string());
  // `first` is the peer with coordinate 0 along every named axis. Slower axes are added last, so the list
  // grows in rank order.
  int first = rank, stride = 1;
  std::vector<int> offsets{0};
  for (const Dim& dim : dims_) {
    if (axes.contains(dim.axis)) {
      first -= rank / stride % dim.size * stride;
      const size_t faster = offsets.size();
      for (int step = 1; step < dim.size; ++step)
        for (size_t i = 0; i < faster; ++i) offsets.push_back(offsets[i] + step * stride);
    }
    stride *= dim.size;
  }
  for (int& offset : offsets) offset += first;
  return offsets;
}

int Mesh::place(int rank, AxisSet axes) const {
  CHECK(rank >= 0 && rank < ranks(), "rank {} is not on the mesh {}", rank, to_string());
  int place = 0, stride = 1;
  for (const Dim& dim : dims_) {
    const int coordinate = rank % dim.size;
    rank /= dim.size;
    if (!axes.contains(dim.axis)) continue;
    place += coordinate * stride;
    stride *= dim.size;
  }
  return place;
}

std::string Mesh::to_string() const {
  std::string text;
  for (const Dim& dim : dims_)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name_of(dim.axis), dim.size);
  return text;
}

Layout make_layout(const MeshSizes& sizes) {
  const std::pair<const char*, int> named[] = {{"tp", sizes.tp}, {"sp", sizes.sp}, {"dp", sizes.dp},
                                               {"pp", sizes.pp}, {"ep", sizes.ep}, {"etp", sizes.etp}};
  for (const auto& [name, size] : named)
    CHECK_AS(ExitCode::Usage, size >= 1, "parallel.{} = {}: sizes start at 1", name, size);
  const int stage = checked_product({sizes.tp, sizes.sp, sizes.dp});
  checked_product({stage, sizes.pp});
  const int cut = checked_product({sizes.etp, sizes.ep});
  CHECK_AS(ExitCode::Usage, stage % cut == 0,
           "parallel.etp * parallel.ep = {} * {} = {} does not divide tp * sp * dp = {} * {} * {} = {}; a "
           "product of {} does",
           sizes.etp, sizes.ep, cut, sizes.tp, sizes.sp, sizes.dp, stage, nearest_divisors(stage, cut));
  return {.dense = Mesh({{Axis::Tensor, sizes.tp},
                         {Axis::Sequence, sizes.sp},
                         {Axis::Data, sizes.dp},
                         {Axis::Pipeline, sizes.pp}}),
          .expert = Mesh({{Axis::ExpertTensor, sizes.etp},
                          {Axis::Expert, sizes.ep},
                          {Axis::ExpertData, stage / cut},
                          {Axis::Pipeline, sizes.pp}})};
}

}  // namespace tessera
