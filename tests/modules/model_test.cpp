// SPDX-License-Identifier: Apache-2.0
// Whole small models of both families: finite differences, the halves of backward, recomputation, document
// masks and generation.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/memory.h"
#include "tests/support/batch.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tiny_model.h"

namespace tessera::test {
namespace {

struct ModelCase {
  const char* name;
  RunConfig config;
};
std::ostream& operator<<(std::ostream& out, const ModelCase& c) {
  return out << c.name;
}

RunConfig with(RunConfig config, const std::function<void(RunConfig&)>& change) {
  change(config);
  return config;
}

RopeScaling scaling(RopeScaling::Type type) {
  return {.type = type,
          .factor = 4,
          .original_max_position_embeddings = 16,
          .beta_fast = 2,
          .attention_factor = 1.2};
}

void add_dropout(RunConfig& config) {
  config.model.hidden_dropout = 0.2;
  config.model.attention_dropout = 0.3;
}

std::vector<ModelCase> model_cases() {
  using Type = RopeScaling::Type;
  return {
      {"gpt", tiny_gpt()},
      {"gpt_untied_exact_gelu", with(tiny_gpt(),
                                     [](RunConfig& c) {
                                       c.model.tie_word_embeddings = false;
                                       c.model.hidden_act = ModelSection::Activation::Gelu;
                                     })},
      {"gpt_dropout_smoothing_window", with(tiny_gpt(),
                                            [](RunConfig& c) {
                                              add_dropout(c);
                                              c.train.label_smoothing = 0.1;
                                              c.model.sliding_window = 3;
                                            })},
      {"gpt_no_positions_no_bias", with(tiny_gpt(),
                                        [](RunConfig& c) {
                                          c.model.position = ModelSection::Position::None;
                                          c.model.attention_bias = c.model.mlp_bias = false;
                                        })},
      {"llama", tiny_llama()},
      {"llama_tied_norms_dropout", with(tiny_llama(),
                                        [](RunConfig& c) {
                                          add_dropout(c);
                                          c.model.tie_word_embeddings = c.model.qk_norm = true;
                                          c.model.rope.scaling = scaling(Type::Linear);
                                        })},
      {"llama_odd_width_bias", with(tiny_llama(),
                                    [](RunConfig& c) {
                                      c.model.head_dim = 5;
                                      c.model.rope.partial_rotary_factor = 0.8;
                                      c.model.attention_bias = c.model.mlp_bias = true;
                                      c.model.rope.scaling = scaling(Type::Llama3);
                                    })},
      {"llama_yarn_window", with(tiny_llama(),
                                 [](RunConfig& c) {
                                   c.model.sliding_window = 2;
                                   c.model.rope.scaling = scaling(Type::Yarn);
                                   c.model.rope.theta = 100;
                                 })},
  };
}

Batch packed_batch(Backend& backend) {
  return make_batch(backend, {.rows = {some_tokens(7, 11, 3), some_tokens(7, 11, 4)},
                              .documents = {{1, 6}, {7}},
                              .weights = {0, 1, 0.5, 1, 0, 1, 0, 2, 1, 1, 1, 1, 1, 0},
                              .row_ids = {4, 1}});
}

class Models : public testing::TestWithParam<ModelCase> {
 protected:
  std::unique_ptr<Backend> backend = make_cpu_backend(1, {.poison = true});
};

TEST_P(Models, GradientsEqualDifferences) {
  TinyModel model(*backend, GetParam().config);
  const Batch batch = packed_batch(*backend);
  model.forward(batch);
  model.backward(batch);
  EXPECT_TRUE(model.saved_empty());
  const NamedValues gradients = model.gradients();
  const auto objective = [&] {
    model.forward(batch);
    return 0.25 * model.loss();
  };
  for (const Parameter& parameter : model.store().parameters())
    expect_gradient(*backend, parameter.spec.name, parameter.master, gradients.at(parameter.spec.name),
                    objective, 11);  // each row and column of the matrices; the modules are checked whole
}

// Loss, gradients of every unit's input and of every parameter.
struct Step {
  double loss;
  std::vector<std::vector<double>> inputs;
  NamedValues parameters;
};

constexpr Recompute kNothing{}, kAttention{.attention = true}, kMlpActivation{.mlp_activation = true},
    kBoth{.attention = true, .mlp_activation = true}, kBlock{.block = true};

Step run_step(Backend& backend, const RunConfig& config, DType compute, Recompute recompute, bool split) {
  TinyModel model(backend, config, {.compute = compute, .recompute = recompute});
  const Batch batch = packed_batch(backend);
  Step step{};
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second adds to the first
    model.forward(batch);
    step.loss = model.loss();
    step.inputs = model.backward(batch, split);
    EXPECT_TRUE(model.saved_empty());
  }
  step.parameters = model.gradients();
  return step;
}

void expect_same_step(const Step& a, const Step& b) {
  EXPECT_EQ(a.loss, b.loss);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (size_t i = 0; i < a.inputs.size(); ++i)
    expect_same_bits(a.inputs[i], b.inputs[i], "input of unit " + std::to_string(a.inputs.size() - i));
  for (const auto& [name, values] : a.parameters) expect_same_bits(values, b.parameters.at(name), name);
}

TEST_P(Models, SplitBackwardAndRecomputationGiveTheSameBits) {
  for (const DType compute : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    SCOPED_TRACE(name_of(compute));
    const Step whole = run_step(*backend, GetParam().config, compute, kNothing, false);
    for (const Recompute& recompute : {kNothing, kAttention, kMlpActivation, kBoth, kBlock}) {
      SCOPED_TRACE(::testing::Message()
                   << "block " << recompute.block << ", attention " << recompute.attention
                   << ", mlp activation " << recompute.mlp_activation);
      expect_same_step(whole, run_step(*backend, GetParam().config, compute, recompute, false));
      expect_same_step(whole, run_step(*backend, GetParam().config, compute, recompute, true));
    }
  }
}

// Widths that fill whole vectors and leave a rest.
TEST(WideModel, RecomputationGivesTheSameBits) {
  const auto backend = make_cpu_backend(1, {.poison = true});
  for (const auto act :
       {ModelSection::Activation::Gelu, ModelSection::Activation::GeluNew, ModelSection::Activation::Silu}) {
    RunConfig config = tiny_gpt();
    config.model.hidden_size = 33;
    config.model.intermediate_size = 259;
    config.model.head_dim = 11;
    config.model.hidden_act = act;
    const Step whole = run_step(*backend, config, DType::F32, kNothing, false);
    for (const Recompute& recompute : {kAttention, kMlpActivation, kBoth, kBlock})
      expect_same_step(whole, run_step(*backend, config, DType::F32, recompute, true));
  }
}

// Sums have an order of their own: it is not that of the threads.
TEST_P(Models, TwoThreadsGiveTheBitsOfOne) {
  const auto two = make_cpu_backend(2, {.poison = true});
  for (const DType compute : {DType::F32, DType::BF16})
    expect_same_step(run_step(*backend, GetParam().config, compute, kNothing, false),
                     run_step(*two, GetParam().config, compute, kNothing, false));
}

TEST_P(Models, RecomputationCountsAsHardwareWorkOnly) {
  const Batch batch = packed_batch(*backend);
  std::vector<FlopCounter> counts;
  for (const Recompute& recompute : {kNothing, kAttention, kMlpActivation, kBoth, kBlock}) {
    TinyModel model(*backend, GetParam().config, {.recompute = recompute});
    backend->flops() = {};
    model.forward(batch);
    model.backward(batch);
    counts.push_back(backend->flops());
    EXPECT_FALSE(backend->flops().recomputing);
  }
  for (const FlopCounter& count : counts) EXPECT_EQ(count.model, counts[0].model);
  const auto hardware = [&](size_t i) { return counts[i].hardware; };
  EXPECT_LT(hardware(0), hardware(1));
  EXPECT_EQ(hardware(0), hardware(2)) << "an activation counts no operations";
  EXPECT_EQ(hardware(1), hardware(3));
  EXPECT_LT(hardware(3), hardware(4));
}

// Two documents in one row, of which the second alone is trained: no token of the first has a say.
TEST_P(Models, TokensOfAnotherDocumentChangeNoBit) {
  for (const DType compute : {DType::F64, DType::F32}) {
    std::vector<Step> steps;
    for (const int32_t foreign : {3, 8}) {
      TinyModel model(*backend, GetParam().config, {.compute = compute});
      std::vector<int32_t> row = some_tokens(7, 11, 5);
      row[1] = foreign;
      const Batch batch =
          make_batch(*backend, {.rows = {row}, .documents = {{3, 4}}, .weights = {0, 0, 0, 1, 1, 1, 0}});
      Step step{};
      step.inputs.push_back(to_host_double(*backend, model.forward(batch)));
      step.loss = model.loss();
      for (const std::vector<double>& gradient : model.backward(batch)) step.inputs.push_back(gradient);
      step.parameters = model.gradients();
      steps.push_back(std::move(step));
    }
    expect_same_step(steps[0], steps[1]);
  }
}

// How rows are dealt to micro-batches is nobody's business: dropout follows the row's number.
TEST_P(Models, RowsDoNotDependOnTheirMicroBatch) {
  const std::vector<std::vector<int32_t>> rows = {some_tokens(7, 11, 3), some_tokens(7, 11, 4),
                                                  some_tokens(7, 11, 5)};
  TinyModel together(*backend, GetParam().config), apart(*backend, GetParam().config);
  const std::vector<int64_t> row_ids = {7, 0, 3};
  const Batch all = make_batch(*backend, {.rows = rows, .row_ids = row_ids});
  const std::vector<double> losses = to_host_double(*backend, together.forward(all));
  together.backward(all);
  std::vector<double> one_by_one;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Batch row = make_batch(*backend, {.rows = {rows[i]}, .row_ids = {row_ids[i]}});
    for (const double loss : to_host_double(*backend, apart.forward(row))) one_by_one.push_back(loss);
    apart.backward(row);
  }
  expect_same_bits(losses, one_by_one, "losses");
  const NamedValues sums = apart.gradients();
  for (const auto& [name, values] : together.gradients())
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], sums.at(name)[i], 1e-13) << name;
}

