// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/recompute.h"

#include <gtest/gtest.h>

#include "framework/backends/shape/shape_backend.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

struct NoMetrics final : MetricSink {
  void add(std::string_view, double) override {}
};

// Decides something in its first forward, pins it, and tells how it is called.
class Probe final : public Module {
 public:
  struct Calls {
    int forwards = 0, decisions = 0, recomputing = 0;
    bool fail = false;
  };
  explicit Probe(Calls& calls) : calls_(calls) {}
  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override {
    ++calls_.forwards;
    if (context.recomputing) ++calls_.recomputing;
    EXPECT_EQ(context.recomputing, context.backend.flops().recomputing);
    if (calls_.fail) fail(ExitCode::Communication, "probe");
    if (!saved.pinned(0).defined()) {
      ++calls_.decisions;
      saved.pin(0, empty(context.backend, DType::I32, {5}));
    }
    saved.keep(empty(context.backend, DType::F32, {1003}));
    return empty(context.backend, x.dtype(), x.shape());
  }
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override {
    EXPECT_FALSE(context.recomputing) << "only the forward is repeated";
    EXPECT_TRUE(saved.pinned(0).defined());
    saved.tensors<1>();
    return empty(context.backend, dy.dtype(), dy.shape());
  }
  void backward_weight(Saved& saved, Context&) const override { saved.clear(); }

 private:
  Calls& calls_;
};

class RecomputeTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_shape_backend();
  Batch batch;
  StepInfo step;
  NoMetrics metrics;
  Context context{.backend = *backend, .batch = batch, .step = step, .metrics = metrics};
  Probe::Calls calls;
  RecomputeModule module{std::make_unique<Probe>(calls)};
  Tensor x = empty(*backend, DType::F32, {3});
  Saved saved;
};

TEST_F(RecomputeTest, KeepsTheInputAndWhatIsPinned) {
  module.forward(x, saved, context);
  EXPECT_EQ(saved.bytes(), x.storage()->bytes() + 5 * 4);
  module.backward(x, saved, context);
  EXPECT_TRUE(saved.empty());
  EXPECT_EQ(calls.forwards, 2);
  EXPECT_EQ(calls.recomputing, 1);
  EXPECT_EQ(calls.decisions, 1);
}

TEST_F(RecomputeTest, HalvesRunTheForwardOnce) {
  module.forward(x, saved, context);
  module.backward_input(x, saved, context);
  module.backward_weight(saved, context);
  EXPECT_TRUE(saved.empty());
  EXPECT_EQ(calls.forwards, 2);
}

TEST_F(RecomputeTest, AnExceptionLeavesTheFlagsAsTheyWere) {
  module.forward(x, saved, context);
  calls.fail = true;
  EXPECT_THROW(module.backward(x, saved, context), Error);
  EXPECT_FALSE(context.recomputing);
  EXPECT_FALSE(backend->flops().recomputing);
}

TEST_F(RecomputeTest, ScopesNest) {
  const RecomputeScope outer(context);
  { const RecomputeScope inner(context); }
  EXPECT_TRUE(context.recomputing);
  EXPECT_TRUE(backend->flops().recomputing);
}

TEST_F(RecomputeTest, BackwardWithoutForwardIsRefused) {
  EXPECT_THROW(module.backward(x, saved, context), Error);
  module.forward(x, saved, context);
  EXPECT_THROW(module.backward_weight(saved, context), Error);
}

}  // namespace
}  // namespace tessera
