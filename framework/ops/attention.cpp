// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/attention.h"

#include <limits>

#include "framework/ops/checks.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {
using detail::check_like;
using detail::check_matrix;
using detail::check_vector;

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  for (const auto& [name, x] : {std::pair{"q", q}, {"k", k}, {"v", v}}) check_matrix("attention", name, x);
  const int64_t rows = options.rows, heads = options.heads, kv_heads = options.kv_heads;
  CHECK(rows > 0 && heads > 0 && kv_heads > 0 && heads % kv_heads == 0,
        "attention: {} rows, {} heads, {} key heads: the heads must share the key heads evenly", rows, heads,
        kv_heads);
  CHECK(q.size(1) % heads == 0 && q.size(0) % rows == 0 && k.size(0) % rows == 0,
        "attention: q {} and k {} do not hold {} rows of {} heads", q.describe(), k.describe(), rows, heads);
  const int64_t head_dim = q.size(1) / heads;
  CHECK(k.dtype() == q.dtype() && k.size(1) == kv_heads * head_dim,
        "attention: k {} for {} key heads of {} columns", k.describe(), kv_heads, head_dim);
  check_like("attention", "v", v, q.dtype(), k.shape());
  check_vector("attention", "document_start", options.mask.document_start, DType::I32, q.size(0));
  const AttentionDropout& dropout = options.dropout;
  CHECK(dropout.probability >= 0 && dropout.probability < 1, "attention: dropout of {}", dropout.probability);
  if (dropout.probability > 0) {
    check_vector("attention", "step", dropout.step, DType::I64, 1);
    check_vector("attention", "row_ids", dropout.row_ids, DType::I64, rows);
  }
}

void check_rope(const Tensor& x, const Tensor& table, const Tensor& positions, int64_t head_dim) {
  check_matrix("rope", "x", x);
  CHECK(head_dim > 0 && x.size(1) % head_dim == 0, "rope: {} has no heads of {} columns", x.describe(),
        head_dim);
  CHECK(table.defined() && table.shape().rank() == 2 && table.packed() && table.size(1) % 2 == 0 &&
            table.size(1) <= head_dim && table.dtype() == statistics_type(x.dtype()),
        "rope: a table {} for heads of {} columns of {}", table.defined() ? table.describe() : "no tensor",
        head_dim, name_of(x.dtype()));
  check_vector("rope", "positions", positions, DType::I32, x.size(0));
}

void run_forward(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionResult& result, const AttentionOptions& options, bool accumulate) {
  backend.flops().add(4 * options.visible_pairs * q.size(1));
  backend.attention({.q = q,
                     .k = k,
                     .v = v,
                     .y = result.y,
                     .lse = result.lse,
                     .rows = options.rows,
                     .heads = options.heads,
                     .kv_heads = options.kv_heads,
                     .scale = options.scale,
                     .mask = options.mask,
                     .dropout = options.dropout,
                     .accumulate = accumulate});
}

struct BackwardInputs {
  const Tensor &dy, &q, &k, &v;
};

void check_gradients(const char* op, const BackwardInputs& in, const AttentionResult& forward,
                     const AttentionGradients& gradients, DType dtype) {
  check_like(op, "dy", in.dy, in.q.dtype(), in.q.shape());
  check_like(op, "y", forward.y, in.q.dtype(), in.q.shape());
  check_like(op, "dq", gradients.dq, dtype, in.q.shape());
  check_like(op, "dk", gradients.dk, dtype, in.k.shape());
  check_like(op, "dv", gradients.dv, dtype, in.v.shape());
}

void run_backward(Backend& backend, const BackwardInputs& in, const AttentionResult& forward,
                  const AttentionGradients& gradients, const AttentionOptions& options, bool accumulate) {
  FlopCounter& flops = backend.flops();
  const int64_t product = 2 * options.visible_pairs * in.q.size(1);
  flops.add(4 * product);
  flops.hardware += product;  // the scores again
  backend.attention_backward({.dy = in.dy,
                              .q = in.q,
                              .k = in.k,
                              .v = in.v,
                              .y = forward.y,
                              .lse = forward.lse,
                              .dq = gradients.dq,
                              .dk = gradients.dk,
                              .dv = gradients.dv,
                              .rows = options.rows,
                              .heads = options.heads,
                              .kv_heads = options.kv_heads,
                              .scale = options.scale,
                              .mask = options.mask,
                              .dropout = options.dropout,
                              .accumulate = accumulate});
}
}  // namespace

AttentionResult attention(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options) {
  check_attention(q, k, v, options);
  AttentionResult result{empty(backend, q.dtype(), q.shape()),
                         empty(backend, statistics_type(q.dtype()), {q.size(0), options.heads})};
  run_forward(backend, q, k, v, result, options, false);
  return result;
}

AttentionResult nothing_attended(Backend& backend, const Tensor& q, int64_t heads) {
  check_matrix("attention", "q", q);
  const DType wide = statistics_type(q.dtype());
  AttentionResult result{zeros(backend, wide, q.shape()), empty(backend, wide, {q.size(0), heads})};
  backend.fill(result.lse, -std::numeric_limits<double>::infinity());
  return result;
}

void attention_add(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionResult& result, const AttentionOptions& options) {
  check_attention(q, k, v, options);
  const DType wide = statistics_type(q.dtype());
  check_like("attention_add", "y", result.y, wide, q.shape());
  check_like("attention_add", "lse", result.lse, wide, {q.size(0), options.heads});
  run_forward(backend, q, k, v, result, options, true);
}

void attention_backward(Backend& backend, const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& forward, const AttentionGradients& gradients,
                        const AttentionOptions& options) {
  check_attention(q, k, v, options);
  check_gradients("attention_backward", {dy, q, k, v}, forward, gradients, q.dtype());
  check_vector("attention_backward", "lse", forward.lse, statistics_type(q.dtype()),
               q.size(0) * options.heads);
  run_backward(backend, {dy, q, k, v}, forward, gradients, options, false);
}

void attention_backward_add(Backend& backend, const Tensor& dy, const Tensor& q, const Tensor& k,
                            const Tensor& v, const AttentionResult& forward,
                            const AttentionGradients& gradients, const AttentionOptions& options) {
  check_attention(q, k, v, options);
  const DType wide = statistics_type(q.dtype());
  check_gradients("attention_backward_add", {dy, q, k, v}, forward, gradients, wide);
  check_like("attention_backward_add", "lse", forward.lse, wide, {q.size(0), options.heads});
  run_backward(backend, {dy, q, k, v}, forward, gradients, options, true);
}

void rope(Backend& backend, const Tensor& x, const Tensor& table, const Tensor& positions, int64_t head_dim) {
  check_rope(x, table, positions, head_dim);
  backend.rope({.x = x, .table = table, .positions = positions, .head_dim = head_dim});
}

void rope_backward(Backend& backend, const Tensor& dx, const Tensor& table, const Tensor& positions,
                   int64_t head_dim) {
  check_rope(dx, table, positions, head_dim);
  backend.rope({.x = dx, .table = table, .positions = positions, .head_dim = head_dim, .inverse = true});
}

}  // namespace tessera
