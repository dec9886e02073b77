// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/case_builders.h"

namespace tessera::test {
namespace {
using enum ElementKind;
using enum Use;

// document_start of each query; padded queries start after every position.
std::vector<double> document_starts(const AttentionCase& o) {
  std::vector<double> starts;
  for (int64_t row = 0; row < o.rows; ++row)
    for (int64_t i = 0; i < o.queries; ++i) {
      const int64_t position = o.query_offset + i;
      int64_t start = 0;
      // Each row begins its documents one earlier than the row before.
      int64_t end = -row;
      for (const int64_t length : o.documents) {
        end += length;
        if (end > position) break;
        start = std::max<int64_t>(end, 0);
      }
      const bool padded = i >= o.queries - o.padding;
      starts.push_back(static_cast<double>(padded ? int64_t{1} << 30 : start));
    }
  return starts;
}

// Pairs of one head that the mask lets through.
int64_t visible_pairs(const AttentionCase& o) {
  const std::vector<double> starts = document_starts(o);
  int64_t pairs = 0;
  for (int64_t i = 0; i < o.rows * o.queries; ++i)
    for (int64_t j = 0; j < o.keys; ++j) {
      const int64_t query = o.query_offset + i % o.queries, key = o.key_offset + j;
      const bool in_window = o.window == 0 || query - key < o.window;
      pairs += key >= static_cast<int64_t>(starts[static_cast<size_t>(i)]) && key <= query && in_window;
    }
  return pairs;
}
}  // namespace

OpCase attention_case(const AttentionCase& o, bool backward) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  OpCase c{.op = backward ? "attention_backward" : "attention",
           .numbers = {{"rows", number(o.rows)},
                       {"queries", number(o.queries)},
                       {"keys", number(o.keys)},
                       {"heads", number(o.heads)},
                       {"kv_heads", number(o.kv_heads)},
                       {"head_dim", number(o.head_dim)},
                       {"window", number(o.window)},
                       {"query_offset", number(o.query_offset)},
                       {"key_offset", number(o.key_offset)},
                       {"documents", number(static_cast<int64_t>(o.documents.size()))},
                       {"padding", number(o.padding)},
                       {"probability", o.probability},
                       {"key", 5},
                       {"head_offset", 3},
                       {"scale", 1 / std::sqrt(number(o.head_dim))}},
           .sum_length = std::max({o.keys, o.queries * o.heads / o.kv_heads, o.head_dim})};
  c.operations = (backward ? 10.0 : 4.0) * number(visible_pairs(o) * o.heads * o.head_dim);
  const int64_t width = o.heads * o.head_dim, kv_width = o.kv_heads * o.head_dim;
  // A part of a buffer that holds q, k and v side by side.
  const int64_t q_gap = o.slices ? 2 * kv_width : 0, kv_gap = o.slices ? width + kv_width : 0;
  const Shape q_shape{o.rows * o.queries, width}, kv_shape{o.rows * o.keys, kv_width};
  c.tensors = {
      {.name = "q", .shape = q_shape, .row_gap = q_gap},
      {.name = "k", .shape = kv_shape, .row_gap = kv_gap},
      {.name = "v", .shape = kv_shape, .row_gap = kv_gap},
      {.name = "y", .shape = q_shape, .use = Output},
      {.name = "lse", .shape = {o.rows * o.queries, o.heads}, .kind = Wide, .use = Output},
      {.name = "document_start", .shape = {o.rows * o.queries}, .kind = I32, .values = document_starts(o)}};
  if (o.probability > 0) {
    c.tensors.push_back({.name = "step", .shape = {1}, .kind = I64, .values = {23}});
    c.tensors.push_back({.name = "row_ids", .shape = {o.rows}, .kind = I64, .values = {100, 7, 1000000007}});
  }
  if (backward) {
    for (const size_t i : {3, 4}) {
      c.tensors[i].use = Input;
      c.tensors[i].derived = true;
    }
    c.tensors.push_back({.name = "dy", .shape = q_shape});
    c.tensors.push_back({.name = "dq", .shape = q_shape, .use = Output, .row_gap = q_gap});
    c.tensors.push_back({.name = "dk", .shape = kv_shape, .use = Output, .row_gap = kv_gap});
    c.tensors.push_back({.name = "dv", .shape = kv_shape, .use = Output, .row_gap = kv_gap});
  }
  return c;
}

