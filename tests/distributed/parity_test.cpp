// SPDX-License-Identifier: Apache-2.0
// The same model whatever the layout (K1 to K5, K10, K14): gradients of step 1, losses, norms and weights of
// runs that differ only in how the work is cut.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>

#include "tests/support/parity_data.h"
#include "tests/support/protected_backend.h"

namespace tessera::test {
namespace {

TEST(Parity, MicroBatchSizeAndRanksChangeNothing) {
  const RunOptions options{.steps = 5, .edit = thin_out};
  const RunRecord reference =
      run_fixture(fixture_config(varlen() + Keys{"train.micro_batch_size=8"}), options);
  EXPECT_GT(reference.tokens[0], 50);
  for (const int dp : {1, 2, 3, 4})
    for (const int micro : {1, 2, 4, 8}) {
      const Keys keys{"parallel.dp=" + std::to_string(dp), "train.micro_batch_size=" + std::to_string(micro)};
      expect_parity(run_fixture(fixture_config(varlen() + keys), options), reference,
                    keys[0] + " " + keys[1]);
    }
}

TEST(Parity, BothFamiliesWithDropoutSmoothingAndSgd) {
  const std::vector<Keys> variants{
      {"model.architecture=gpt", "model.num_key_value_heads=4", "model.max_position_embeddings=64",
       "model.hidden_dropout=0.1", "model.attention_dropout=0.1"},
      {"model.hidden_dropout=0.1", "train.label_smoothing=0.1", "model.qk_norm=true",
       "model.sliding_window=8"},
      {"optimizer.type=sgd", "optimizer.momentum=0.9", "data.document_mask=false",
       "model.tie_word_embeddings=true"}};
  for (const Keys& variant : variants) {
    const RunOptions options{.steps = 3};
    const RunRecord reference = run_fixture(fixture_config(varlen() + variant), options);
    for (const Keys& cut : {Keys{"parallel.dp=2"}, Keys{"parallel.dp=3", "train.micro_batch_size=2"}})
      expect_parity(run_fixture(fixture_config(varlen() + variant + cut), options), reference,
                    variant[0] + " " + cut[0]);
  }
}

// Five samples on two ranks of two: the padding rows weigh nothing, and no rank is left out.
TEST(Parity, SamplesThatRanksDoNotDivide) {
  for (int samples = 1; samples <= 13; ++samples) {
    const Keys global = varlen() + Keys{"train.global_batch_size=" + std::to_string(samples),
                                        "train.micro_batch_size=1", "model.num_hidden_layers=1"};
    const RunRecord reference = run_fixture(fixture_config(global), {.steps = 1});
    for (const int dp : {1, 2, 3})
      for (const int micro : {1, 2, 3}) {
        const Keys keys{"parallel.dp=" + std::to_string(dp),
                        "train.micro_batch_size=" + std::to_string(micro)};
        expect_parity(run_fixture(fixture_config(global + keys), {.steps = 1}), reference,
                      std::to_string(samples) + " samples " + keys[0] + " " + keys[1]);
      }
  }
}

TEST(Parity, RecomputationChangesNoBit) {
  const Keys base =
      varlen() + Keys{"model.hidden_dropout=0.2", "model.attention_dropout=0.2", "parallel.dp=2"};
  const RunRecord reference = run_fixture(fixture_config(base), {.steps = 3});
  for (const Keys& keys :
       {Keys{"activation_checkpointing.mode=selective"},
        Keys{"activation_checkpointing.mode=selective",
             "activation_checkpointing.modules=[\"mlp_activation\"]"},
        Keys{"activation_checkpointing.mode=selective",
             "activation_checkpointing.modules=[\"attention\",\"mlp_activation\"]"},
        Keys{"activation_checkpointing.mode=full"},
        Keys{"activation_checkpointing.mode=full", "activation_checkpointing.num_layers=2"}}) {
    const RunRecord run = run_fixture(fixture_config(base + keys), {.steps = 3});
    for (const auto& [name, values] : reference.gradients)
      EXPECT_EQ(run.gradients.at(name), values) << keys[0] << name;
    EXPECT_EQ(run.losses, reference.losses);
    expect_same_weights(run, reference, keys.back());
  }
}

TEST(Parity, OverlapAndBucketSizesChangeNoBit) {
  const Keys base = varlen() + Keys{"parallel.dp=3", "comm.overlap_grad_reduce=false"};
  const RunRecord reference = run_fixture(fixture_config(base), {.steps = 3});
  for (const char* overlap : {"true", "false"})
    for (const char* size : {"1e-6", "0.2", "1000"}) {
      const Keys keys{std::string("comm.overlap_grad_reduce=") + overlap,
                      std::string("comm.bucket_size_mb=") + size};
      const RunRecord run =
          run_fixture(fixture_config(varlen() + Keys{"parallel.dp=3"} + keys), {.steps = 3});
      EXPECT_EQ(run.losses, reference.losses) << keys[0] << keys[1];
      expect_same_weights(run, reference, keys[0] + " " + keys[1]);
    }
}

TEST(Parity, ThreadsChangeNoBit) {
  const RunRecord reference = run_fixture(fixture_config(varlen()), {.steps = 2});
  const RunRecord run = run_fixture(fixture_config(varlen() + Keys{"run.threads_per_rank=3"}), {.steps = 2});
  EXPECT_EQ(run.losses, reference.losses);
  expect_same_weights(run, reference, "3 threads");
}

TEST(Parity, LowPrecisionStaysNearTheFp32RunOnEveryLayout) {
  const RunRecord fp32 = run_fixture(fixture_config(varlen()), {.steps = 5});
  for (const char* type : {"bf16", "fp16"}) {
    const Keys base = varlen() + Keys{std::string("precision.compute=") + type};
    const RunRecord one = run_fixture(fixture_config(base), {.steps = 5});
    const RunRecord two =
        run_fixture(fixture_config(base + Keys{"parallel.dp=2", "train.micro_batch_size=2"}), {.steps = 5});
    // bf16 keeps 8 bits: 2^-8 for each rounding, and a loss near ln(1003) averages many of them.
    EXPECT_NEAR(one.losses[0], fp32.losses[0], 5e-3 * fp32.losses[0]) << type;
    // Only sums over micro-batches and ranks differ, and they are fp32: rows give the same bits anywhere.
    EXPECT_NEAR(two.losses[0], one.losses[0], 1e-6 * one.losses[0]) << type;
    expect_close_gradients(two, one, 1e-5, type);
    EXPECT_NEAR(two.losses[4], one.losses[4], 1e-3 * one.losses[4]) << type;
  }
}

// Adding 1 to 256 equal gradients in bf16 stops at 256 times the smallest step; fp32 accumulation does not.
TEST(Precision, AccumulatesInFp32OverManyMicroBatches) {
  const Keys base = varlen() + Keys{"precision.compute=bf16", "model.num_hidden_layers=1"};
  const auto same_rows = [](int, DataFeed::GlobalBatch& global) {
    for (HostBatch& batch : global.microbatches) {
      batch.tokens = global.microbatches[0].tokens;
      batch.targets = global.microbatches[0].targets;
      batch.positions = global.microbatches[0].positions;
      batch.document_start = global.microbatches[0].document_start;
      batch.weights = global.microbatches[0].weights;
    }
  };
  const RunRecord one =
      run_fixture(fixture_config(base + Keys{"train.global_batch_size=1"}), {.edit = same_rows});
  const RunRecord many =
      run_fixture(fixture_config(base + Keys{"train.global_batch_size=256"}), {.edit = same_rows});
  expect_close_gradients(many, one, 5e-3, "256 micro-batches");
}

TEST(Clipping, TheAppliedGradientHasTheClippedNorm) {
  const Keys base =
      varlen() + Keys{"optimizer.type=sgd",       "optimizer.momentum=0",      "optimizer.lr=1",
                      "optimizer.weight_decay=0", "lr_schedule.type=constant", "lr_schedule.warmup_steps=0",
                      "lr_schedule.min_lr=0"};
  for (const char* dp : {"parallel.dp=1", "parallel.dp=2"})
    for (const double clip : {1e-3, 1e9}) {
      const RunRecord run =
          run_fixture(fixture_config(base + Keys{dp, "train.grad_clip=" + std::to_string(clip)}), {});
      double change = 0;
      for (const auto& [name, before] : run.initial)
        for (size_t i = 0; i < before.size(); ++i) {
          const double d = run.weights.at(name)[i] - before[i];
          change += d * d;
        }
      const double expected = std::min(clip, run.norms[0]);
      // The weights are fp32 values near 0.02: adding a small update rounds each of them by up to 2^-30.
      EXPECT_NEAR(std::sqrt(change), expected, 1e-4 * expected) << dp << " clip " << clip;
    }
}

TEST(EmptyBatches, AreACountedNoOp) {
  const auto mask_step_two = [](int step, DataFeed::GlobalBatch& global) {
    for (HostBatch& batch : global.microbatches)
      if (step == 2) std::fill(batch.weights.begin(), batch.weights.end(), 0.0f);
  };
  const RunConfig config = fixture_config(varlen() + Keys{"parallel.dp=2"});
  const RunRecord before = run_fixture(config, {.steps = 1, .edit = mask_step_two});
  const RunRecord after = run_fixture(config, {.steps = 2, .edit = mask_step_two});
  EXPECT_EQ(after.losses[1], 0);
  EXPECT_EQ(after.norms[1], 0);
  expect_same_weights(after, before, "a step without trained tokens");
}

int64_t resident_pages() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident;
}

TEST(Memory, DoesNotGrowOverThreeHundredSteps) {
  Rank* rank = nullptr;
  int64_t live = 0, peak = 0, pages = 0;
  const auto watch = [&](int step, DataFeed::GlobalBatch&) {
    const Allocator& allocator = rank->backend().allocator();
    if (step == 20) {
      live = allocator.live_bytes();
      peak = allocator.peak_bytes();
      pages = resident_pages();
    } else if (step > 20) {
      EXPECT_EQ(allocator.live_bytes(), live) << "step " << step;
      EXPECT_EQ(allocator.peak_bytes(), peak) << "step " << step;
    }
  };
  run_fixture(fixture_config(varlen() + Keys{"model.num_hidden_layers=1", "train.steps=300"}),
              {.steps = 300, .prepare = [&](Rank& it) { rank = &it; }, .edit = watch});
  // The records of 300 steps take less than this; a leak of one activation a step would take more.
  EXPECT_LT(resident_pages() - pages, 512);
}

// Nothing above the backends touches tensor memory: its pages are closed outside backend calls.
TEST(ProtectedBackend, RunsWholeStepsOnAllRanks) {
  for (const Keys& keys :
       {Keys{"parallel.dp=2"}, Keys{"precision.compute=bf16", "activation_checkpointing.mode=full"},
        Keys{"activation_checkpointing.offload=true"}}) {
    const RunConfig config = fixture_config(varlen() + keys);
    const RunRecord plain = run_fixture(config, {.steps = 2});
    const auto memory = std::make_shared<ProtectedMemory>();
    const RunRecord closed = run_fixture(config, {.steps = 2, .make_backend = [&](int threads) {
                                                    return make_protected_backend(threads, memory);
                                                  }});
    EXPECT_EQ(closed.losses, plain.losses);
    expect_same_weights(closed, plain, keys[0]);
  }
}

}  // namespace
}  // namespace tessera::test
