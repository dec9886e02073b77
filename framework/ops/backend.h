// SPDX-License-Identifier: Apache-2.0
// What a device can compute: coarse calls that take argument structs. Outputs are allocated by the caller
// (the functions of ops/*.h), which has also checked shapes and types: a Backend only computes. Softmax,
// norms, losses and long sums compute in fp32 (F64 when the tensors are F64), whatever the storage type.
// Values that change from step to step reach a kernel through memory (tensors of one element), and no
// shape depends on them. All calls are enqueued on the compute stream.
//
// "Accumulator" below is the type of gradients: F32, or F64 beside F64 tensors, or the compute type.
// "+=" adds to what is there, "=" overwrites. Matrices may be column slices (row_stride > columns).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "framework/base/random.h"
#include "framework/tensor/allocator.h"
#include "framework/tensor/tensor.h"

namespace tessera {

enum class Activation : uint8_t { None, Gelu, GeluTanh, Silu, Relu };

// c = activation(alpha * op(a) op(b) + beta * c + bias) * multiply.
// For F32 and F64 results `activation` and `derivative` have the bits that activation() and
// activation_backward() compute from the stored argument, so that a recomputed activation is exact.
struct MatmulArgs {
  Tensor a, b;               // matrices of one type
  Tensor c;                  // same type, or the accumulator type
  bool transpose_a = false;  // op(a) = a^T
  bool transpose_b = false;
  float alpha = 1, beta = 0;  // beta = 0 never reads c
  Tensor bias = {};           // [n] or undefined
  Activation activation = Activation::None;
  Tensor derivative = {};  // [m, n] or undefined: = activation'(its argument), in c's type
  Tensor multiply = {};    // [m, n] or undefined: the last factor, for the backward of an activation
};

// y = (x - mean) * inv_std * gain + bias over each row.
struct LayerNormArgs {
  Tensor x, gain, bias;  // [n, width], [width], [width]
  Tensor y;              // [n, width]
  Tensor mean, inv_std;  // [n] accumulator-typed statistics (F32, or F64 beside F64)
  double epsilon;
};
struct LayerNormBackwardArgs {
  Tensor dy, x, gain, mean, inv_std;
  Tensor dx;            // =
  Tensor dgain, dbias;  // [width] +=; undefined when frozen
};

// y = x * inv_rms * gain over each group of gain.size() columns; a row holds columns / width groups.
struct RmsNormArgs {
  Tensor x, gain;  // [n, groups * width], [width]
  Tensor y;        // may be x itself
  Tensor inv_rms;  // [n, groups]
  double epsilon;
};
struct RmsNormBackwardArgs {
  Tensor dy, x, gain, inv_rms;
  Tensor dx;     // =; may be dy itself
  Tensor dgain;  // [width] +=; undefined when frozen
};

struct ActivationArgs {
  Activation kind;
  Tensor x, y;  // y may be x
};
struct ActivationBackwardArgs {
  Activation kind;
  Tensor dy, x;
  Tensor dx;  // = dy * activation'(x); may be dy
};

// gate_up is [n, 2 * width]: y = activation(gate) * up.
struct GatedActivationArgs {
  Activation kind;
  Tensor gate_up, y;
};
struct GatedActivationBackwardArgs {
  Activation kind;
  Tensor dy, gate_up;
  Tensor dgate_up;  // =; may be gate_up
};

// Keys j that query i of a row sees: document_start[i] <= j <= i, and i - j < window when window > 0,
// with i and j counted from the row's first token (query_offset and key_offset say where the slices
// begin). A query that sees no key gives 0 and a log-sum-exp of -infinity.
struct AttentionMask {
  Tensor document_start;  // I32 [rows * queries]: the first visible position of each query
  int64_t window = 0;     // 0: no window
  int64_t query_offset = 0, key_offset = 0;
};
// Dropout of attention weights as a function of logical position. The weight of query i and key j (counted
// from the row's first token) in head h of the model is kept, and divided by 1 - probability, when
// philox(mixed(mixed(key, step), row id), h * 2^32 + i, j / 4)[j % 4] < llround((1 - probability) * 2^32).
struct AttentionDropout {
  double probability = 0;
  RandomKey key;
  Tensor step;              // I64 [1]
  Tensor row_ids;           // I64 [rows]: the row's number in the global batch
  int64_t head_offset = 0;  // of the first local head
};
struct AttentionArgs {
  Tensor q, k,
      v;       // [rows * queries, heads * head_dim], [rows * keys, kv_heads * head_dim] twice; slices allowed
  Tensor y;    // [rows * queries, heads * head_dim]
  Tensor lse;  // [rows * queries, heads], statistics type: log of the sum of exp(scale * q k)
  int64_t rows, heads, kv_heads;
  double scale;
  AttentionMask mask;
  AttentionDropout dropout = {};
  // y and lse hold the result over other keys (0 and -infinity when there were none), which these keys join:
  // afterwards they hold the result over both. y is of the statistics type then, y and lse may be slices.
  bool accumulate = false;
};
struct AttentionBackwardArgs {
  Tensor dy, q, k, v, y, lse;  // y and lse: over all keys that the queries see, also those not in k
  Tensor dq, dk, dv;           // =; slices allowed
  int64_t rows, heads, kv_heads;
  double scale;
  AttentionMask mask;
  AttentionDropout dropout = {};
  bool accumulate = false;  // += to dq, dk and dv, of the statistics type then; dy, y and lse may be slices
};

// Rotates the first rotary_dim columns of each head in place: halves against each other (Hugging Face).
struct RopeArgs {
  Tensor x;          // [n, heads * head_dim], slice allowed
  Tensor table;      // [positions, rotary_dim]: cosines of rotary_dim / 2 angles, then their sines
  Tensor positions;  // I32 [n]
  int64_t head_dim;
  bool inverse = false;  // the transpose: the backward
};

struct EmbeddingArgs {
  Tensor table;    // [rows, width]: rows first_row ... of the logical table
  Tensor indices;  // I32 [n]
  Tensor y;        // [n, width]; 0 for an index outside the local rows
  int64_t first_row = 0;
  bool accumulate = false;  // += instead of =
};
struct EmbeddingBackwardArgs {
  Tensor dy, indices;
  Tensor dtable;  // += ; each row's terms in the order of the tokens
  int64_t first_row = 0;
};

// Cross entropy in three calls, so that a vocabulary cut over ranks needs two small collectives between
// the first two (with cross_entropy_rescale between the collectives). stats is [n, 4]: local maximum, sum of
// exp(x - maximum), the target's logit (0 when it is not local), sum of logits (for label smoothing).
struct CrossEntropyStatsArgs {
  Tensor logits;   // [n, local classes]
  Tensor targets;  // I32 [n], logical class; a negative target is none
  Tensor stats;    // [n, 4] statistics type, =
  int64_t first_class = 0;
};
// Turns statistics against each row's own maximum into statistics against a common one.
struct CrossEntropyRescaleArgs {
  Tensor stats;    // [n, 4], in place: sum of exp(x - maximum) changes with the maximum
  Tensor maximum;  // [n], not below the old one
};
// loss[i] = (1 - s) * (lse - target logit) + s * (lse - mean logit); total += sum of weight * loss.
struct CrossEntropyLossArgs {
  Tensor stats, targets;
  Tensor weights;  // F32 [n]: a row of weight 0 has no influence at all, whatever its logits
  Tensor loss;     // [n] statistics type, = ; unweighted, 0 where the weight is 0
  Tensor total;    // F64 [1], or [1 + groups], +=
  double label_smoothing;
  int64_t classes;     // logical
  Tensor groups = {};  // I32 [n] or undefined: total[1 + groups[i]] gets what row i adds to total[0]
};
// Overwrites logits with their gradient: weight * scale * d loss / d logit.
struct CrossEntropyBackwardArgs {
  Tensor logits, stats, targets, weights;
  Tensor scale;  // F64 [1]
  double label_smoothing;
  int64_t classes;
  int64_t first_class = 0;
};

// y = residual + x * mask / (1 - probability). With c = column_offset + column, the mask of an element is 1
// when philox(mixed(key, step), row_index, c / 4)[c % 4] < llround((1 - probability) * 2^32), else 0.
struct DropoutArgs {
  Tensor x, y;           // [n, width]; y may be x
  Tensor residual = {};  // [n, width] or undefined
  double probability;
  RandomKey key;
  Tensor step;       // I64 [1]
  Tensor row_index;  // I64 [n]: the token's number in the global batch
  int64_t column_offset = 0;
};

// Rows of a parameter's local box: element (r, c) has global index i = first_index + r * row_pitch + c and
// becomes std * normal_from_bits(philox(key, i / 4)[i % 4]).
struct InitNormalArgs {
  Tensor value;  // F32 or F64 matrix
  RandomKey key;
  double std;
  int64_t first_index = 0;
  int64_t row_pitch;
};

// One AdamW update (Loshchilov and Hutter 2019) of a flat range; the decay is decoupled.
struct AdamwArgs {
  Tensor master, m, v;  // F32 (F64 in gradient checks)
  Tensor gradient;      // accumulator type
  Tensor value;         // compute type: = rounded master; may be the master itself
  Tensor scalars;       // F64 [4]: learning rate, 1 - beta1^t, 1 - beta2^t, factor on the gradient
  double beta1, beta2, epsilon, weight_decay, learning_rate_factor;
};
// velocity = momentum * velocity + g; master -= lr * velocity; decay is decoupled: master -= lr * wd *
// master.
struct SgdArgs {
  Tensor master, gradient, value, scalars;  // scalars as for AdamW
  Tensor velocity;                          // undefined when momentum is 0
  double momentum, weight_decay, learning_rate_factor;
};

// Buckets of a histogram, by sign and size: one in the middle for what is smaller than 2^kFirst, beside it on
// either side four to each octave [2^e, 2^(e+1)), of equal width, up to 2^kLast. The outermost take all that
// is larger, and what is no number.
struct HistogramBuckets {
  static constexpr int kFirst = -60, kLast = 20;
  static constexpr int kEachSide = 4 * (kLast - kFirst), kCount = 2 * kEachSide + 1;
};

// Operations that ran: two per multiply-add of matmul and attention. What is repeated for recomputation
// counts as hardware work only.
struct FlopCounter {
  int64_t model = 0;
  int64_t hardware = 0;
  bool recomputing = false;
  void add(int64_t operations) {
    hardware += operations;
    if (!recomputing) model += operations;
  }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device device() const = 0;
  virtual Allocator& allocator() = 0;
  virtual Stream& compute_stream() = 0;
  virtual Stream& comm_stream() = 0;
  // True when the host may read and write tensors at their address at any time: messages then need no
  // staging.
  virtual bool host_addressable() const { return false; }
  FlopCounter& flops() { return flops_; }

