// SPDX-License-Identifier: Apache-2.0
// Linear maps cut over the tensor ranks. A column linear holds rows of W (its output features lie on
// different ranks) and enters what is cut; a row linear holds columns of W and leaves it. On one rank both
// are Linear.
#pragma once
#include "framework/nn/linear.h"
#include "framework/parallel/tensor/boundary.h"

namespace tessera {

class ColumnLinear final : public Projection {
 public:
  // With rows cut and `regather`, the input is kept as this rank's rows and gathered again in backward, under
  // the product for the input's gradient; without, all of its rows are kept.
  ColumnLinear(const Weight& weight, const Weight* bias, const Boundary& boundary, bool regather)
      : linear_(weight, bias), boundary_(boundary), regather_(regather && boundary.cuts_rows()) {}

  void backward_weight(Saved& saved, Context& context) const override;
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;
  Activated forward_activated(const Tensor& x, Saved& saved, Context& context, Activation activation,
                              bool with_derivative) const override;
  Tensor backward_input_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                              Context& context) const override;
  Tensor backward_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                        Context& context) const override;
  void set_input(const Tensor& x, Saved& saved) const override;

 private:
  Pending kept_input(const Saved& saved, Context& context) const;

  Linear linear_;
  Boundary boundary_;
  bool regather_;
};

class RowLinear final : public Projection {
 public:
  RowLinear(const Weight& weight, const Weight* bias, const Boundary& boundary);

  void backward_weight(Saved& saved, Context& context) const override;
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;
  // Only without an activation: the terms of a sum cannot pass through one.
  Activated forward_activated(const Tensor& x, Saved& saved, Context& context, Activation activation,
                              bool with_derivative) const override;
  Tensor backward_input_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                              Context& context) const override;
  Tensor backward_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                        Context& context) const override;
  void set_input(const Tensor& x, Saved& saved) const override;

 private:
  Linear linear_;
  Boundary boundary_;
};

}  // namespace tessera
