// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/tensor/linear.h"

namespace tessera {

Projection::Activated ColumnLinear::forward_activated(const Tensor& x, Saved& saved, Context& context,
                                                      Activation activation, bool with_derivative) const {
  const Tensor whole = boundary_.gather(x, context).wait(context);
  Activated result = linear_.forward_activated(whole, saved, context, activation, with_derivative);
  if (regather_ && context.training()) linear_.set_input(x, saved);
  return result;
}

void ColumnLinear::forward_again(const Tensor& x, Saved& saved, Context& context) const {
  const bool whole_is_kept = boundary_.cuts_rows() && !regather_;
  linear_.forward_again(whole_is_kept ? boundary_.gather(x, context).wait(context) : x, saved, context);
}

// A whole input that is kept stays: putting this rank's rows back would not bring the others.
void ColumnLinear::set_input(const Tensor& x, Saved& saved) const {
  if (!boundary_.cuts_rows() || regather_) linear_.set_input(x, saved);
}

// All rows of the kept input; undefined where the weight gradient needs none.
Pending ColumnLinear::kept_input(const Saved& saved, Context& context) const {
  const Tensor x = linear_.kept_input(saved);
  return regather_ && x.defined() ? boundary_.gather(x, context) : Pending(x);
}

Tensor ColumnLinear::backward_input_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                                          Context& context) const {
  return boundary_.sum(linear_.backward_input_times(dy, factor, saved, context), context).wait(context);
}

void ColumnLinear::backward_weight(Saved& saved, Context& context) const {
  linear_.set_input(kept_input(saved, context).wait(context), saved);
  linear_.backward_weight(saved, context);
}

// The input travels under the product for its gradient, that gradient under the product for the weight's.
Tensor ColumnLinear::backward_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                                    Context& context) const {
  if (boundary_.ranks() == 1) return linear_.backward_times(dy, factor, saved, context);
  Pending input = kept_input(saved, context);
  const Tensor partial = linear_.backward_input_times(dy, factor, saved, context);
  linear_.set_input(input.wait(context), saved);
  Pending dx = boundary_.sum(partial, context);
  linear_.backward_weight(saved, context);
  return dx.wait(context);
}

// The bias is a term of one rank's sum. Its gradient is the column sum of all rows: with rows cut the first
// rank has it all and the others' terms are zero, otherwise every rank makes the same.
RowLinear::RowLinear(const Weight& weight, const Weight* bias, const Boundary& boundary)
    : linear_(weight, boundary.cuts_rows() && boundary.rank() > 0 ? nullptr : bias,
              boundary.rank() == 0 ? Linear::BiasTerm::Added : Linear::BiasTerm::GradientOnly),
      boundary_(boundary) {}

Projection::Activated RowLinear::forward_activated(const Tensor& x, Saved& saved, Context& context,
                                                   Activation activation, bool with_derivative) const {
  CHECK(activation == Activation::None && !with_derivative,
        "the output of a row linear is a sum over ranks and cannot be activated in its product");
  const Tensor partial = linear_.forward(x, saved, context);
  return {.y = boundary_.sum(partial, context).wait(context), .derivative = {}};
}

void RowLinear::forward_again(const Tensor& x, Saved& saved, Context& context) const {
  linear_.forward_again(x, saved, context);
}

void RowLinear::set_input(const Tensor& x, Saved& saved) const {
  linear_.set_input(x, saved);
}

Tensor RowLinear::backward_input_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                                       Context& context) const {
  return linear_.backward_input_times(boundary_.gather(dy, context).wait(context), factor, saved, context);
}

void RowLinear::backward_weight(Saved& saved, Context& context) const {
  linear_.backward_weight(saved, context);
}

Tensor RowLinear::backward_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                                 Context& context) const {
  return linear_.backward_times(boundary_.gather(dy, context).wait(context), factor, saved, context);
}

}  // namespace tessera
