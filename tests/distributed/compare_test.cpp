// SPDX-License-Identifier: Apache-2.0
// `compare` finds faults that were put in on purpose, names the tensor, and says what they look like; it
// takes nothing else for one.
#include "framework/train/compare.h"

#include <gtest/gtest.h>

#include "framework/ops/memory.h"
#include "models/registry.h"
#include "tests/support/faulty_model.h"
#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

Keys small(const std::string& family = "llama") {
  Keys keys = varlen() + Keys{"model.num_hidden_layers=3",   "train.seq_length=21",
                              "model.hidden_size=40",        "model.num_attention_heads=4",
                              "model.num_key_value_heads=2", "train.micro_batch_size=4"};
  if (family == "gpt") keys = keys + Keys{"model.architecture=gpt", "model.max_position_embeddings=21"};
  return keys;
}

struct Job {
  Keys base = small();
  Keys keys;             // of the layout
  UnitFault fault = {};  // in the layout
  bool faulty = true;
  int steps = 2;
  std::function<void(size_t layout, Rank&)> prepare = {};
};

LayoutComparison compare_job(const Job& job) {
  const RunConfig one = fixture_config(job.base), layout = fixture_config(job.base + job.keys);
  int defined = 0;
  const auto define = [&](const RunConfig& config) {
    // The reference is defined first.
    ModelDefinition model = define_model(config);
    return job.faulty && defined++ > 0 ? with_fault(std::move(model), job.fault) : model;
  };
  const CompareResult result = compare_layouts({.layouts = {{"one", one}, {"other", layout}},
                                                .define = define,
                                                .steps = job.steps,
                                                .prepare = job.prepare});
  EXPECT_EQ(result.numbers.size(), static_cast<size_t>(job.steps));
  return result.layouts.at(0);
}

const Keys kTwo{"parallel.tp=2", "parallel.sequence_parallel=false"};

void scale(const FaultyUnit& unit, const std::string& name, float factor) {
  edit(unit.backend, unit.store.at(name).gradient, [&](std::vector<float>& values) {
    for (float& value : values) value *= factor;
  });
}

TEST(Compare, TakesNothingForAFault) {
  for (const char* family : {"gpt", "llama"})
    for (const Keys& keys : {kTwo, Keys{"parallel.tp=2", "parallel.dp=2"}, Keys{"parallel.dp=3"},
                             Keys{"train.micro_batch_size=1", "activation_checkpointing.mode=full"}}) {
      const LayoutComparison layout =
          compare_job({.base = small(family), .keys = keys, .faulty = false, .steps = 3});
      EXPECT_TRUE(layout.initial_equal);
      EXPECT_FALSE(layout.fault.has_value()) << family << keys[0] << ": step " << layout.fault->step << " "
                                             << (layout.fault->first ? layout.fault->first->name : "");
      EXPECT_LT(layout.steps[0].gradient, 1e-5);
    }
}

TEST(Compare, TakesRoundingToSixteenBitsForNoFault) {
  for (const char* type : {"precision.compute=bf16", "precision.compute=fp16"}) {
    const LayoutComparison layout =
        compare_job({.base = small() + Keys{type}, .keys = kTwo, .faulty = false, .steps = 5});
    EXPECT_FALSE(layout.fault.has_value()) << type;
    EXPECT_GT(layout.steps[0].gradient, 1e-5) << type << ": the layouts round in different places";
  }
}

TEST(Compare, FindsTheScaledGradientOfOneRank) {
  thread_local int rank = -1;
  const UnitFault fault{.unit = 2, .after_backward = [](const FaultyUnit& unit) {
                          if (rank == 1) scale(unit, "blocks.1.mlp.up.weight", 2);
                        }};
  const LayoutComparison layout = compare_job(
      {.keys = {"parallel.dp=2"}, .fault = fault, .prepare = [](size_t, Rank& r) { rank = r.number(); }});
  ASSERT_TRUE(layout.fault && layout.fault->first);
  EXPECT_EQ(layout.fault->step, 1);
  EXPECT_EQ(layout.fault->gradients, 1);
  EXPECT_EQ(layout.fault->first->slot, Slot::Gradient);
  EXPECT_EQ(layout.fault->first->name, "blocks.1.mlp.up.weight");
  EXPECT_FALSE(layout.fault->first->suspicion.rounding);
  EXPECT_FALSE(layout.fault->loss);
  EXPECT_TRUE(layout.fault->norm);
}

