// SPDX-License-Identifier: Apache-2.0
// The queries of a rank that holds a part of each row, against keys that come chunk by chunk. Pairs that the
// masks hide are neither computed nor counted, so that the operations of all ranks add up to those of the
// whole sequence.
#pragma once
#include "framework/comm/communicator.h"
#include "framework/nn/attention_core.h"

namespace tessera {

struct KeysValues {
  Tensor k, v;
};
// Of both in one message: k of all tokens above v, [2 n, width].
Tensor empty_stack(Backend& backend, DType dtype, const Tensor& like_k);
Tensor stacked(Backend& backend, const KeysValues& parts);
KeysValues parts_of(const Tensor& stack);

// Throws unless the batch is cut for this rank of the group.
void check_cut(const Batch& batch, const Communicator& group);

// For the gradient of a tensor: itself where sums may be made in its type, else a wider one; filled with 0.
Tensor sums_for(Backend& backend, const Tensor& gradient);
// Rounds the sums, where they are not the gradient itself.
void store_sums(Backend& backend, const Tensor& sums, const Tensor& gradient);

class LocalQueries {
 public:
  // Both must outlive this.
  LocalQueries(const AttentionSettings& settings, Context& context)
      : settings_(settings), context_(context) {}

  // Rows of one half of a tensor of local tokens.
  Tensor half(const Tensor& x, int half) const;
  KeysValues half(const KeysValues& x, int of) const { return {half(x.k, of), half(x.v, of)}; }

  // Keys of each row at positions `range` join the result of one half of the queries.
  void attend(int of, const Tensor& q, const KeysValues& keys, const Range& range,
              const AttentionResult& result) const;
  // Adds the terms of these pairs to dq (of the whole local part), dk and dv (of these keys).
  struct Backward {
    const Tensor &dy, &q;
    const AttentionResult& forward;
    const Tensor& dq;
  };
  void attend_backward(int of, const Backward& queries, const KeysValues& keys, const Range& range,
                       const KeysValues& gradients) const;

  // Positions of one half of the tokens of a rank.
  Range positions(int rank, int half) const;
  int halves() const { return context_.batch.cut.halves(); }

 private:
  AttentionOptions options(int half, const Range& keys) const;

  const AttentionSettings& settings_;
  Context& context_;
};

}  // namespace tessera