// Losses of one row under a seed of dropout, a step and a row's number.
double dropped_loss(Backend& backend, uint64_t seed, int64_t step, int64_t row_id) {
  RunConfig config = tiny_llama();
  add_dropout(config);
  TinyModel tiny(backend, config, {.dropout_seed = seed});
  backend.upload(std::as_bytes(std::span(&step, 1)), tiny.step().step_number);
  tiny.forward(make_batch(backend, {.rows = {some_tokens(7, 11, 3)}, .row_ids = {row_id}}));
  return tiny.loss();
}

TEST(Dropout, IsAFunctionOfSeedStepAndRow) {
  const auto backend = make_cpu_backend(1);
  const double loss = dropped_loss(*backend, 5, 1, 0);
  EXPECT_EQ(loss, dropped_loss(*backend, 5, 1, 0));
  EXPECT_NE(loss, dropped_loss(*backend, 6, 1, 0));
  EXPECT_NE(loss, dropped_loss(*backend, 5, 2, 0));
  EXPECT_NE(loss, dropped_loss(*backend, 5, 1, 1));
}

// Frozen tensors have no gradient, and those of the others do not notice.
TEST_P(Models, FrozenParametersChangeNoOtherGradient) {
  const Batch batch = packed_batch(*backend);
  TinyModel whole(*backend, GetParam().config);
  whole.forward(batch);
  whole.backward(batch);
  const NamedValues expected = whole.gradients();
  for (const Recompute& recompute : {kNothing, kAttention, kMlpActivation, kBoth, kBlock}) {
    for (const bool split : {false, true}) {
      SCOPED_TRACE(::testing::Message()
                   << "block " << recompute.block << ", attention " << recompute.attention
                   << ", mlp activation " << recompute.mlp_activation << ", split " << split);
      TinyModel partly(*backend, GetParam().config,
                       {.recompute = recompute, .change = [](ParameterSpec& spec) {
                          spec.trainable = spec.name.find("blocks.0") != 0 &&
                                           spec.name.find("embedding") != 0 &&
                                           spec.name.find("norm") == std::string::npos;
                        }});
      partly.forward(batch);
      partly.backward(batch, split);
      EXPECT_TRUE(partly.saved_empty());
      const NamedValues gradients = partly.gradients();
      EXPECT_FALSE(gradients.contains("embedding.token.weight"));
      EXPECT_FALSE(gradients.contains("blocks.0.mlp.down.weight"));
      EXPECT_TRUE(gradients.contains("blocks.1.mlp.down.weight"));
      for (const auto& [name, values] : gradients) expect_same_bits(values, expected.at(name), name);
    }
  }
}

