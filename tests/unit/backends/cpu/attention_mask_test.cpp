// SPDX-License-Identifier: Apache-2.0
// What a query does not see must not change one bit of any result, whatever is there.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/attention.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/memory.h"
#include "tests/ops/case_data.h"

namespace tessera {
namespace {

constexpr DType kTypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16};

std::vector<float> noise(int64_t count, uint64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(normal_from_bits(philox({seed}, static_cast<uint64_t>(i))[0]));
  return values;
}

struct Inputs {
  std::vector<float> q, k, v, dy;
};

struct Problem {
  int64_t rows, tokens, heads, kv_heads, head_dim, window;
  std::vector<int32_t> document_start;

  int64_t width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
  Inputs inputs() const {
    return {noise(rows * tokens * width(), 1), noise(rows * tokens * kv_width(), 2),
            noise(rows * tokens * kv_width(), 3), noise(rows * tokens * width(), 4)};
  }
};

struct Results {
  std::vector<double> y, lse, dq, dk, dv;
};

Tensor upload(Backend& backend, const std::vector<float>& values, DType dtype, int64_t rows) {
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  return converted(backend, from_host<float>(backend, values, {rows, columns}), dtype);
}

Results run(const Problem& p, const Inputs& inputs, DType dtype) {
  const auto backend = make_cpu_backend(2, {.poison = true});
  const int64_t n = p.rows * p.tokens;
  const Tensor q = upload(*backend, inputs.q, dtype, n), k = upload(*backend, inputs.k, dtype, n),
               v = upload(*backend, inputs.v, dtype, n), dy = upload(*backend, inputs.dy, dtype, n);
  const AttentionOptions options{
      .rows = p.rows,
      .heads = p.heads,
      .kv_heads = p.kv_heads,
      .scale = 1 / std::sqrt(static_cast<double>(p.head_dim)),
      .mask = {.document_start = from_host<int32_t>(*backend, p.document_start, {n}), .window = p.window}};
  const AttentionResult result = attention(*backend, q, k, v, options);
  const AttentionGradients g{empty(*backend, dtype, q.shape()), empty(*backend, dtype, k.shape()),
                             empty(*backend, dtype, v.shape())};
  attention_backward(*backend, dy, q, k, v, result, g, options);
  return {to_host_double(*backend, result.y), to_host_double(*backend, result.lse),
          to_host_double(*backend, g.dq), to_host_double(*backend, g.dk), to_host_double(*backend, g.dv)};
}

// Rows [begin, end) of both hold the same bits.
void expect_same(const std::vector<double>& a, const std::vector<double>& b, int64_t n, int64_t begin,
                 int64_t end, const char* name) {
  const int64_t columns = static_cast<int64_t>(a.size()) / n;
  for (int64_t i = begin * columns; i < end * columns; ++i) {
    const double left = a[static_cast<size_t>(i)], right = b[static_cast<size_t>(i)];
    ASSERT_EQ(std::bit_cast<uint64_t>(left), std::bit_cast<uint64_t>(right))
        << name << " row " << i / columns << " column " << i % columns << ": " << left << ", " << right;
  }
}

void spoil(std::vector<float>& values, int64_t n, int64_t begin, int64_t end, float value) {
  const int64_t columns = static_cast<int64_t>(values.size()) / n;
  for (int64_t i = begin * columns; i < end * columns; ++i) values[static_cast<size_t>(i)] = value;
}

// Three documents in one row of 150 tokens; the cuts fall into the middle of blocks and tiles.
Problem three_documents() {
  Problem p{
      .rows = 1, .tokens = 150, .heads = 4, .kv_heads = 2, .head_dim = 20, .window = 0, .document_start = {}};
  for (int32_t i = 0; i < 150; ++i) p.document_start.push_back(i < 47 ? 0 : i < 101 ? 47 : 101);
  return p;
}

TEST(AttentionMask, another_document_has_no_influence) {
  const Problem p = three_documents();
  const float spoilers[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            1e30f};
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(name_of(dtype));
    const Results clean = run(p, p.inputs(), dtype);
    for (const float spoiler : spoilers) {
      Inputs inputs = p.inputs();
      for (std::vector<float>* values : {&inputs.q, &inputs.k, &inputs.v, &inputs.dy}) {
        spoil(*values, 150, 0, 47, spoiler);
        spoil(*values, 150, 101, 150, spoiler);
      }
      const Results spoiled = run(p, inputs, dtype);
      expect_same(spoiled.y, clean.y, 150, 47, 101, "y");
      expect_same(spoiled.lse, clean.lse, 150, 47, 101, "lse");
      expect_same(spoiled.dq, clean.dq, 150, 47, 101, "dq");
      expect_same(spoiled.dk, clean.dk, 150, 47, 101, "dk");
      expect_same(spoiled.dv, clean.dv, 150, 47, 101, "dv");
    }
  }
}