OpCase attention_add_case(const AttentionCase& options, bool begun) {
  OpCase c = attention_case(options, false);
  c.op = "attention_add";
  c.numbers["begun"] = begun ? 1 : 0;
  for (const size_t i : {3, 4}) {
    TensorSpec& spec = c.tensors[i];
    spec.kind = Wide;
    spec.use = InOut;
    spec.row_gap = options.slices ? 3 : 0;
    if (!begun) spec.values = {spec.name == "y" ? 0.0 : -std::numeric_limits<double>::infinity()};
  }
  return c;
}

OpCase attention_backward_add_case(const AttentionCase& options) {
  OpCase c = attention_case(options, true);
  c.op = "attention_backward_add";
  for (TensorSpec& spec : c.tensors) {
    if (spec.use == Output) {
      spec.use = InOut;
      spec.kind = Wide;
    }
    if (spec.name == "y" || spec.name == "lse" || spec.name == "dy") spec.row_gap = options.slices ? 3 : 0;
  }
  return c;
}

void add_attention_cases(std::vector<OpCase>& cases) {
  const std::vector<AttentionCase> list{
      {.queries = 1, .keys = 1, .head_dim = 1},
      {.queries = 7, .keys = 7, .head_dim = 7},
      {.rows = 2, .queries = 33, .keys = 33, .heads = 3, .kv_heads = 3, .head_dim = 20},
      {.rows = 2, .queries = 70, .keys = 70, .heads = 4, .kv_heads = 2, .head_dim = 16, .slices = true},
      {.queries = 65, .keys = 65, .heads = 3, .kv_heads = 1, .head_dim = 80, .documents = {1, 7, 30}},
      {.rows = 3, .queries = 50, .keys = 50, .heads = 2, .kv_heads = 1, .head_dim = 5, .window = 9},
      {.rows = 2,
       .queries = 131,
       .keys = 131,
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 128,
       .window = 40,
       .documents = {50, 1, 60},
       .padding = 5},
      {.queries = 40, .keys = 40, .heads = 2, .kv_heads = 2, .head_dim = 24, .padding = 40},
      {.rows = 2, .queries = 30, .keys = 30, .heads = 4, .kv_heads = 2, .head_dim = 16, .probability = 0.3},
      {.rows = 2,
       .queries = 66,
       .keys = 66,
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 12,
       .documents = {20, 3},
       .probability = 0.1,
       .slices = true},
      // A slice of the queries against slices of the keys, as a ring of ranks sees them.
      {.queries = 20, .keys = 20, .heads = 2, .kv_heads = 2, .head_dim = 16, .query_offset = 40},
      {.queries = 20,
       .keys = 20,
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 16,
       .query_offset = 40,
       .key_offset = 40,
       .documents = {45}},
      {.queries = 20, .keys = 20, .heads = 1, .kv_heads = 1, .head_dim = 16, .key_offset = 20},
      {.rows = 2,
       .queries = 13,
       .keys = 37,
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 10,
       .window = 20,
       .query_offset = 30,
       .key_offset = 11,
       .probability = 0.2},
      // One query against what a cache holds.
      {.queries = 1, .keys = 100, .heads = 4, .kv_heads = 2, .head_dim = 64, .query_offset = 99},
      {.queries = 3, .keys = 61, .heads = 4, .kv_heads = 1, .head_dim = 32, .window = 17, .query_offset = 50},
  };
  for (const bool backward : {false, true})
    for (const AttentionCase& options : list) cases.push_back(attention_case(options, backward));
  for (const AttentionCase& options : list) {
    for (const bool begun : {false, true}) cases.push_back(attention_add_case(options, begun));
    cases.push_back(attention_backward_add_case(options));
  }
}

}  // namespace tessera::test