  virtual void matmul(const MatmulArgs&) = 0;
  virtual void layer_norm(const LayerNormArgs&) = 0;
  virtual void layer_norm_backward(const LayerNormBackwardArgs&) = 0;
  virtual void rms_norm(const RmsNormArgs&) = 0;
  virtual void rms_norm_backward(const RmsNormBackwardArgs&) = 0;
  virtual void activation(const ActivationArgs&) = 0;
  virtual void activation_backward(const ActivationBackwardArgs&) = 0;
  virtual void gated_activation(const GatedActivationArgs&) = 0;
  virtual void gated_activation_backward(const GatedActivationBackwardArgs&) = 0;
  virtual void attention(const AttentionArgs&) = 0;
  virtual void attention_backward(const AttentionBackwardArgs&) = 0;
  virtual void rope(const RopeArgs&) = 0;
  virtual void embedding(const EmbeddingArgs&) = 0;
  virtual void embedding_backward(const EmbeddingBackwardArgs&) = 0;
  virtual void cross_entropy_stats(const CrossEntropyStatsArgs&) = 0;
  virtual void cross_entropy_rescale(const CrossEntropyRescaleArgs&) = 0;
  virtual void cross_entropy_loss(const CrossEntropyLossArgs&) = 0;
  virtual void cross_entropy_backward(const CrossEntropyBackwardArgs&) = 0;
  virtual void dropout(const DropoutArgs&) = 0;