TEST_P(Models, PackedDocumentsHaveTheLossesOfSeparateRows) {
  RunConfig config = GetParam().config;
  config.model.hidden_dropout = config.model.attention_dropout = 0;
  const std::vector<int32_t> row = some_tokens(7, 11, 6);
  const std::vector<int32_t> first(row.begin(), row.begin() + 3), second(row.begin() + 3, row.end());
  TinyModel model(*backend, config);
  const auto losses = [&](const std::vector<int32_t>& tokens, const std::vector<int64_t>& documents) {
    return to_host_double(
        *backend,
        model.forward(make_batch(*backend, {.rows = {tokens}, .documents = {documents}}), Mode::Eval));
  };
  std::vector<double> separate = losses(first, {3});
  for (const double loss : losses(second, {4})) separate.push_back(loss);
  const std::vector<double> packed = losses(row, {3, 4});
  for (size_t i = 0; i < packed.size(); ++i) EXPECT_NEAR(packed[i], separate[i], 1e-13) << i;
}

TEST_P(Models, EvaluationKeepsNothingAndDropsNothing) {
  TinyModel model(*backend, GetParam().config);
  const Batch batch = packed_batch(*backend);
  model.forward(batch, Mode::Eval);
  EXPECT_TRUE(model.saved_empty());
  const double loss = model.loss();
  RunConfig plain = GetParam().config;
  plain.model.hidden_dropout = plain.model.attention_dropout = 0;
  TinyModel without(*backend, plain);
  without.forward(batch);
  EXPECT_EQ(loss, without.loss());
}

