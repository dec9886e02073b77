// SPDX-License-Identifier: Apache-2.0
// The prediction against what the CPU backend's allocator saw in a real step.
#include "framework/train/predict.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/comm/in_process/in_process.h"
#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/dataset/host_batch.h"
#include "framework/ops/matmul.h"
#include "framework/ops/memory.h"
#include "framework/train/rank.h"
#include "framework/train/tensor_watch.h"
#include "models/registry.h"

namespace tessera {
namespace {

RunConfig parsed(const std::string& text) {
  return parse_config(text, {.file = "test.toml", .overrides = {}, .environment = {}}).config;
}

RunConfig from_file(const std::string& file) {
  return load_config({.file = std::string(TESSERA_SOURCE_DIR) + "/configs/" + file,
                      .overrides = {},
                      .environment = {}})
      .config;
}

std::string small_model(const std::string& family) {
  return R"(
[run]
name = "test"
peak_flops = 1e12
[model]
architecture = ")" +
         family + R"("
vocab_size = 1003
hidden_size = 48
intermediate_size = 136
num_hidden_layers = 3
num_attention_heads = 4
max_position_embeddings = 64
[optimizer]
lr = 1e-3
[[data.sources]]
path = "x.txt"
)";
}

struct Case {
  const char* name;
  const char* family;
  const char* extra;
  int threads = 1;
  bool measures_peak = false;  // as a run without run.peak_flops does
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

constexpr Case kCases[] = {
    {"gpt", "gpt", "[train]\nmicro_batch_size=3\nglobal_batch_size=3\nseq_length=37\nsteps=5"},
    {"gpt_three_threads", "gpt", "[train]\nmicro_batch_size=3\nglobal_batch_size=3\nseq_length=37\nsteps=5",
     3},
    {"gpt_three_micro_batches", "gpt",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=3\nseq_length=61\nsteps=5"},
    {"gpt_measured_peak", "gpt", "[train]\nmicro_batch_size=1\nglobal_batch_size=1\nseq_length=8\nsteps=5", 2,
     true},
    {"gpt_full", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=4\nseq_length=64\nsteps=5\n"
     "[activation_checkpointing]\nmode=\"full\""},
    {"gpt_full_one_block", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=4\nseq_length=64\nsteps=5\n"
     "[activation_checkpointing]\nmode=\"full\"\nnum_layers=1"},
    {"gpt_selective", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=4\nseq_length=64\nsteps=5\n"
     "[activation_checkpointing]\nmode=\"selective\""},
    {"gpt_selective_mlp_activation", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=4\nseq_length=64\nsteps=5\n"
     "[activation_checkpointing]\nmode=\"selective\"\nmodules=[\"mlp_activation\"]\nnum_layers=3"},
    {"gpt_offload", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=6\nseq_length=64\nsteps=5\n"
     "[activation_checkpointing]\noffload=true"},
    {"llama_offload_full_cut_over_two", "llama",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=4\nseq_length=64\nsteps=5\n[parallel]\ntp=2\n"
     "[activation_checkpointing]\nmode=\"full\"\noffload=true"},
    {"gpt_bf16", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=2\nseq_length=64\nsteps=5\n"
     "[precision]\ncompute=\"bf16\""},
    {"gpt_bf16_narrow_gradients", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=2\nseq_length=64\nsteps=5\n"
     "[precision]\ncompute=\"bf16\"\ngrad_accumulate=\"compute\""},
    {"gpt_small_buckets", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=2\nseq_length=64\nsteps=5\n[comm]\nbucket_size_mb=0.01"},
    {"llama", "llama", "[train]\nmicro_batch_size=3\nglobal_batch_size=3\nseq_length=37\nsteps=5"},
    {"llama_full_micro_batches", "llama",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=7\nseq_length=64\nsteps=5\n"
     "[activation_checkpointing]\nmode=\"full\""},
    {"llama_selective", "llama",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=2\nseq_length=64\nsteps=5\n"
     "[activation_checkpointing]\nmode=\"selective\""},
    {"llama_selective_both", "llama",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=2\nseq_length=64\nsteps=5\n"
     "[activation_checkpointing]\nmode=\"selective\"\nmodules=[\"attention\", \"mlp_activation\"]"},
    {"llama_fp16", "llama",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=2\nseq_length=64\nsteps=5\n"
     "[precision]\ncompute=\"fp16\""},
    {"gpt_two_ranks", "gpt",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=6\nseq_length=64\nsteps=5\n[parallel]\ndp=2"},
    {"gpt_cut_over_two", "gpt",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=4\nseq_length=37\nsteps=5\n[parallel]\ntp=2\n"
     "sequence_parallel=false"},
    {"gpt_rows_cut_over_four", "gpt",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=2\nseq_length=37\nsteps=5\n[parallel]\ntp=4"},
    {"llama_rows_cut_over_two_of_four", "llama",
     "[train]\nmicro_batch_size=2\nglobal_batch_size=8\nseq_length=32\nsteps=5\n[parallel]\ntp=2\ndp=2\n"
     "[comm]\nregather_inputs=false\n[activation_checkpointing]\nmode=\"full\""},
    {"gpt_sharded_optimizer", "gpt",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=4\nseq_length=37\nsteps=5\n[parallel]\ndp=2\nzero_stage="
     "1\n"
     "[precision]\ncompute=\"bf16\""},
    {"llama_sharded_gradients", "llama",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=4\nseq_length=37\nsteps=5\n[parallel]\ndp=2\nzero_stage="
     "2\n"
     "[comm]\nbucket_size_mb=0.05"},
    {"gpt_sharded_parameters", "gpt",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=4\nseq_length=37\nsteps=5\n[parallel]\ndp=2\nzero_stage="
     "3"},
    // Few tokens: the copy of the largest tensor during its update decides the peak.
    {"gpt_per_tensor", "gpt",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=1\nseq_length=8\nsteps=5\n[logging]\nper_tensor=1"},
    {"llama_per_tensor_sharded_histograms", "llama",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=2\nseq_length=8\nsteps=5\n[parallel]\ndp=2\nzero_stage="
     "2\n"
     "[logging]\nper_tensor=1\ntensorboard=true"},
    {"llama_two_ranks_narrow_reduction", "llama",
     "[train]\nmicro_batch_size=1\nglobal_batch_size=2\nseq_length=37\nsteps=5\n[parallel]\ndp=2\n"
     "[comm]\ngrad_reduce_dtype=\"bf16\"\nbucket_size_mb=0.05"},
};

class Prediction : public testing::TestWithParam<Case> {};

// Made-up rows, one document each.
std::vector<Batch> batches_of(const RunConfig& config, Rank& rank) {
  std::vector<Batch> batches;
  const int64_t rows = config.train.micro_batch_size;
  for (int64_t m = 0; m < config.train.gradient_accumulation_steps; ++m) {
    HostBatch host((m * config.parallel.dp + rank.data_rank()) * rows, rows, config.train.seq_length);
    for (size_t i = 0; i < host.tokens.size(); ++i) {
      host.tokens[i] = static_cast<int32_t>(i * 7 % 1003);
      host.targets[i] = static_cast<int32_t>(i * 11 % 1003);
      host.document_start[i] = 0;
      host.weights[i] = 1;
    }
    host.count_weights();
    batches.push_back(rank.upload(host));
  }
  return batches;
}

struct Measured {
  int64_t state = 0, peak = 0;
  FlopCounter flops;  // of the last step
};

// Two real steps of one rank on the CPU backend.
Measured run_steps(const RunConfig& config, const ModelDefinition& model, Communicator& world,
                   Backend& backend) {
  Measured measured;
  Rank rank(config, model, world, backend);
  rank.initialise_parameters();
  measured.state = backend.allocator().live_bytes();
  if (!config.run.peak_flops) {  // one of the products that measure_matmul_peak times
    const Tensor square = zeros(backend, DType::F32, {2048, 2048});
    matmul(backend, square, square);
  }
  backend.allocator().reset_peak();
  const std::vector<Batch> batches = batches_of(config, rank);
  const double weight_sum = static_cast<double>(config.train.global_batch_size * config.train.seq_length);
  for (int step = 1; step <= 2; ++step) {
    backend.flops() = {};
    std::optional<TensorWatch> watch;
    if (config.logging.per_tensor > 0) watch.emplace(rank, config.logging.tensorboard);
    EXPECT_TRUE(rank.step().run(batches, weight_sum, Steps(step), 1e-3, watch ? &*watch : nullptr).updated);
    if (watch) (void)watch->finish(1);
  }
  measured.peak = backend.allocator().peak_bytes();
  measured.flops = backend.flops();
  return measured;
}

TEST_P(Prediction, IsTheAllocatorsPeakOfARealStep) {
  RunConfig config = parsed(small_model(GetParam().family) + GetParam().extra);
  if (GetParam().measures_peak) config.run.peak_flops.reset();
  const int ranks = static_cast<int>(mesh_ranks(config)), threads = GetParam().threads;
  resolve_parallel(config, ranks);
  const ModelDefinition model = define_model(config);
  const MemoryPlan plan = predict_memory(config, model, ranks, threads);

  InProcessWorld world(ranks, 60);
  std::vector<Measured> measured(static_cast<size_t>(ranks));
  std::vector<std::jthread> team;
  for (int rank = 0; rank < ranks; ++rank)
    team.emplace_back([&, rank] {
      const std::unique_ptr<Backend> backend = make_cpu_backend(threads);
      const std::unique_ptr<Communicator> communicator = world.attach(rank, *backend);
      measured[static_cast<size_t>(rank)] = run_steps(config, model, *communicator, *backend);
    });
  team.clear();
  for (size_t i = 0; i < measured.size(); ++i) {
    const Measured& rank = measured[i];
    if (i > 0 && config.parallel.tp > 1) {  // an odd vocabulary: the first rank has the larger part
      EXPECT_LE(rank.state, plan.state());
      EXPECT_LE(rank.peak, plan.step_peak());
      continue;
    }
    EXPECT_EQ(plan.state(), rank.state);
    EXPECT_EQ(plan.step_peak(), rank.peak);
    EXPECT_EQ(plan.model_flops, static_cast<double>(rank.flops.model));
    EXPECT_EQ(plan.hardware_flops, static_cast<double>(rank.flops.hardware));
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, Prediction, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PredictionOfState, FollowsTheFormulas) {
  RunConfig config = parsed(small_model("gpt") +
                            "[train]\nmicro_batch_size=1\nglobal_batch_size=1\nseq_length=8\nsteps=5\n"
                            "[precision]\ncompute=\"bf16\"");
  resolve_parallel(config, 1);
  const ModelDefinition model = define_model(config);
  const int64_t count = count_parameters(model.parameters).total;
  const MemoryPlan plan = predict_memory(config, model, 1, 1);
  const int64_t rounding = 64 * model.unit_count();
  EXPECT_NEAR(plan.parameters, 2 * count, rounding);
  EXPECT_NEAR(plan.masters, 4 * count, rounding);
  EXPECT_NEAR(plan.gradients, 4 * count, rounding);
  EXPECT_NEAR(plan.optimizer, 8 * count, rounding);
}

// Rajbhandari et al. 2020 (arXiv 1910.02054): 16, 4 + 12/N, 2 + 14/N and 16/N bytes a parameter.
TEST(PredictionOfState, FollowsTheFormulasOfZero) {
  for (const int ranks : {1, 2, 4, 8, 64})
    for (int stage = 0; stage <= 3; ++stage) {
      RunConfig config = parsed(small_model("gpt") +
                                "[train]\nmicro_batch_size=1\nglobal_batch_size=64\nseq_length=8\nsteps=5\n"
                                "[precision]\ncompute=\"bf16\"\ngrad_accumulate=\"compute\"\n[parallel]\n"
                                "zero_stage=" +
                                std::to_string(stage));
      resolve_parallel(config, ranks);
      const ModelDefinition model = define_model(config);
      const auto count = static_cast<double>(count_parameters(model.parameters).total);
      const MemoryPlan plan = predict_memory(config, model, ranks, 1);
      const double n = ranks;
      const double expected[] = {16, 4 + 12 / n, 2 + 14 / n, 16 / n};
      const auto state =
          static_cast<double>(plan.parameters + plan.masters + plan.gradients + plan.optimizer);
      // Padding: less than a rank's worth of elements in each bucket; storages of 64 bytes.
      const double buckets = model.unit_count(),
                   padding = buckets * (16.0 * ranks / (stage == 3 ? ranks : 1) + 5 * 64);
      EXPECT_NEAR(state, expected[stage] * count, padding) << "stage " << stage << ", " << ranks << " ranks";
    }
}

TEST(PredictionOfRecomputation, KeepsLessTheMoreBlocksRecompute) {
  for (const char* family : {"gpt", "llama"}) {
    RunConfig config = parsed(small_model(family) +
                              "[train]\nmicro_batch_size=4\nglobal_batch_size=4\nseq_length=64\nsteps=5\n"
                              "[activation_checkpointing]\nmode=\"full\"\nnum_layers=1");
    resolve_parallel(config, 1);
    const ModelDefinition model = define_model(config);
    int64_t above = std::numeric_limits<int64_t>::max();
    for (int64_t blocks = 0; blocks <= 3; ++blocks) {
      config.activation_checkpointing.num_layers = blocks;
      const MemoryPlan plan = predict_memory(config, model, 1, 1);
      EXPECT_LE(plan.step_peak(), above) << family << ", " << blocks << " blocks";
      above = plan.step_peak();
      ASSERT_EQ(plan.saved_by_unit.size(), 5u);
      for (size_t block = 0; block < 3; ++block) {
        const int64_t input = 4 * 64 * 48 * 4;
        const int64_t saved = plan.saved_by_unit[block + 1];
        if (static_cast<int64_t>(block) < blocks)
          EXPECT_EQ(saved, input) << "a recomputed block keeps its input only";
        else
          EXPECT_GT(saved, 4 * input);
      }
    }
  }
}

TEST(PredictionOfRecomputation, BudgetRecomputesAsLittleAsFits) {
  const std::string text =
      small_model("gpt") + "[train]\nmicro_batch_size=4\nglobal_batch_size=4\nseq_length=64\nsteps=5\n";
  RunConfig full = parsed(text + "[activation_checkpointing]\nmode=\"full\"\nnum_layers=2");
  resolve_parallel(full, 1);
  const ModelDefinition model = define_model(full);
  const int64_t two = predict_memory(full, model, 1, 1).step_peak();

  const auto with_budget = [&](int64_t bytes) {
    RunConfig config = parsed(text + "[activation_checkpointing]\nmode=\"budget\"\nmemory_budget_gb=1");
    config.activation_checkpointing.memory_budget_gb = static_cast<double>(bytes) / (1 << 30);
    resolve_parallel(config, 1);
    resolve_memory_budget(config, model, 1, 1);
    return config;
  };
  const RunConfig fits = with_budget(two);
  EXPECT_EQ(fits.activation_checkpointing, full.activation_checkpointing);
  EXPECT_EQ(predict_memory(fits, model, 1, 1).step_peak(), two) << "a budget recomputes whole blocks";
  EXPECT_EQ(with_budget(two - 1).activation_checkpointing.num_layers, 3);
  EXPECT_EQ(with_budget(int64_t{1} << 30).activation_checkpointing, ActivationCheckpointingSection{});
  EXPECT_THROW(with_budget(1000), Error);
}

TEST(PredictionOfGpt3, NeedsNoMemoryAndLittleTime) {
  RunConfig config = from_file("gpt/gpt175b.toml");
  config.parallel = {};
  config.precision = {};
  resolve_parallel(config, 1);
  const ModelDefinition model = define_model(config);
  const MemoryPlan plan = predict_memory(config, model, 1, 2);
  const int64_t count = count_parameters(model.parameters).total;
  EXPECT_NEAR(static_cast<double>(plan.parameters + plan.masters + plan.gradients + plan.optimizer),
              16.0 * static_cast<double>(count), 1e6);
  // 6 operations a parameter and token, the position table aside, and those of causal attention:
  // 12 h a layer and visible pair.
  const double tokens = 1536.0 * 2048, h = 12288, layers = 96;
  const double matrices = layers * 12 * h * h + 50257 * h;
  const double pairs = 1536.0 * 2048 * 2049 / 2;
  EXPECT_NEAR(plan.model_flops / (6 * matrices * tokens + 12 * h * layers * pairs), 1, 1e-12);
}

TEST(CheckReport, JsonAgreesWithThePlan) {
  RunConfig config = from_file("gpt/gpt2_124m.toml");
  resolve_parallel(config, 1);
  const ModelDefinition model = define_model(config);
  const auto json = nlohmann::json::parse(check_report(config, model, 1, 1, true));
  EXPECT_EQ(json["parameters"]["total"], 124'439'808);
  EXPECT_EQ(json["parameters"]["embedding"], 38'597'376 + 786'432);
  EXPECT_EQ(json["batch"]["micro_batches"], 128);
  EXPECT_EQ(json["batch"]["tokens_per_step"], 512 * 1024);
  int64_t sum = 0;
  for (const char* term : {"parameters", "masters", "gradients", "optimizer", "constants", "batches",
                           "activations", "workspace", "communication"})
    sum += json["memory_bytes"][term].get<int64_t>();
  EXPECT_EQ(json["memory_bytes"]["step_peak"], sum);
  EXPECT_EQ(json["memory_bytes"]["saved_by_unit"].size(), 14u);
}

TEST(CheckReport, PaddingIsSaidAndIsNoWork) {
  RunConfig config = parsed(small_model("gpt") +
                            "[train]\nmicro_batch_size=2\nglobal_batch_size=9\nseq_length=8\nsteps=5\n"
                            "[parallel]\ndp=2");
  resolve_parallel(config, 2);
  const ModelDefinition model = define_model(config);
  const std::string text = check_report(config, model, 2, 2, false);
  EXPECT_NE(text.find("9 samples = 3 micro-batches of 2 samples on each of 2 data ranks (the last 3 rows are "
                      "padding)"),
            std::string::npos)
      << text;
  const auto json = nlohmann::json::parse(check_report(config, model, 2, 2, true));
  const MemoryPlan plan = predict_memory(config, model, 2, 1);
  EXPECT_DOUBLE_EQ(json["flops"]["model_per_step"].get<double>(), plan.model_flops * 2 * 9 / 12);
  EXPECT_EQ(json["machine"]["ranks_here"], 2);
}

TEST(CheckReport, TextSaysWhatARunWillBe) {
  RunConfig config = from_file("gpt/gpt2_124m.toml");
  resolve_parallel(config, 1);
  const std::string text = check_report(config, define_model(config), 1, 1, false);
  for (const char* part :
       {"tp=1 sp=1 dp=1 pp=1: 1 rank", "512 samples = 128 micro-batches of 4 samples on each of 1 data rank",
        "524,288 tokens", "124,439,808", "optimizer        949.4 MiB", "peak", "this machine"})
    EXPECT_NE(text.find(part), std::string::npos) << "lacks: " << part << "\n" << text;
}

// The work of the units is that of the step: their operations add up to what a step counts, their bytes are
// those that the memory plan lists, and ranks along other axes have a part of it.
TEST(UnitCosts, AddUpToTheStep) {
  const std::string train = "[train]\nmicro_batch_size=3\nglobal_batch_size=3\nseq_length=37\nsteps=5\n";
  for (const char* parallel : {"", "[parallel]\ntp=2\n"}) {
    RunConfig config = parsed(small_model("gpt") + train + parallel);
    const auto ranks = static_cast<int>(mesh_ranks(config));
    resolve_parallel(config, ranks);
    const ModelDefinition model = define_model(config);
    const std::vector<WorkCost> costs = predict_unit_costs(config, model);
    const MemoryPlan plan = predict_memory(config, model, ranks, 1);
    ASSERT_EQ(costs.size(), plan.saved_by_unit.size());
    double operations = 0;
    for (size_t i = 0; i < costs.size(); ++i) {
      operations += costs[i].forward + costs[i].backward_input + costs[i].backward_weight - 3;
      EXPECT_EQ(costs[i].saved, plan.saved_by_unit[i]) << i;
      EXPECT_GT(costs[i].saved_for_weight, 0) << i;  // the gradient of its output, at least
    }
    EXPECT_EQ(operations, plan.hardware_flops) << parallel;
    // A pipeline changes nothing about its units.
    config.parallel.pp = 2;
    config.parallel.schedule = "auto";
    EXPECT_EQ(predict_unit_costs(config, model)[1].forward, costs[1].forward);
  }
}

}  // namespace
}  // namespace tessera
