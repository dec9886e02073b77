// SPDX-License-Identifier: Apache-2.0
// Both families against PyTorch in double precision: loss, every gradient, weights after three AdamW steps.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/memory.h"
#include "tests/golden/golden_case.h"
#include "tests/support/norm.h"
#include "tests/support/tiny_model.h"

namespace tessera::test {
namespace {

// ||a - b|| <= tolerance * max(||b||, 1e-3 * norm of all): the rule of CONFIG.
void expect_agrees(const std::vector<double>& a, const std::vector<double>& b, double tolerance,
                   double norm_of_all, const std::string& name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  std::vector<double> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(std::isfinite(a[i])) << name << "[" << i << "] = " << a[i];
    difference[i] = a[i] - b[i];
  }
  EXPECT_LE(norm_of(difference), tolerance * std::max(norm_of(b), 1e-3 * norm_of_all)) << name;
}

struct Precision {
  DType compute;
  double tolerance;
};
void PrintTo(const Precision& precision, std::ostream* out) {
  *out << name_of(precision.compute);
}

class Golden : public testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  void SetUp() override {
    model_ = std::make_unique<TinyModel>(
        *backend_, golden_.config,
        TinyModelOptions{
            .compute = precision_.compute, .sequence_length = golden_.config.train.seq_length, .spread = 0});
    for (Parameter& parameter : model_->store().parameters()) {
      const std::vector<float>& start = golden_.tensors.at(parameter.spec.name).initial;
      backend_->copy(from_host<float>(*backend_, start, parameter.spec.shape), parameter.master);
    }
    for (const ParameterShard& shard : model_->buffers().shards()) {
      m_.push_back(zeros(*backend_, shard.master.dtype(), shard.master.shape()));
      v_.push_back(zeros(*backend_, shard.master.dtype(), shard.master.shape()));
    }
  }

  // One step's forward and backward with the loss divided by the weight sum; returns the loss.
  double gradients(const Batch& batch) {
    model_->buffers().clear_gradients();
    const double scale = 1 / batch.weight_sum;
    backend_->upload(std::as_bytes(std::span(&scale, 1)), model_->step().loss_scale);
    model_->forward(batch);
    model_->backward(batch);
    return model_->loss() * scale;
  }

  double gradient_norm() {
    const Tensor sum = zeros(*backend_, DType::F64, {1});
    for (const ParameterShard& shard : model_->buffers().shards()) backend_->sum_squares(shard.gradient, sum);
    return std::sqrt(to_host<double>(*backend_, sum)[0]);
  }

  void adamw(size_t step, double norm) {
    const double t = static_cast<double>(step + 1);
    const std::vector<double> scalars = {golden_.learning_rates[step], 1 - std::pow(golden_.beta1, t),
                                         1 - std::pow(golden_.beta2, t), std::min(1.0, golden_.clip / norm)};
    const Tensor device_scalars = from_host<double>(*backend_, scalars, {4});
    const auto shards = model_->buffers().shards();
    for (size_t i = 0; i < shards.size(); ++i)
      backend_->adamw({.master = shards[i].master,
                       .m = m_[i],
                       .v = v_[i],
                       .gradient = shards[i].gradient,
                       .value = shards[i].value,
                       .scalars = device_scalars,
                       .beta1 = golden_.beta1,
                       .beta2 = golden_.beta2,
                       .epsilon = golden_.epsilon,
                       .weight_decay = shards[i].parameter->spec.decays() ? golden_.weight_decay : 0,
                       .learning_rate_factor = 1});
  }

  const GoldenCase golden_ = read_golden(std::get<0>(GetParam()));
  const Precision precision_ = std::get<1>(GetParam());
  const std::unique_ptr<Backend> backend_ = make_cpu_backend(1, {.poison = true});
  std::unique_ptr<TinyModel> model_;
  std::vector<Tensor> m_, v_;
};

TEST_P(Golden, TableOfParameters) {
  const auto parameters = model_->store().parameters();
  EXPECT_EQ(parameters.size(), golden_.tensors.size());
  for (const Parameter& parameter : parameters) {
    const ParameterSpec& spec = parameter.spec;
    ASSERT_TRUE(golden_.tensors.contains(spec.name)) << spec.name;
    const GoldenTensor& expected = golden_.tensors.at(spec.name);
    EXPECT_EQ(spec.shape.to_string(), Shape(std::span<const int64_t>(expected.shape)).to_string())
        << spec.name;
    EXPECT_EQ(spec.decays(), expected.decays) << spec.name;
  }
}

TEST_P(Golden, LossAndEveryGradient) {
  const double loss = gradients(make_batch(*backend_, golden_.batches[0]));
  EXPECT_NEAR(loss, golden_.losses[0], precision_.tolerance * golden_.losses[0]);
  EXPECT_NEAR(gradient_norm(), golden_.gradient_norms[0], precision_.tolerance * golden_.gradient_norms[0]);
  for (const auto& [name, values] : model_->gradients())
    expect_agrees(values, golden_.tensors.at(name).gradient, precision_.tolerance, golden_.gradient_norms[0],
                  name);
}

TEST_P(Golden, WeightsAfterThreeSteps) {
  for (size_t step = 0; step < golden_.batches.size(); ++step) {
    const double loss = gradients(make_batch(*backend_, golden_.batches[step]));
    EXPECT_NEAR(loss, golden_.losses[step], precision_.tolerance * golden_.losses[step]) << step;
    const double norm = gradient_norm();
    EXPECT_NEAR(norm, golden_.gradient_norms[step], precision_.tolerance * golden_.gradient_norms[step]);
    adamw(step, norm);
  }
  double all = 0;
  for (const auto& [name, tensor] : golden_.tensors) all = std::hypot(all, norm_of(tensor.final));
  for (const Parameter& parameter : model_->store().parameters())
    expect_agrees(to_host_double(*backend_, parameter.master), golden_.tensors.at(parameter.spec.name).final,
                  precision_.tolerance, all, parameter.spec.name);
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden,
                         testing::Combine(testing::ValuesIn(golden_names()),
                                          testing::Values(Precision{DType::F32, 1e-5},
                                                          Precision{DType::F64, 1e-10})),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::string(name_of(std::get<1>(info.param).compute));
                         });

}  // namespace
}  // namespace tessera::test
