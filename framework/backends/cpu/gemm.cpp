// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/gemm.h"

#include <algorithm>

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

// Threads as rows x columns of regions of c. A sum over k is never split.
struct Grid {
  int64_t rows = 1, columns = 1;
  int64_t region_rows = 0, region_columns = 0;  // upper bounds
};

// Time of the largest region in units of one multiply-add per depth: products, and packing, of which one
// element costs about as much as 16 products.
int64_t cost(const GemmArgs& args, int64_t rows, int64_t columns) {
  const int64_t passes =
      (columns + detail::block_columns(args.type, rows) - 1) / detail::block_columns(args.type, rows);
  return rows * columns + 16 * (columns + rows * passes);
}

Grid choose_grid(const GemmArgs& args) {
  const int64_t row_units = (args.m + kRowGrain - 1) / kRowGrain;
  const int64_t column_units = (args.n + kColumnGrain - 1) / kColumnGrain;
  Grid best;
  int64_t best_cost = -1;
  for (int64_t rows = 1; rows <= args.threads; ++rows) {
    Grid grid{std::min(rows, row_units), std::min(args.threads / rows, column_units)};
    grid.region_rows = std::min((row_units + grid.rows - 1) / grid.rows * kRowGrain, args.m);
    grid.region_columns = std::min((column_units + grid.columns - 1) / grid.columns * kColumnGrain, args.n);
    const int64_t grid_cost = cost(args, grid.region_rows, grid.region_columns);
    if (best_cost < 0 || grid_cost < best_cost) {
      best = grid;
      best_cost = grid_cost;
    }
  }
  return best;
}

GemmWorkspace workspace_sizes(const GemmArgs& args, const Grid& grid) {
  const int64_t bytes = detail::accumulator_bytes(args.type);
  const int64_t depth = std::min(args.k, kDepth);
  const int64_t columns = round_up(
      std::min(detail::block_columns(args.type, grid.region_rows), grid.region_columns), kColumnGrain);
  const int64_t rows = round_up(std::min(kPackRows, grid.region_rows), kRowGrain);
  GemmWorkspace sizes{};
  sizes.a_bytes = 2 * round_up(rows * depth * bytes, 64);
  sizes.b_bytes = round_up(columns * depth * bytes, 64);
  if (detail::needs_partial(args))
    sizes.partial_bytes = round_up(std::min(detail::kPartialRows, grid.region_rows) * columns * bytes, 64);
  return sizes;
}

}  // namespace

int64_t gemm_workspace_bytes(const GemmArgs& args) {
  if (args.m == 0 || args.n == 0) return 0;
  const Grid grid = choose_grid(args);
  return workspace_sizes(args, grid).bytes() * grid.rows * grid.columns;
}

void gemm(const GemmArgs& args) {
  if (args.m == 0 || args.n == 0) return;
  const Grid grid = choose_grid(args);
  const GemmWorkspace sizes = workspace_sizes(args, grid);
  const int64_t row_units = (args.m + kRowGrain - 1) / kRowGrain;
  const int64_t column_units = (args.n + kColumnGrain - 1) / kColumnGrain;
  run_team(static_cast<int>(grid.rows * grid.columns), [&](int thread) {
    const int64_t row = thread / grid.columns, column = thread % grid.columns;
    const GemmRegion region{row_units * row / grid.rows * kRowGrain,
                            std::min(row_units * (row + 1) / grid.rows * kRowGrain, args.m),
                            column_units * column / grid.columns * kColumnGrain,
                            std::min(column_units * (column + 1) / grid.columns * kColumnGrain, args.n)};
    detail::gemm_region(args, region, sizes, static_cast<char*>(args.workspace) + thread * sizes.bytes());
  });
}

}  // namespace tessera::cpu
