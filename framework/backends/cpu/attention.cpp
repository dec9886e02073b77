// SPDX-License-Identifier: Apache-2.0
// Attention one query at a time: the path of F64.
#include <cmath>
#include <limits>
#include <vector>

#include "framework/backends/cpu/attention_mask.h"
#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/parallel.h"

namespace tessera::cpu {
namespace {

template <class T>
Real<T> dot(const T* a, const T* b, int64_t count) {
  Real<T> sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<Real<T>>(a[i]) * static_cast<Real<T>>(b[i]);
  return sum;
}

template <class T>
struct Problem {
  template <class Args>
  explicit Problem(const Args& args)
      : q(matrix_view<T>(args.q)),
        k(matrix_view<T>(args.k)),
        v(matrix_view<T>(args.v)),
        rows(args.rows),
        heads(args.heads),
        group(args.heads / args.kv_heads),
        queries(q.rows / args.rows),
        keys(k.rows / args.rows),
        head_dim(q.columns / args.heads),
        scale(static_cast<Real<T>>(args.scale)),
        visible(args.mask, queries, keys),
        dropout(args.dropout, args.mask) {}

  MatrixView<T> q, k, v;
  int64_t rows, heads, group, queries, keys, head_dim;
  Real<T> scale;
  VisibleKeys visible;
  WeightDropout dropout;
};

template <class T>
void forward_query(const Problem<T>& p, int64_t row, int64_t head, int64_t query, T* y, Real<T>& lse,
                   std::vector<Real<T>>& weights, std::vector<Real<T>>& sums) {
  using R = Real<T>;
  const KeyRange range = p.visible.of(row, query);
  const int64_t count = range.end - range.begin, column = head / p.group * p.head_dim;
  std::fill(sums.begin(), sums.end(), R(0));
  lse = -std::numeric_limits<R>::infinity();
  if (count > 0) {
    const T* q = p.q.row(row * p.queries + query) + head * p.head_dim;
    R maximum = lse, total = 0;
    for (int64_t j = 0; j < count; ++j) {
      const T* k = p.k.row(row * p.keys + range.begin + j) + column;
      weights[static_cast<size_t>(j)] = p.scale * dot(q, k, p.head_dim);
      maximum = std::max(maximum, weights[static_cast<size_t>(j)]);
    }
    for (int64_t j = 0; j < count; ++j) {
      R& weight = weights[static_cast<size_t>(j)];
      weight = std::exp(weight - maximum);
      total += weight;
    }
    lse = maximum + std::log(total);
    std::vector<R> factors;
    if (p.dropout.active()) {
      factors.resize(static_cast<size_t>(count));
      p.dropout.factors(row, head, query, range.begin, range.end, factors.data());
    }
    for (int64_t j = 0; j < count; ++j) {
      const T* v = p.v.row(row * p.keys + range.begin + j) + column;
      const R weight = weights[static_cast<size_t>(j)] / total *
                       (factors.empty() ? R(1) : factors[static_cast<size_t>(j)]);
      for (int64_t c = 0; c < p.head_dim; ++c) sums[static_cast<size_t>(c)] += weight * static_cast<R>(v[c]);
    }
  }
  for (int64_t c = 0; c < p.head_dim; ++c) y[c] = T(sums[static_cast<size_t>(c)]);
}

template <class T>
void forward(int threads, const AttentionArgs& args) {
  using R = Real<T>;
  const Problem<T> p(args);
  const auto y = matrix_view<T>(args.y);
  const auto lse = matrix_view<R>(args.lse);
  parallel_for_dynamic(threads, p.rows * p.heads * p.queries, 64, [&](int64_t begin, int64_t end) {
    std::vector<R> weights(static_cast<size_t>(p.keys)), sums(static_cast<size_t>(p.head_dim));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t query = i % p.queries, head = i / p.queries % p.heads, row = i / p.queries / p.heads;
      const int64_t token = row * p.queries + query;
      forward_query(p, row, head, query, y.row(token) + head * p.head_dim, lse.row(token)[head], weights,
                    sums);
    }
  });
}

template <class T>
struct Gradients {
  MatrixView<T> dy, y, dq, dk, dv;
  MatrixView<Real<T>> lse;
};

// Adds one query's terms to dk and dv [keys, head_dim] and stores its dq.
template <class T>
void backward_query(const Problem<T>& p, const Gradients<T>& g, int64_t row, int64_t head, int64_t query,
                    Real<T>* dk_sums, Real<T>* dv_sums) {
  using R = Real<T>;
  const KeyRange range = p.visible.of(row, query);
  const int64_t token = row * p.queries + query, column = head / p.group * p.head_dim;
  const T* q = p.q.row(token) + head * p.head_dim;
  const T* dy = g.dy.row(token) + head * p.head_dim;
  std::vector<R> dq(static_cast<size_t>(p.head_dim)),
      factors(static_cast<size_t>(range.end - range.begin), R(1));
  if (p.dropout.active() && !factors.empty())
    p.dropout.factors(row, head, query, range.begin, range.end, factors.data());
  const R lse = g.lse.row(token)[head];
  const R delta = range.begin < range.end ? dot(dy, g.y.row(token) + head * p.head_dim, p.head_dim) : R(0);
  for (int64_t j = range.begin; j < range.end; ++j) {
    const T* k = p.k.row(row * p.keys + j) + column;
    const T* v = p.v.row(row * p.keys + j) + column;
    const R weight = std::exp(p.scale * dot(q, k, p.head_dim) - lse);
    const R factor = factors[static_cast<size_t>(j - range.begin)];
    const R ds = weight * (factor * dot(dy, v, p.head_dim) - delta) * p.scale;
    for (int64_t c = 0; c < p.head_dim; ++c) {
      dv_sums[j * p.head_dim + c] += weight * factor * static_cast<R>(dy[c]);
      dk_sums[j * p.head_dim + c] += ds * static_cast<R>(q[c]);
      dq[static_cast<size_t>(c)] += ds * static_cast<R>(k[c]);
    }
  }
  T* out = g.dq.row(token) + head * p.head_dim;
  for (int64_t c = 0; c < p.head_dim; ++c) out[c] = T(dq[static_cast<size_t>(c)]);
}

template <class T>
void backward(int threads, const AttentionBackwardArgs& args) {
  using R = Real<T>;
  const Problem<T> p(args);
  const Gradients<T> g{matrix_view<T>(args.dy), matrix_view<T>(args.y),  matrix_view<T>(args.dq),
                       matrix_view<T>(args.dk), matrix_view<T>(args.dv), matrix_view<R>(args.lse)};
  // One unit is a key head of a row: the sums over its query heads have a fixed order.
  parallel_for_dynamic(threads, p.rows * args.kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = unit / args.kv_heads, kv_head = unit % args.kv_heads;
      std::vector<R> dk(static_cast<size_t>(p.keys * p.head_dim)), dv(dk.size());
      for (int64_t head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head)
        for (int64_t query = 0; query < p.queries; ++query)
          backward_query(p, g, row, head, query, dk.data(), dv.data());
      for (int64_t j = 0; j < p.keys; ++j)
        for (int64_t c = 0; c < p.head_dim; ++c) {
          g.dk.row(row * p.keys + j)[kv_head * p.head_dim + c] =
              T(dk[static_cast<size_t>(j * p.head_dim + c)]);
          g.dv.row(row * p.keys + j)[kv_head * p.head_dim + c] =
              T(dv[static_cast<size_t>(j * p.head_dim + c)]);
        }
    }
  });
}

}  // namespace

void CpuBackend::attention(const AttentionArgs& args) {
  visit_float(args.q.dtype(), [&]<class T>() { forward<T>(threads(), args); });
}

void CpuBackend::attention_backward(const AttentionBackwardArgs& args) {
  visit_float(args.q.dtype(), [&]<class T>() { backward<T>(threads(), args); });
}

}  // namespace tessera::cpu
