// SPDX-License-Identifier: Apache-2.0
#include "tests/modules/module_harness.h"

#include <gtest/gtest.h>

#include "framework/ops/memory.h"
#include "tests/support/gradient_check.h"

namespace tessera::test {
namespace {
constexpr uint64_t kInput = 101, kGradient = 102, kParameters = 1000;
constexpr double kLossScale = 0.25;
}  // namespace

ParameterSpec matrix(const std::string& name, int64_t rows, int64_t columns, const std::string& fused) {
  return {.name = name, .shape = {rows, columns}, .role = Role::Matrix, .init = {}, .fused = fused};
}

ParameterSpec vector(const std::string& name, int64_t count, const std::string& fused) {
  return {.name = name, .shape = {count}, .role = Role::Bias, .init = {}, .fused = fused};
}

ModuleHarness::ModuleHarness(std::vector<ParameterSpec> specs)
    : backend_(make_cpu_backend(1, {.poison = true})) {
  store_ = std::make_unique<ParameterStore>(std::move(specs), Mesh({{Axis::Tensor, 1}}), 0);
  buffers_ = std::make_unique<FlatBuffers>(*store_, *backend_,
                                           FlatBufferOptions{.compute = DType::F64, .gradient = DType::F64});
  uint64_t seed = kParameters;
  for (const Parameter& parameter : store_->parameters())
    backend_->copy(some_tensor(*backend_, parameter.master.shape(), ++seed), parameter.master);
  batch_ = make_batch(*backend_, {.rows = {some_tokens(7, 11, 1), some_tokens(7, 11, 2)},
                                  .documents = {{1, 6}, {4, 3}},
                                  .row_ids = {5, 2}});
  const int64_t step_number = 3;
  step_ = {.step = Steps(step_number),
           .step_number = from_host<int64_t>(*backend_, std::span(&step_number, 1), {1}),
           .loss_scale = from_host<double>(*backend_, std::span(&kLossScale, 1), {1})};
  loss_total_ = zeros(*backend_, DType::F64, {1});
}

Context ModuleHarness::context() {
  return {
      .backend = *backend_, .batch = batch_, .step = step_, .metrics = silent_, .loss_total = loss_total_};
}

double ModuleHarness::objective(const Module& module, const Tensor& x, bool head) {
  Saved saved;
  Context ctx = context();
  backend_->fill(loss_total_, 0);
  const std::vector<double> y = to_host_double(*backend_, module.forward(x, saved, ctx));
  if (head) return kLossScale * to_host<double>(*backend_, loss_total_)[0];
  const std::vector<double> factors = some_values(static_cast<int64_t>(y.size()), kGradient);
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * factors[i];
  return sum;
}

NamedValues ModuleHarness::parameter_gradients() {
  NamedValues values;
  for (const Parameter& parameter : store_->parameters())
    if (parameter.gradient.defined())
      values[parameter.spec.name] = to_host<double>(*backend_, parameter.gradient);
  return values;
}

void ModuleHarness::check(const Module& module, int64_t width, bool head) {
  const int64_t n = batch_.rows * batch_.length;
  const Tensor x = width > 0 ? some_tensor(*backend_, {n, width}, kInput) : Tensor();
  Saved saved;
  Context ctx = context();

  const Tensor y = module.forward(x, saved, ctx);
  const Tensor dy = some_tensor(*backend_, y.shape(), kGradient);
  buffers_->clear_gradients();
  Tensor dx = module.backward(dy, saved, ctx);
  EXPECT_TRUE(saved.empty());
  const NamedValues whole = parameter_gradients();
  const std::vector<double> whole_dx = dx.defined() ? to_host<double>(*backend_, dx) : std::vector<double>();

  module.forward(x, saved, ctx);
  buffers_->clear_gradients();
  dx = module.backward_input(dy, saved, ctx);
  const std::vector<double> split_dx = dx.defined() ? to_host<double>(*backend_, dx) : std::vector<double>();
  dx = {};
  module.backward_weight(saved, ctx);
  EXPECT_TRUE(saved.empty());
  expect_same_bits(whole_dx, split_dx, "dx");
  for (const auto& [name, values] : parameter_gradients()) expect_same_bits(whole.at(name), values, name);

  if (width > 0)
    expect_same_bits(to_host<double>(*backend_, x), some_values(x.elements(), kInput), "x after backward");
  expect_same_bits(to_host<double>(*backend_, dy), some_values(dy.elements(), kGradient),
                   "dy after backward");

  const auto run = [&] { return objective(module, x, head); };
  if (width > 0) expect_gradient(*backend_, "dx", x, whole_dx, run);
  for (const Parameter& parameter : store_->parameters())
    if (parameter.gradient.defined())
      expect_gradient(*backend_, parameter.spec.name, parameter.master, whole.at(parameter.spec.name), run);
}

}  // namespace tessera::test
