// SPDX-License-Identifier: Apache-2.0
#include "framework/train/compare_tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "framework/base/check.h"

namespace tessera {
namespace {

// Above this multiple of what rounding explains, nothing looks like rounding.
constexpr double kRoundingReach = 100;
// Rounding is spread: no part has more than this many times its share of the squared difference.
constexpr double kUneven = 8;
// A pattern explains a difference when it leaves less than this part of it.
constexpr double kExplained = 0.02;

// A tensor as [before, count, after] around one dim: part [begin, end) of the dim in all the others.
struct View {
  int64_t before = 1, count = 1, after = 1;
};
View view_along(const Shape& shape, int dim) {
  View view{.before = 1, .count = shape[dim], .after = 1};
  for (int i = 0; i < shape.rank(); ++i)
    if (i != dim) (i < dim ? view.before : view.after) *= shape[i];
  return view;
}

// Sums over a part of a tensor, enough to judge factors.
struct Sums {
  double aa = 0, bb = 0, ab = 0, dd = 0;
  void add(double a, double b) {
    aa += a * a;
    bb += b * b;
    ab += a * b;
    dd += (a - b) * (a - b);
  }
  double distance() const { return std::sqrt(dd); }
  double factor() const { return bb > 0 ? ab / bb : 0; }
  double distance_to_factor() const { return std::sqrt(std::max(0.0, aa - factor() * ab)); }
};

class Suspect {
 public:
  explicit Suspect(const SuspectTensor& tensor) : t_(tensor) {
    for (size_t i = 0; i < t_.value.size(); ++i) whole_.add(t_.value[i], t_.reference[i]);
  }

  Suspicion judge() {
    if (not_finite() || in_one_part() || permuted() || in_rows() || whole_factor()) return result_;
    const double size = whole_.distance() / t_.bound;
    result_.rounding = size <= kRoundingReach && spread();
    result_.text =
        result_.rounding
            ? fmt::format("{:.1f} times what rounding explains, spread over the whole tensor", size)
            : "no simple pattern";
    return result_;
  }

 private:
  struct Part {
    Range range;
    std::string name;
    std::optional<int> rank;
    std::optional<int64_t> head;
  };

  bool not_finite();
  bool in_one_part();
  bool permuted();
  bool in_rows();
  bool whole_factor();
  bool spread() const;

  std::vector<Part> boxes_along(int dim) const;
  std::vector<Part> heads_along(const ShardSpec::Split& split) const;
  bool only_bad(const std::vector<Part>& parts, int dim);
  bool permuted_parts(const std::vector<Part>& parts, int dim);
  Sums sums(int dim, Range range) const { return sums(dim, range, range.begin); }
  // a in `range` against b from `other` on.
  Sums sums(int dim, Range range, int64_t other) const;
  std::string what_is_there(const Sums& part);
  const char* along(int dim) const { return dim + 1 == t_.spec.shape.rank() && dim > 0 ? "columns" : "rows"; }