TEST(Compare, ReportsAConstantFactor) {
  const UnitFault fault{.unit = 1, .after_backward = [](const FaultyUnit& unit) {
                          scale(unit, "blocks.0.attention.output.bias", 2);  // summed once too often
                        }};
  const LayoutComparison layout =
      compare_job({.base = small("gpt") + Keys{"train.micro_batch_size=8"}, .keys = kTwo, .fault = fault});
  ASSERT_TRUE(layout.fault && layout.fault->first);
  EXPECT_EQ(layout.fault->first->name, "blocks.0.attention.output.bias");
  EXPECT_EQ(layout.fault->first->suspicion.text, "2.000 times the reference");
  EXPECT_NEAR(layout.fault->first->suspicion.factor.value(), 2, 1e-6);
  EXPECT_NEAR(layout.fault->first->difference, 1, 1e-6);
}

TEST(Compare, ReportsAMissingGradient) {
  const UnitFault fault{.unit = 3, .after_backward = [](const FaultyUnit& unit) {
                          scale(unit, "blocks.2.mlp_norm.weight", 0);
                        }};
  const LayoutComparison layout = compare_job({.keys = kTwo, .fault = fault});
  ASSERT_TRUE(layout.fault && layout.fault->first);
  EXPECT_EQ(layout.fault->first->name, "blocks.2.mlp_norm.weight");
  EXPECT_EQ(layout.fault->first->suspicion.text, "all zero: missing");
}

TEST(Compare, NamesTheRankWhoseBoxIsWrong) {
  const UnitFault fault{.unit = 1, .after_backward = [](const FaultyUnit& unit) {
                          if (unit.tensor_group->rank() == 1) scale(unit, "blocks.0.mlp.down.weight", 0.5);
                        }};
  const LayoutComparison layout =
      compare_job({.base = small() + Keys{"train.micro_batch_size=8"}, .keys = kTwo, .fault = fault});
  ASSERT_TRUE(layout.fault && layout.fault->first);
  const Suspicion& suspicion = layout.fault->first->suspicion;
  EXPECT_EQ(layout.fault->first->name, "blocks.0.mlp.down.weight");
  EXPECT_EQ(suspicion.rank, 1);
  EXPECT_EQ(suspicion.dim, 1);
  EXPECT_EQ(suspicion.rows, (Range{88, 176}));
  EXPECT_NEAR(suspicion.factor.value(), 0.5, 1e-6);
  EXPECT_EQ(suspicion.text,
            "only the box of rank 1, columns 88 to 175 of 176: 0.500 times the reference there");
}

TEST(Compare, NamesTheHeadThatIsWrong) {
  const UnitFault fault{.unit = 2, .after_backward = [](const FaultyUnit& unit) {
                          if (unit.tensor_group->rank() != 1) return;
                          // The first of the second rank's two query heads.
                          edit(
                              unit.backend, unit.store.at("blocks.1.attention.query.weight").gradient,
                              [](std::vector<float>& values) { std::fill_n(values.begin(), 10 * 40, 0.0f); });
                        }};
  const LayoutComparison layout = compare_job({.keys = kTwo, .fault = fault});
  ASSERT_TRUE(layout.fault && layout.fault->first);
  EXPECT_EQ(layout.fault->first->name, "blocks.1.attention.query.weight");
  EXPECT_EQ(layout.fault->first->suspicion.head, 2);
  EXPECT_EQ(layout.fault->first->suspicion.text, "only head 2, rows 20 to 29 of 40: all zero there: missing");
}

TEST(Compare, SeesSwappedBoxes) {
  const UnitFault fault{
      .unit = 1, .after_backward = [](const FaultyUnit& unit) {
        const Tensor& own = unit.store.at("blocks.0.mlp.up.weight").gradient;
        const Tensor both = empty(unit.backend, own.dtype(), {2 * own.shape()[0], own.shape()[1]});
        unit.tensor_group->all_gather(own, both, unit.backend.compute_stream()).wait();
        const std::vector<float> values = to_host<float>(unit.backend, both);
        edit(unit.backend, own, [&](std::vector<float>& mine) {
          const size_t other = unit.tensor_group->rank() == 0 ? mine.size() : 0;
          std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(other), mine.size(), mine.begin());
        });
      }};
  const LayoutComparison layout =
      compare_job({.base = small() + Keys{"train.micro_batch_size=8"}, .keys = kTwo, .fault = fault});
  ASSERT_TRUE(layout.fault && layout.fault->first);
  EXPECT_EQ(layout.fault->first->name, "blocks.0.mlp.up.weight");
  EXPECT_EQ(
      layout.fault->first->suspicion.text,
      "swapped: the box of rank 0 holds what belongs to the box of rank 1, the box of rank 1 holds what "
      "belongs to the box of rank 0");
}

