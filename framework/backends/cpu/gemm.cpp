// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/gemm.h"

#include <algorithm>
#include <cassert>

#include "framework/backends/cpu/gemm_block.h"
#include "framework/backends/cpu/parallel.h"
#include "framework/base/check.h"

namespace tessera::cpu {
namespace {
using detail::GemmRegion;
using detail::GemmWorkspace;
using detail::kColumnGrain;
using detail::kDepth;
using detail::kPackRows;
using detail::kRowGrain;
using detail::round_up;

int64_t ceil_divide(int64_t amount, int64_t piece) {
  return (amount + piece - 1) / piece;
}

// Threads as rows x columns of regions of c. A sum over k is never split.
struct Grid {
  int64_t rows = 1, columns = 1;
  int64_t region_rows = 0, region_columns = 0;  // upper bounds
};

// Time of the largest region, in multiply-adds per unit of depth: products, and packing, of which one element
// costs about as much as 16 of them.
double cost(const GemmArgs& args, int64_t rows, int64_t columns) {
  const double passes = static_cast<double>(ceil_divide(columns, detail::block_columns(args.type, rows)));
  const double height = static_cast<double>(rows), width = static_cast<double>(columns);
  return height * width + 16 * (width + height * passes);
}

// Threads that have enough to do: about ten microseconds each.
int64_t useful_threads(const GemmArgs& args) {
  constexpr int64_t enough = int64_t{1} << 17;
  const double products = static_cast<double>(args.m) * static_cast<double>(args.n) *
                          static_cast<double>(std::max<int64_t>(args.k, 1));
  if (products >= static_cast<double>(enough) * args.threads) return std::max(args.threads, 1);
  return static_cast<int64_t>(products) / enough + 1;
}

Grid choose_grid(const GemmArgs& args) {
  const int64_t threads = useful_threads(args);
  const int64_t row_units = ceil_divide(args.m, kRowGrain);
  const int64_t column_units = ceil_divide(args.n, kColumnGrain);
  Grid best;
  double best_cost = -1;
  for (int64_t rows = 1; rows <= threads; ++rows) {
    Grid grid{std::min(rows, row_units), std::min(threads / rows, column_units)};
    grid.region_rows = std::min(ceil_divide(row_units, grid.rows) * kRowGrain, args.m);
    grid.region_columns = std::min(ceil_divide(column_units, grid.columns) * kColumnGrain, args.n);
    const double grid_cost = cost(args, grid.region_rows, grid.region_columns);
    if (best_cost < 0 || grid_cost < best_cost) {
      best = grid;
      best_cost = grid_cost;
    }
  }
  return best;
}

GemmRegion region_of(const GemmArgs& args, const Grid& grid, int64_t thread) {
  const int64_t row_units = ceil_divide(args.m, kRowGrain);
  const int64_t column_units = ceil_divide(args.n, kColumnGrain);
  const int64_t row = thread / grid.columns, column = thread % grid.columns;
  return {row_units * row / grid.rows * kRowGrain,
          std::min(row_units * (row + 1) / grid.rows * kRowGrain, args.m),
          column_units * column / grid.columns * kColumnGrain,
          std::min(column_units * (column + 1) / grid.columns * kColumnGrain, args.n)};
}

GemmWorkspace workspace_sizes(const GemmArgs& args, const Grid& grid) {
  const int64_t element = detail::accumulator_bytes(args.type);
  const int64_t depth = std::min(args.k, kDepth);
  const int64_t block = std::min(detail::block_columns(args.type, grid.region_rows), grid.region_columns);
  const int64_t columns = round_up(block, kColumnGrain);
  const int64_t rows = round_up(std::min(kPackRows, grid.region_rows), kRowGrain);
  GemmWorkspace sizes{};
  sizes.a_bytes = 2 * round_up(rows * depth * element, 64);
  sizes.b_bytes = round_up(columns * depth * element, 64);
  if (detail::needs_partial(args))
    sizes.partial_bytes = round_up(std::min(detail::kPartialRows, grid.region_rows) * columns * element, 64);
  return sizes;
}

void check(const GemmArgs& args) {
  const bool narrow = args.type == DType::BF16 || args.type == DType::F16;
  CHECK(args.type == DType::F64 || args.type == DType::F32 || narrow, "no matrix product of {}",
        name_of(args.type));
  CHECK(args.c_type == args.type || (narrow && args.c_type == DType::F32),
        "a product of {} cannot be stored as {}", name_of(args.type), name_of(args.c_type));
  assert(args.m >= 0 && args.n >= 0 && args.k >= 0 && args.ldc >= args.n);
  assert(args.k == 0 || args.lda >= (args.transpose_a ? args.m : args.k));
  assert(args.k == 0 || args.ldb >= (args.transpose_b ? args.k : args.n));
  assert(!args.add || args.ld_add >= args.n);
}

}  // namespace

int64_t gemm_workspace_bytes(const GemmArgs& args) {
  if (args.m == 0 || args.n == 0) return 0;
  const Grid grid = choose_grid(args);
  return workspace_sizes(args, grid).bytes() * grid.rows * grid.columns;
}

void gemm(const GemmArgs& args) {
  check(args);
  if (args.m == 0 || args.n == 0) return;
  const Grid grid = choose_grid(args);
  const GemmWorkspace sizes = workspace_sizes(args, grid);
  char* workspace = static_cast<char*>(args.workspace);
  run_team(static_cast<int>(grid.rows * grid.columns), [&](int thread) {
    detail::gemm_region(args, region_of(args, grid, thread), sizes, workspace + thread * sizes.bytes());
  });
}

}  // namespace tessera::cpu