  virtual void fill(const Tensor& x, double value) = 0;
  // Same shape, any two element types of the same kind: converts. Slices allowed.
  virtual void copy(const Tensor& from, const Tensor& to) = 0;
  virtual void add(const Tensor& a, const Tensor& b, const Tensor& y) = 0;  // y may be a or b
  virtual void scale(const Tensor& x, double factor) = 0;
  // out[c] += sum over rows of x[., c], in an order fixed by the number of rows; out is accumulator-typed.
  virtual void column_sum(const Tensor& x, const Tensor& out) = 0;
  // out = terms[0] + terms[1] + ... in that order, in fp32 (F64), rounded once. out may be a term.
  virtual void sum(std::span<const Tensor> terms, const Tensor& out) = 0;
  // out (F64 [1]) += sum of squares, in a fixed order; not finite when an element is not.
  virtual void sum_squares(const Tensor& x, const Tensor& out) = 0;
  // out (F64 [1]) += sum of squares of x - y, in a fixed order. Packed tensors of one type.
  virtual void sum_squared_differences(const Tensor& x, const Tensor& y, const Tensor& out) = 0;
  // counts (I64 [HistogramBuckets::kCount]) += elements of x, which is packed, in each bucket; sum (F64 [1])
  // += their sum, in a fixed order.
  virtual void histogram(const Tensor& x, const Tensor& counts, const Tensor& sum) = 0;

  virtual void init_normal(const InitNormalArgs&) = 0;
  virtual void adamw(const AdamwArgs&) = 0;
  virtual void sgd(const SgdArgs&) = 0;

  // Between host memory and packed tensors of the same byte size; done when the call returns.
  virtual void upload(std::span<const std::byte> from, const Tensor& to) = 0;
  virtual void download(const Tensor& from, std::span<std::byte> to) = 0;

 private:
  FlopCounter flops_;
};

// The type of statistics (means, log-sum-exp) that belong to tensors of this type.
inline DType statistics_type(DType compute) {
  return compute == DType::F64 ? DType::F64 : DType::F32;
}

}  // namespace tessera