// Without the sum each rank goes on with its own term: everything that backward makes afterwards is wrong,
// and the last wrong tensor in model order is where it began.
TEST(Compare, FindsWhereASumWasDropped) {
  const LayoutComparison layout =
      compare_job({.keys = kTwo, .fault = {.unit = 2, .drops_sums_in_backward = true}});
  ASSERT_TRUE(layout.fault && layout.fault->first && layout.fault->last);
  EXPECT_EQ(layout.fault->step, 1);
  EXPECT_FALSE(layout.fault->loss) << "forward is whole";
  EXPECT_TRUE(layout.fault->norm);
  EXPECT_EQ(layout.fault->first->name, "embedding.token.weight");
  EXPECT_EQ(layout.fault->last->name, "blocks.1.mlp_norm.weight");
  EXPECT_NE(layout.fault->last->disagreement.find("ranks 0 and 1 hold different copies of 40 of 40"),
            std::string::npos)
      << layout.fault->last->disagreement;
}

TEST(Compare, FindsOtherInitialWeights) {
  const auto prepare = [](size_t layout, Rank& rank) {
    if (layout != 1) return;
    const Tensor& weight = rank.store().at("blocks.1.mlp.down.weight").master;
    if (rank.number() == 0)
      edit(rank.backend(), weight, [](std::vector<float>& values) { values[5] *= 1.5f; });
  };
  const LayoutComparison layout = compare_job({.keys = kTwo, .faulty = false, .prepare = prepare});
  ASSERT_TRUE(layout.fault && layout.fault->first);
  EXPECT_FALSE(layout.initial_equal);
  EXPECT_EQ(layout.fault->step, 0);
  EXPECT_EQ(layout.fault->first->slot, Slot::InitialWeight);
  EXPECT_EQ(layout.fault->first->name, "blocks.1.mlp.down.weight");
  EXPECT_EQ(layout.fault->first->suspicion.rank, 0);
}

TEST(Compare, FindsReplicasThatDriftedApart) {
  const auto prepare = [](size_t layout, Rank& rank) {
    if (layout == 1 && rank.number() == 1)
      edit(rank.backend(), rank.store().at("final_norm.weight").master,
           [](std::vector<float>& values) { values[0] = 2; });
  };
  const LayoutComparison layout =
      compare_job({.keys = {"parallel.dp=2"}, .faulty = false, .prepare = prepare});
  ASSERT_TRUE(layout.fault && layout.fault->first);
  EXPECT_EQ(layout.fault->first->name, "final_norm.weight");
  EXPECT_EQ(layout.fault->first->disagreement, "ranks 0 and 1 hold different copies of 1 of 40 elements");
}

// The gradients agree, so the difference is the optimizer's.
TEST(Compare, FindsAnotherUpdate) {
  for (const Keys& optimizer : {Keys{}, Keys{"optimizer.type=sgd", "optimizer.momentum=0.9"}})
    for (const char* key : {"optimizer.lr=1.1e-3", "optimizer.weight_decay=0.2"}) {
      const LayoutComparison layout =
          compare_job({.base = small() + optimizer, .keys = kTwo + Keys{key}, .faulty = false});
      ASSERT_TRUE(layout.fault && layout.fault->first) << key;
      EXPECT_EQ(layout.fault->step, 1) << key;
      EXPECT_EQ(layout.fault->gradients, 0) << key;
      EXPECT_EQ(layout.fault->first->slot, Slot::Weight) << key;
      EXPECT_GT(layout.fault->weights, 5) << key;
    }
}

TEST(Compare, FindsOtherData) {
  const LayoutComparison layout = compare_job({.keys = kTwo + Keys{"data.shuffle_seed=7"}, .faulty = false});
  ASSERT_TRUE(layout.fault.has_value());
  EXPECT_EQ(layout.fault->step, 1);
  EXPECT_TRUE(layout.fault->loss);
}

// Less memory than both layouts need: the reference runs again beside the second, with the same bits.
TEST(Compare, RunsTheReferenceAgainWhenMemoryIsShort) {
  CompareRequest request{.layouts = {{"one", fixture_config(small()), 1 << 20},
                                     {"two", fixture_config(small() + kTwo), 1 << 30},
                                     {"three", fixture_config(small() + Keys{"parallel.dp=2"}), 1 << 30}},
                         .define = define_model,
                         .steps = 2};
  const CompareResult together = compare_layouts(request);
  request.free_bytes = int64_t{3} << 29;
  const CompareResult apart = compare_layouts(request);
  ASSERT_EQ(apart.layouts.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(apart.layouts[i].name, together.layouts[i].name);
    EXPECT_EQ(apart.layouts[i].steps[1].gradient, together.layouts[i].steps[1].gradient);
    EXPECT_FALSE(apart.layouts[i].fault.has_value());
  }
  request.free_bytes = 1 << 30;
  EXPECT_THROW(compare_layouts(request), Error);
}

}  // namespace
}  // namespace tessera::test
