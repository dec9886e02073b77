// SPDX-License-Identifier: Apache-2.0
// Token rows, plus learned position rows, plus dropout: the first unit. It reads the batch and ignores its
// input; it has no input gradient. Each tensor rank holds some rows of the token table and gives zeros for
// the others' tokens; the sum over ranks has them all.
#pragma once
#include "framework/nn/residual.h"
#include "framework/parallel/tensor/boundary.h"

namespace tessera {

class Embedding final : public Module {
 public:
  struct Tables {
    const Weight& tokens;               // [rows here, hidden]
    int64_t first_token = 0;            // the model's number of the first row here
    const Weight* positions = nullptr;  // [positions, hidden], or null
  };
  Embedding(const Tables& tables, const HiddenDropout& dropout, const Boundary& boundary = {})
      : tables_(tables), dropout_(dropout), boundary_(boundary) {}

  Tensor forward(const Tensor& ignored, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;  // undefined
  void backward_weight(Saved& saved, Context& context) const override;

 private:
  Tables tables_;
  HiddenDropout dropout_;
  Boundary boundary_;
};

}  // namespace tessera
