// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <numeric>
#include <vector>

#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/pieces.h"

namespace tessera::cpu {
namespace {

// Read as an integer, a number without its sign grows with its size, and its first bits are its octave and
// the quarter of it.
template <class R>
int32_t bucket_of(R value) {
  using Bits = std::conditional_t<std::is_same_v<R, double>, uint64_t, uint32_t>;
  using Limits = std::numeric_limits<R>;
  constexpr int kBelowQuarter = Limits::digits - 1 - 2;
  constexpr int32_t kFirst = 4 * (HistogramBuckets::kFirst + Limits::max_exponent - 1);
  constexpr Bits kSign = Bits{1} << (8 * sizeof(R) - 1);
  const Bits bits = std::bit_cast<Bits>(value);
  const int32_t quarter = static_cast<int32_t>((bits & ~kSign) >> kBelowQuarter) - kFirst;
  const int32_t place = std::clamp(quarter + 1, 0, HistogramBuckets::kEachSide);
  return HistogramBuckets::kEachSide + ((bits & kSign) != 0 ? -place : place);
}

// In lanes, so that additions need not wait for each other.
template <class R>
double sum_in_lanes(const R* values, int64_t count) {
  std::array<double, 8> lanes{};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (size_t lane = 0; lane < 8; ++lane)
      lanes[lane] += static_cast<double>(values[i + static_cast<int64_t>(lane)]);
  for (; i < count; ++i) lanes[0] += static_cast<double>(values[i]);
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

}  // namespace

void CpuBackend::histogram(const Tensor& x, const Tensor& counts, const Tensor& sum) {
  const int64_t pieces = (x.elements() + kPiece - 1) / kPiece;
  std::vector<double> sums(static_cast<size_t>(pieces));
  std::mutex adding;
  visit_float(x.dtype(), [&]<class T>() {
    using R = Real<T>;
    parallel_for(threads(), pieces, 32, [&](int64_t first, int64_t last) {
      std::array<int64_t, HistogramBuckets::kCount> found{};
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t begin = piece * kPiece, count = std::min(kPiece, x.elements() - begin);
        std::array<R, kPiece> buffer;
        const R* values = read<T>(x.data<T>() + begin, buffer.data(), count);
        for (int64_t i = 0; i < count; ++i) ++found[static_cast<size_t>(bucket_of(values[i]))];
        sums[static_cast<size_t>(piece)] = sum_in_lanes(values, count);
      }
      const std::lock_guard lock(adding);
      for (size_t bucket = 0; bucket < found.size(); ++bucket)
        counts.data<int64_t>()[bucket] += found[bucket];
    });
  });
  *sum.data<double>() += std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace tessera::cpu
