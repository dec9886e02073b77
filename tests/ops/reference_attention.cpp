// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "framework/base/random.h"
#include "tests/ops/reference_operands.h"

namespace tessera::test {
namespace {

struct AttentionNumbers {
  explicit AttentionNumbers(const Operands& o)
      : rows(o.integer("rows")),
        queries(o.integer("queries")),
        keys(o.integer("keys")),
        heads(o.integer("heads")),
        kv_heads(o.integer("kv_heads")),
        dim(o.integer("head_dim")),
        window(o.integer("window")),
        query_offset(o.integer("query_offset")),
        key_offset(o.integer("key_offset")),
        scale(o.number("scale")),
        probability(o.number("probability")) {}
  int64_t rows, queries, keys, heads, kv_heads, dim, window, query_offset, key_offset;
  double scale, probability;
};

// Weights of one query over all keys: softmax over what it sees, 0 elsewhere. `dropout` is 0 or
// 1 / (1 - probability): the definition beside AttentionDropout.
struct AttentionRow {
  AttentionRow(const Operands& o, const AttentionNumbers& n, int64_t row, int64_t head, int64_t query)
      : token(row * n.queries + query),
        first_key(row * n.keys),
        kv_column(head / (n.heads / n.kv_heads) * n.dim),
        visible(static_cast<size_t>(n.keys)),
        weights(static_cast<size_t>(n.keys)),
        dropout(static_cast<size_t>(n.keys), 1) {
    Matrix q = o.matrix("q"), k = o.matrix("k");
    const double start = o["document_start"][static_cast<size_t>(token)];
    double sum = 0, maximum = -kInfinity;
    for (int64_t j = 0; j < n.keys; ++j) {
      const int64_t key = n.key_offset + j, position = n.query_offset + query;
      if (static_cast<double>(key) < start || key > position) continue;
      if (n.window != 0 && position - key >= n.window) continue;
      double score = 0;
      for (int64_t c = 0; c < n.dim; ++c)
        score += q(token, head * n.dim + c) * k(first_key + j, kv_column + c);
      visible[static_cast<size_t>(j)] = true;
      weights[static_cast<size_t>(j)] = n.scale * score;
      maximum = std::max(maximum, n.scale * score);
    }
    for (size_t j = 0; j < weights.size(); ++j)
      if (visible[j]) sum += weights[j] = std::exp(weights[j] - maximum);
    lse = sum > 0 ? maximum + std::log(sum) : -kInfinity;
    for (double& weight : weights) weight = sum > 0 ? weight / sum : 0;
    if (n.probability > 0) set_dropout(o, n, row, head, query);
  }

  void set_dropout(const Operands& o, const AttentionNumbers& n, int64_t row, int64_t head, int64_t query) {
    const RandomKey base{static_cast<uint64_t>(o.integer("key")) * 0x9e3779b97f4a7c15u};
    const RandomKey key = mixed(mixed(base, static_cast<uint64_t>(o["step"][0])),
                                static_cast<uint64_t>(o["row_ids"][static_cast<size_t>(row)]));
    const uint64_t low = static_cast<uint64_t>(o.integer("head_offset") + head) << 32 |
                         static_cast<uint64_t>(n.query_offset + query);
    for (int64_t j = 0; j < n.keys; ++j) {
      const uint64_t column = static_cast<uint64_t>(n.key_offset + j);
      const uint32_t bits = philox(key, low, column / 4)[column % 4];
      dropout[static_cast<size_t>(j)] =
          bits < std::llround((1 - n.probability) * 4294967296.0) ? 1 / (1 - n.probability) : 0;
    }
  }

  int64_t token, first_key, kv_column;
  std::vector<bool> visible;
  Vector weights, dropout;
  double lse;
};

template <class F>
void for_queries(const AttentionNumbers& n, F&& body) {
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t head = 0; head < n.heads; ++head)
      for (int64_t query = 0; query < n.queries; ++query) body(row, head, query);
}

}  // namespace

void reference_attention(const Operands& o, bool add) {
  const AttentionNumbers n(o);
  Matrix v = o.matrix("v"), y = o.matrix("y"), lse = o.matrix("lse");
  for_queries(n, [&](int64_t row, int64_t head, int64_t query) {
    const AttentionRow a(o, n, row, head, query);
    // Shares of what was there and of what these keys give.
    double before = 0, here = 1;
    if (add) {
      const double old = lse(a.token, head), maximum = std::max(old, a.lse);
      const double both = maximum > -kInfinity
                              ? maximum + std::log(std::exp(old - maximum) + std::exp(a.lse - maximum))
                              : maximum;
      before = old > -kInfinity ? std::exp(old - both) : 0;
      here = a.lse > -kInfinity ? std::exp(a.lse - both) : 0;
      lse(a.token, head) = both;
    } else {
      lse(a.token, head) = a.lse;
    }
    for (int64_t c = 0; c < n.dim; ++c) {
      double sum = 0;
      for (size_t j = 0; j < a.weights.size(); ++j)
        if (a.visible[j])
          sum += a.weights[j] * a.dropout[j] * v(a.first_key + static_cast<int64_t>(j), a.kv_column + c);
      double& result = y(a.token, head * n.dim + c);
      result = add ? before * result + here * sum : sum;
    }
  });
}

void reference_attention_backward(const Operands& o, bool add) {
  const AttentionNumbers n(o);
  Matrix q = o.matrix("q"), k = o.matrix("k"), v = o.matrix("v"), dy = o.matrix("dy");
  Matrix dq = o.matrix("dq"), dk = o.matrix("dk"), dv = o.matrix("dv");
  if (!add)
    for (Matrix* gradient : {&dq, &dk, &dv}) gradient->data.assign(gradient->data.size(), 0);
  for_queries(n, [&](int64_t row, int64_t head, int64_t query) {
    const AttentionRow a(o, n, row, head, query);
    // Gradients of the softmax's results, then of its arguments.
    Vector dp(a.weights.size());
    double mean = 0;
    for (size_t j = 0; j < dp.size(); ++j) {
      if (!a.visible[j]) continue;
      const int64_t key = a.first_key + static_cast<int64_t>(j);
      for (int64_t c = 0; c < n.dim; ++c) {
        const double g = dy(a.token, head * n.dim + c);
        dp[j] += g * v(key, a.kv_column + c) * a.dropout[j];
        dv(key, a.kv_column + c) += g * a.weights[j] * a.dropout[j];
      }
      mean += a.weights[j] * dp[j];
    }
    for (size_t j = 0; j < dp.size(); ++j) {
      if (!a.visible[j]) continue;
      const int64_t key = a.first_key + static_cast<int64_t>(j);
      const double ds = a.weights[j] * (dp[j] - mean) * n.scale;
      for (int64_t c = 0; c < n.dim; ++c) {
        dq(a.token, head * n.dim + c) += ds * k(key, a.kv_column + c);
        dk(key, a.kv_column + c) += ds * q(a.token, head * n.dim + c);
      }
    }
  });
}

}  // namespace tessera::test