  const SuspectTensor& t_;
  Sums whole_;
  Suspicion result_;
};

Sums Suspect::sums(int dim, Range range, int64_t other) const {
  const View view = view_along(t_.spec.shape, dim);
  Sums result;
  for (int64_t i = 0; i < view.before; ++i)
    for (int64_t j = 0; j < range.size(); ++j)
      for (int64_t k = 0; k < view.after; ++k) {
        const auto at = [&](int64_t row) {
          return static_cast<size_t>((i * view.count + row) * view.after + k);
        };
        result.add(t_.value[at(range.begin + j)], t_.reference[at(other + j)]);
      }
  return result;
}

bool Suspect::not_finite() {
  const Difference d = difference(t_.value, t_.reference);
  if (d.non_finite == 0) return false;
  size_t first = 0;
  while (std::isfinite(t_.value[first])) ++first;
  result_.text = fmt::format("{} of {} elements are not finite, the first is number {}", d.non_finite,
                             t_.value.size(), first);
  return true;
}

// The distinct ranges of the ranks' boxes, each named after the first rank that has it.
std::vector<Suspect::Part> Suspect::boxes_along(int dim) const {
  std::vector<Part> parts;
  for (size_t rank = 0; rank < t_.boxes.size(); ++rank) {
    if (t_.boxes[rank].extent.empty()) continue;
    const int64_t begin = t_.boxes[rank].offset[static_cast<size_t>(dim)];
    const Range range{begin, begin + t_.boxes[rank].extent[static_cast<size_t>(dim)]};
    const auto same = [&](const Part& part) { return part.range == range; };
    if (range.size() == 0 || std::any_of(parts.begin(), parts.end(), same)) continue;
    parts.push_back({.range = range,
                     .name = fmt::format("the box of rank {}", rank),
                     .rank = static_cast<int>(rank),
                     .head = {}});
  }
  return parts;
}

std::vector<Suspect::Part> Suspect::heads_along(const ShardSpec::Split& split) const {
  std::vector<Part> parts;
  if (split.multiple == 1) return parts;
  for (int64_t head = 0; head * split.multiple < t_.spec.shape[split.dim]; ++head)
    parts.push_back(
        {.range = {head * split.multiple, std::min(t_.spec.shape[split.dim], (head + 1) * split.multiple)},
         .name = fmt::format("head {}", head),
         .rank = {},
         .head = head});
  return parts;
}

std::string Suspect::what_is_there(const Sums& part) {
  if (part.aa == 0 && part.bb > 0) {
    result_.factor = 0;
    return "all zero there: missing";
  }
  if (part.bb > 0 && part.distance_to_factor() <= kExplained * part.distance()) {
    result_.factor = part.factor();
    return fmt::format("{:.3f} times the reference there", part.factor());
  }
  return "other values there";
}

// One part, or two of four and more, hold all of the difference.
bool Suspect::only_bad(const std::vector<Part>& parts, int dim) {
  if (parts.size() < 2) return false;
  std::vector<size_t> bad;
  for (size_t i = 0; i < parts.size(); ++i)
    if (sums(dim, parts[i].range).distance() > t_.bound) bad.push_back(i);
  if (bad.size() != 1) return false;
  const Part& part = parts[bad[0]];
  result_.rank = part.rank;
  result_.head = part.head;
  result_.dim = dim;
  result_.rows = part.range;
  result_.text = fmt::format("only {}, {} {} to {} of {}: {}", part.name, along(dim), part.range.begin,
                             part.range.end - 1, t_.spec.shape[dim], what_is_there(sums(dim, part.range)));
  return true;
}

// The finer cut first: a head names the place better than the box that it lies in.
bool Suspect::in_one_part() {
  for (const ShardSpec::Split& split : t_.spec.shard.splits)
    if (only_bad(heads_along(split), split.dim) || only_bad(boxes_along(split.dim), split.dim)) return true;
  return false;
}

bool Suspect::permuted_parts(const std::vector<Part>& parts, int dim) {
  std::string moves;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double own = sums(dim, parts[i].range).distance();
    if (own <= t_.bound) continue;
    bool found = false;
    for (size_t j = 0; j < parts.size() && !found; ++j) {
      if (j == i || parts[j].range.size() != parts[i].range.size()) continue;
      if (sums(dim, parts[i].range, parts[j].range.begin).distance() > std::max(t_.bound, kExplained * own))
        continue;
      found = true;
      moves += fmt::format("{}{} holds what belongs to {}", moves.empty() ? "" : ", ", parts[i].name,
                           parts[j].name);
    }
    if (!found) return false;
  }
  if (moves.empty()) return false;
  result_.dim = dim;
  result_.text = "swapped: " + moves;
  return true;
}

bool Suspect::permuted() {
  for (const ShardSpec::Split& split : t_.spec.shard.splits)
    if (permuted_parts(boxes_along(split.dim), split.dim) || permuted_parts(heads_along(split), split.dim))
      return true;
  return false;
}

// Some rows, less than half of them, hold all of the difference.
bool Suspect::in_rows() {
  const int64_t rows = t_.spec.shape.rows();
  const double each = t_.bound / std::sqrt(static_cast<double>(rows));
  Range bad{rows, 0};
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (sums(0, {row, row + 1}).distance() <= each) continue;
    bad = {std::min(bad.begin, row), row + 1};
    ++count;
  }
  if (count == 0 || 2 * bad.size() > rows) return false;
  result_.rows = bad;
  result_.text = fmt::format("only {} row{} between {} and {} of {}: {}", count, count == 1 ? "" : "s",
                             bad.begin, bad.end - 1, rows, what_is_there(sums(0, bad)));
  return true;
}

bool Suspect::whole_factor() {
  if (whole_.bb == 0) return false;
  if (whole_.aa == 0) {
    result_.factor = 0;
    result_.text = "all zero: missing";
    return true;
  }
  if (whole_.distance_to_factor() > std::max(t_.bound, kExplained * whole_.distance()) ||
      whole_.distance() <= 2 * t_.bound)
    return false;
  result_.factor = whole_.factor();
  result_.text = fmt::format("{:.3f} times the reference", whole_.factor());
  return true;
}

bool Suspect::spread() const {
  const View view = view_along(t_.spec.shape, 0);
  if (view.count < 2 * static_cast<int64_t>(kUneven)) return true;
  for (int64_t row = 0; row < view.count; ++row)
    if (sums(0, {row, row + 1}).dd > kUneven * whole_.dd / static_cast<double>(view.count)) return false;
  return true;
}

}  // namespace

Difference difference(std::span<const float> a, std::span<const float> b) {
  CHECK(a.size() == b.size(), "{} elements beside {}", a.size(), b.size());
  Difference result;
  double squares = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) result.bitwise = false;
    if (!std::isfinite(a[i]) && std::isfinite(b[i])) ++result.non_finite;
    squares += (x - y) * (x - y);
    size += y * y;
    result.inner += x * y;
  }
  result.distance = std::sqrt(squares);
  result.size = std::sqrt(size);
  return result;
}

double comparison_scale(double size, double global_size) {
  return std::max(size, 1e-3 * global_size);
}

Suspicion suspect(const SuspectTensor& tensor) {
  return Suspect(tensor).judge();
}

}  // namespace tessera