TEST(AttentionMask, the_future_has_no_influence_on_results) {
  Problem p = three_documents();
  p.document_start.assign(150, 0);
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(name_of(dtype));
    const Results clean = run(p, p.inputs(), dtype);
    for (const int64_t cut : {1, 63, 64, 65, 130}) {
      Inputs inputs = p.inputs();
      for (std::vector<float>* values : {&inputs.q, &inputs.k, &inputs.v})
        spoil(*values, 150, cut, 150, std::numeric_limits<float>::quiet_NaN());
      const Results spoiled = run(p, inputs, dtype);
      expect_same(spoiled.y, clean.y, 150, 0, cut, "y");
      expect_same(spoiled.dq, clean.dq, 150, 0, cut, "dq");
      EXPECT_TRUE(std::isnan(spoiled.y.back()));
    }
  }
}

TEST(AttentionMask, what_left_the_window_has_no_influence) {
  Problem p = three_documents();
  p.document_start.assign(150, 0);
  p.window = 30;
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(name_of(dtype));
    const Results clean = run(p, p.inputs(), dtype);
    Inputs inputs = p.inputs();
    spoil(inputs.k, 150, 0, 71, std::numeric_limits<float>::quiet_NaN());
    spoil(inputs.v, 150, 0, 71, std::numeric_limits<float>::infinity());
    const Results spoiled = run(p, inputs, dtype);
    expect_same(spoiled.y, clean.y, 150, 100, 150, "y");
    expect_same(spoiled.dq, clean.dq, 150, 100, 150, "dq");
    EXPECT_TRUE(std::isnan(spoiled.y[static_cast<size_t>(99 * p.width())]));
    // Queries that see nothing spoiled still do not reach the keys before their window.
    for (std::vector<float>* values : {&inputs.q, &inputs.dy})
      spoil(*values, 150, 120, 150, std::numeric_limits<float>::quiet_NaN());
    const Results late = run(p, inputs, dtype);
    expect_same(late.dk, spoiled.dk, 150, 0, 91, "dk");
    expect_same(late.dv, spoiled.dv, 150, 0, 91, "dv");
  }
}

