// SPDX-License-Identifier: Apache-2.0
// Attention one query at a time, in double.
#include "framework/backends/cpu/attention_plain.h"

#include <cmath>
#include <limits>
#include <vector>

#include "framework/backends/cpu/attention_mask.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/parallel.h"

namespace tessera::cpu {
namespace {

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

struct Problem {
  template <class Args>
  explicit Problem(const Args& args)
      : q(matrix_view<double>(args.q)),
        k(matrix_view<double>(args.k)),
        v(matrix_view<double>(args.v)),
        rows(args.rows),
        heads(args.heads),
        group(args.heads / args.kv_heads),
        queries(q.rows / args.rows),
        keys(k.rows / args.rows),
        head_dim(q.columns / args.heads),
        scale(static_cast<double>(args.scale)),
        visible(args.mask, queries, keys),
        dropout(args.dropout, args.mask) {}

  MatrixView<double> q, k, v;
  int64_t rows, heads, group, queries, keys, head_dim;
  double scale;
  VisibleKeys visible;
  WeightDropout dropout;
};

// y and lse hold the result over other keys.
void forward_query(const Problem& p, int64_t row, int64_t head, int64_t query, double* y, double& lse,
                   std::vector<double>& weights, std::vector<double>& sums) {
  const KeyRange range = p.visible.of(row, query);
  const int64_t count = range.end - range.begin, column = head / p.group * p.head_dim;
  if (count > 0) {
    const double* q = p.q.row(row * p.queries + query) + head * p.head_dim;
    double maximum = lse;
    for (int64_t j = 0; j < count; ++j) {
      const double* k = p.k.row(row * p.keys + range.begin + j) + column;
      weights[static_cast<size_t>(j)] = p.scale * dot(q, k, p.head_dim);
      maximum = std::max(maximum, weights[static_cast<size_t>(j)]);
    }
    const double before = std::exp(lse - maximum);
    double total = before;
    for (int64_t j = 0; j < count; ++j) {
      double& weight = weights[static_cast<size_t>(j)];
      weight = std::exp(weight - maximum);
      total += weight;
    }
    lse = maximum + std::log(total);
    for (int64_t c = 0; c < p.head_dim; ++c) sums[static_cast<size_t>(c)] = before / total * y[c];
    std::vector<double> factors;
    if (p.dropout.active()) {
      factors.resize(static_cast<size_t>(count));
      p.dropout.factors(row, head, query, range.begin, range.end, factors.data());
    }
    for (int64_t j = 0; j < count; ++j) {
      const double* v = p.v.row(row * p.keys + range.begin + j) + column;
      const double weight =
          weights[static_cast<size_t>(j)] / total * (factors.empty() ? 1.0 : factors[static_cast<size_t>(j)]);
      for (int64_t c = 0; c < p.head_dim; ++c) sums[static_cast<size_t>(c)] += weight * (v[c]);
    }
    std::copy(sums.begin(), sums.end(), y);
  }
}

void forward(int threads, const AttentionArgs& args) {
  const Problem p(args);
  const auto y = matrix_view<double>(args.y);
  const auto lse = matrix_view<double>(args.lse);
  parallel_for_dynamic(threads, p.rows * p.heads * p.queries, 64, [&](int64_t begin, int64_t end) {
    std::vector<double> weights(static_cast<size_t>(p.keys)), sums(static_cast<size_t>(p.head_dim));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t query = i % p.queries, head = i / p.queries % p.heads, row = i / p.queries / p.heads;
      double* result = y.row(row * p.queries + query) + head * p.head_dim;
      double& result_lse = lse.row(row * p.queries + query)[head];
      if (!args.accumulate) {
        std::fill_n(result, p.head_dim, 0.0);
        result_lse = -std::numeric_limits<double>::infinity();
      }
      forward_query(p, row, head, query, result, result_lse, weights, sums);
    }
  });
}

struct Gradients {
  MatrixView<double> dy, y, dq, dk, dv;
  MatrixView<double> lse;
  bool accumulate;

  void store(const double* sums, int64_t count, double* to) const {
    for (int64_t c = 0; c < count; ++c) to[c] = accumulate ? to[c] + sums[c] : sums[c];
  }
};

// Adds one query's terms to dk and dv [keys, head_dim] and stores its dq.
void backward_query(const Problem& p, const Gradients& g, int64_t row, int64_t head, int64_t query,
                    double* dk_sums, double* dv_sums) {
  const KeyRange range = p.visible.of(row, query);
  const int64_t token = row * p.queries + query, column = head / p.group * p.head_dim;
  const double* q = p.q.row(token) + head * p.head_dim;
  const double* dy = g.dy.row(token) + head * p.head_dim;
  std::vector<double> dq(static_cast<size_t>(p.head_dim)),
      factors(static_cast<size_t>(range.end - range.begin), 1.0);
  if (p.dropout.active() && !factors.empty())
    p.dropout.factors(row, head, query, range.begin, range.end, factors.data());
  const double lse = g.lse.row(token)[head];
  const double delta =
      range.begin < range.end ? dot(dy, g.y.row(token) + head * p.head_dim, p.head_dim) : 0.0;
  for (int64_t j = range.begin; j < range.end; ++j) {
    const double* k = p.k.row(row * p.keys + j) + column;
    const double* v = p.v.row(row * p.keys + j) + column;
    const double weight = std::exp(p.scale * dot(q, k, p.head_dim) - lse);
    const double factor = factors[static_cast<size_t>(j - range.begin)];
    const double ds = weight * (factor * dot(dy, v, p.head_dim) - delta) * p.scale;
    for (int64_t c = 0; c < p.head_dim; ++c) {
      dv_sums[j * p.head_dim + c] += weight * factor * (dy[c]);
      dk_sums[j * p.head_dim + c] += ds * (q[c]);
      dq[static_cast<size_t>(c)] += ds * (k[c]);
    }
  }
  g.store(dq.data(), p.head_dim, g.dq.row(token) + head * p.head_dim);
}

void backward(int threads, const AttentionBackwardArgs& args) {
  const Problem p(args);
  const Gradients g{matrix_view<double>(args.dy),
                    matrix_view<double>(args.y),
                    matrix_view<double>(args.dq),
                    matrix_view<double>(args.dk),
                    matrix_view<double>(args.dv),
                    matrix_view<double>(args.lse),
                    args.accumulate};
  // One unit is a key head of a row: the sums over its query heads have a fixed order.
  parallel_for_dynamic(threads, p.rows * args.kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = unit / args.kv_heads, kv_head = unit % args.kv_heads;
      std::vector<double> dk(static_cast<size_t>(p.keys * p.head_dim)), dv(dk.size());
      for (int64_t head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head)
        for (int64_t query = 0; query < p.queries; ++query)
          backward_query(p, g, row, head, query, dk.data(), dv.data());
      for (int64_t j = 0; j < p.keys; ++j) {
        const int64_t place = row * p.keys + j, to = kv_head * p.head_dim;
        g.store(dk.data() + j * p.head_dim, p.head_dim, g.dk.row(place) + to);
        g.store(dv.data() + j * p.head_dim, p.head_dim, g.dv.row(place) + to);
      }
    }
  });
}

}  // namespace

void attention_plain(int threads, const AttentionArgs& args) {
  forward(threads, args);
}
void attention_backward_plain(int threads, const AttentionBackwardArgs& args) {
  backward(threads, args);
}

}  // namespace tessera::cpu
