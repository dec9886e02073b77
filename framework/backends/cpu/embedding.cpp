// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/parallel.h"
#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {
namespace {

template <class T>
void add_row(const T* from, T* to, int64_t count) {
  for (int64_t c = 0; c < count; ++c) to[c] = T(static_cast<Real<T>>(to[c]) + static_cast<Real<T>>(from[c]));
}

// Tokens that look up a local row, grouped by row, in the order of the tokens within a group.
std::vector<int64_t> tokens_by_row(const int32_t* indices, int64_t count, int64_t first_row, int64_t rows) {
  std::vector<int64_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    if (indices[i] >= first_row && indices[i] < first_row + rows) tokens.push_back(i);
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](int64_t a, int64_t b) { return indices[a] < indices[b]; });
  return tokens;
}

// sums[columns] = the rows of dy of one group, added in order.
template <class T>
void sum_group(const MatrixView<T>& dy, std::span<const int64_t> tokens, int64_t begin, int64_t end,
               Real<T>* sums) {
  std::fill_n(sums, end - begin, Real<T>(0));
  for (const int64_t token : tokens) {
    const T* row = dy.row(token) + begin;
    for (int64_t c = 0; c < end - begin; ++c) sums[c] += static_cast<Real<T>>(row[c]);
  }
}

}  // namespace

void CpuBackend::embedding(const EmbeddingArgs& args) {
  visit_float(args.y.dtype(), [&]<class T>() {
    const auto table = matrix_view<T>(args.table), y = matrix_view<T>(args.y);
    const int32_t* indices = args.indices.data<int32_t>();
    parallel_for(threads(), y.rows, row_grain(y.columns), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = indices[i] - args.first_row;
        const bool local = row >= 0 && row < table.rows;
        if (args.accumulate) {
          if (local) add_row(table.row(row), y.row(i), y.columns);
        } else if (local) {
          std::copy_n(table.row(row), y.columns, y.row(i));
        } else {
          std::fill_n(y.row(i), y.columns, T(0));
        }
      }
    });
  });
}

// Threads split the columns: the terms of one row of the table stay in the order of the tokens.
void CpuBackend::embedding_backward(const EmbeddingBackwardArgs& args) {
  const int32_t* indices = args.indices.data<int32_t>();
  const std::vector<int64_t> tokens =
      tokens_by_row(indices, args.dy.size(0), args.first_row, args.dtable.size(0));
  visit_float(args.dy.dtype(), [&]<class T>() {
    visit_float(args.dtable.dtype(), [&]<class A>() {
      const auto dy = matrix_view<T>(args.dy);
      const auto dtable = matrix_view<A>(args.dtable);
      parallel_for(threads(), dy.columns, 64, [&](int64_t begin, int64_t end) {
        std::vector<Real<T>> sums(static_cast<size_t>(end - begin));
        for (size_t first = 0; first < tokens.size();) {
          size_t last = first + 1;
          const int32_t index = indices[tokens[first]];
          while (last < tokens.size() && indices[tokens[last]] == index) ++last;
          sum_group<T>(dy, std::span(tokens).subspan(first, last - first), begin, end, sums.data());
          A* row = dtable.row(index - args.first_row) + begin;
          for (int64_t c = 0; c < end - begin; ++c)
            row[c] = static_cast<A>(static_cast<Real<A>>(row[c]) +
                                    static_cast<Real<A>>(sums[static_cast<size_t>(c)]));
          first = last;
        }
      });
    });
  });
}

// Angles are those of the table; positions outside of it are a fault of the caller.
void CpuBackend::rope(const RopeArgs& args) {
  visit_float(args.x.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto x = matrix_view<T>(args.x);
    const auto table = matrix_view<R>(args.table);
    const int32_t* positions = args.positions.data<int32_t>();
    const int64_t half = table.columns / 2;
    const R sign = args.inverse ? R(-1) : R(1);
    parallel_for(threads(), x.rows, row_grain(x.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(1, x.columns);
      for (int64_t i = begin; i < end; ++i) {
        CHECK(positions[i] >= 0 && positions[i] < table.rows, "rope: position {} in a table of {}",
              positions[i], table.rows);
        const R* cosines = table.row(positions[i]);
        read<T>(x.row(i), buffers[0], x.columns);
        R* row = target<T>(x.row(i), buffers[0]);
        for (int64_t head = 0; head < x.columns; head += args.head_dim)
          rotate_row(row + head, cosines, cosines + half, sign, half);
        written<T>(row, x.row(i), x.columns);
      }
    });
  });
}

}  // namespace tessera::cpu