TEST(AttentionMask, padded_queries_give_zero_and_no_gradient) {
  Problem p = three_documents();
  for (int64_t i = 140; i < 150; ++i) p.document_start[static_cast<size_t>(i)] = 1 << 30;
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(name_of(dtype));
    Inputs inputs = p.inputs();
    for (std::vector<float>* values : {&inputs.q, &inputs.k, &inputs.v, &inputs.dy})
      spoil(*values, 150, 140, 150, std::numeric_limits<float>::quiet_NaN());
    const Results result = run(p, inputs, dtype);
    const auto expect_zero = [](const std::vector<double>& values) {
      for (size_t i = values.size() / 150 * 140; i < values.size(); ++i) ASSERT_EQ(values[i], 0);
    };
    expect_zero(result.y);
    expect_zero(result.dq);
    expect_zero(result.dk);
    expect_zero(result.dv);
    for (size_t i = 140 * 4; i < result.lse.size(); ++i)
      EXPECT_EQ(result.lse[i], -std::numeric_limits<double>::infinity());
    for (const double value : result.dk) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(AttentionMask, one_query_against_a_cache_gives_the_bits_of_the_whole_row) {
  Problem p = three_documents();
  p.document_start.assign(150, 0);
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(name_of(dtype));
    const Inputs inputs = p.inputs();
    const Results whole = run(p, inputs, dtype);
    const auto backend = make_cpu_backend(1);
    const Tensor q = upload(*backend, inputs.q, dtype, 150), k = upload(*backend, inputs.k, dtype, 150),
                 v = upload(*backend, inputs.v, dtype, 150);
    for (const int64_t at : {0, 5, 63, 64, 100, 149}) {
      const AttentionOptions options{
          .heads = 4,
          .kv_heads = 2,
          .scale = 1 / std::sqrt(20.0),
          .mask = {.document_start = zeros(*backend, DType::I32, {1}), .query_offset = at}};
      const AttentionResult one =
          attention(*backend, q.narrow(at, 1), k.narrow(0, at + 1), v.narrow(0, at + 1), options);
      const std::vector<double> y = to_host_double(*backend, one.y);
      for (int64_t c = 0; c < p.width(); ++c)
        ASSERT_EQ(y[static_cast<size_t>(c)], whole.y[static_cast<size_t>(at * p.width() + c)]) << at;
    }
  }
}

TEST(AttentionDropout, belongs_to_logical_positions) {
  const auto backend = make_cpu_backend(2);
  const int64_t rows = 3, tokens = 40, heads = 4, width = heads * 8;
  const auto values = [&](uint64_t seed) {
    return upload(*backend, noise(rows * tokens * width, seed), DType::F32, rows * tokens);
  };
  const Tensor q = values(1), k = values(2), v = values(3);
  const std::vector<int64_t> ids{12, 5, 99}, step{7};
  const Tensor row_ids = from_host<int64_t>(*backend, ids, {3}),
               step_number = from_host<int64_t>(*backend, step, {1});
  const auto options = [&](int64_t first_row, int64_t count, int64_t head_count) {
    return AttentionOptions{.rows = count,
                            .heads = head_count,
                            .kv_heads = head_count,
                            .scale = 0.3,
                            .mask = {.document_start = zeros(*backend, DType::I32, {count * tokens})},
                            .dropout = {.probability = 0.4,
                                        .key = {77},
                                        .step = step_number,
                                        .row_ids = row_ids.narrow(first_row, count)}};
  };
  const std::vector<double> whole =
      to_host_double(*backend, attention(*backend, q, k, v, options(0, 3, 4)).y);
  // Row 1 alone, and its last two heads alone, get the masks that they have in the whole.
  const auto part = [&](const Tensor& x) { return x.narrow(tokens, tokens).columns(16, 16); };
  AttentionOptions last_heads = options(1, 1, 2);
  last_heads.dropout.head_offset = 2;
  const std::vector<double> alone =
      to_host_double(*backend, attention(*backend, part(q), part(k), part(v), last_heads).y);
  for (int64_t i = 0; i < tokens; ++i)
    for (int64_t c = 0; c < 16; ++c)
      ASSERT_EQ(alone[static_cast<size_t>(i * 16 + c)],
                whole[static_cast<size_t>((tokens + i) * width + 16 + c)]);
  // Another step has other masks.
  const std::vector<int64_t> next{8};
  last_heads.dropout.step = from_host<int64_t>(*backend, next, {1});
  EXPECT_NE(to_host_double(*backend, attention(*backend, part(q), part(k), part(v), last_heads).y), alone);
}

}  // namespace
}  // namespace tessera