// Logits of one call over all positions, and of a cache that grows by 1, 2, 3 and 1 positions.
TEST_P(Models, GenerationWithACacheEqualsTheWholeForward) {
  for (const DType compute : {DType::F64, DType::F32}) {
    TinyModel model(*backend, GetParam().config, {.compute = compute});
    const std::vector<int32_t> row = some_tokens(7, 11, 7);
    KeyValueCache whole_cache = model.make_cache(7), cache = model.make_cache(7);
    const std::vector<double> whole = to_host_double(
        *backend, model.forward(make_decode_batch(*backend, row, 0), Mode::Decode, &whole_cache));
    std::vector<double> stepwise;
    for (const int64_t count : {1, 2, 3, 1}) {
      const auto begin = row.begin() + cache.length;
      const Batch batch = make_decode_batch(*backend, {begin, begin + count}, cache.length);
      for (const double logit : to_host_double(*backend, model.forward(batch, Mode::Decode, &cache)))
        stepwise.push_back(logit);
    }
    // The attention sums over the keys in another order when it starts at another query.
    const double tolerance = compute == DType::F64 ? 1e-13 : 2e-6;
    ASSERT_EQ(whole.size(), stepwise.size());
    for (size_t i = 0; i < whole.size(); ++i)
      ASSERT_NEAR(whole[i], stepwise[i], tolerance * std::max(1.0, std::abs(whole[i]))) << i;

    // The losses of evaluation are those of these logits.
    RunConfig sharp = GetParam().config;
    if (sharp.train.label_smoothing > 0) continue;
    const std::vector<double> losses =
        to_host_double(*backend, model.forward(make_batch(*backend, {.rows = {row}}), Mode::Eval));
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      double sum = 0;
      for (size_t c = 0; c < 11; ++c) sum += std::exp(whole[i * 11 + c]);
      ASSERT_NEAR(losses[i], std::log(sum) - whole[i * 11 + static_cast<size_t>(row[i + 1])], tolerance * 10)
          << i;
    }
  }
}

TEST_P(Models, AFullCacheIsRefused) {
  TinyModel model(*backend, GetParam().config);
  KeyValueCache cache = model.make_cache(2);
  EXPECT_THROW(model.forward(make_decode_batch(*backend, {1, 2, 3}, 0), Mode::Decode, &cache), Error);
}

INSTANTIATE_TEST_SUITE_P(Families, Models, testing::ValuesIn(model_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
