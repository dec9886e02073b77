// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "framework/base/check.h"
#include "framework/base/cores.h"
#include "framework/train/launch.h"
#include "framework/train/metrics.h"
#include "tests/support/scratch_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_ / "run";
  std::string read(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
};

TEST_F(RunFolderTest, WritesNothingBeforeItBegins) {
  const RunFolder folder(folder_);
  EXPECT_FALSE(folder.holds_a_run());
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(RunFolderTest, MetricsReadAsIfTheRunHadNeverStopped) {
  {
    RunFolder folder(folder_);
    folder.begin("a = 1\n", Steps(0));
    for (int step = 1; step <= 5; ++step) folder.append_metrics("{\"step\":" + std::to_string(step) + "}");
  }
  {
    std::ofstream cut(folder_ / "metrics.jsonl", std::ios::app);
    cut << "{\"step\":6,\"lo";  // a crash in the middle of a line
  }
  RunFolder resumed(folder_);
  EXPECT_TRUE(resumed.holds_a_run());
  resumed.begin("a = 2\n", Steps(3));
  resumed.append_metrics("{\"step\":4}");
  EXPECT_EQ(read("metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n");
  EXPECT_EQ(read("metrics.lost.jsonl"), "{\"step\":4}\n{\"step\":5}\n{\"step\":6,\"lo\n");
  EXPECT_EQ(read("config.toml"), "a = 2\n");
}

TEST_F(RunFolderTest, AFolderThatCannotBeMadeIsADataError) {
  std::ofstream(folder_) << "a file is in the way";
  RunFolder folder(folder_ / "run");
  try {
    folder.begin("", Steps(0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data);
    EXPECT_NE(std::string(error.what()).find((folder_ / "run").string()), std::string::npos);
  }
}

TEST(Metrics, NumbersReadBackBitEqualAndUnknownPeaksAreNull) {
  StepMetrics metrics{.step = Steps(7), .loss = 0.1 + 0.2, .grad_norm = 1.0 / 3, .tokens = Tokens(100)};
  metrics.step_seconds = 0.5;
  const std::string line = to_json_line(metrics);
  EXPECT_NE(line.find("\"loss\":0.30000000000000004"), std::string::npos) << line;
  EXPECT_NE(line.find("\"grad_norm\":0.3333333333333333"), std::string::npos) << line;
  EXPECT_NE(line.find("\"mfu\":null"), std::string::npos) << line;
  EXPECT_NE(line.find("\"tokens_per_second\":200.0"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(Metrics, MfuIsTheShareOfThePeak) {
  StepMetrics metrics{.step = Steps(1), .tokens = Tokens(10)};
  metrics.step_seconds = 2;
  metrics.model_flops = 50;
  metrics.peak_flops = 100;
  EXPECT_NE(to_json_line(metrics).find("\"mfu\":0.25"), std::string::npos);
}

// What a chart shows: the fields of the line, but a number that is not finite stays what it is.
TEST(Metrics, NumbersByNameAreThoseOfTheLine) {
  StepMetrics metrics{.step = Steps(7), .loss = std::nan(""), .tokens = Tokens(100), .skipped = true};
  metrics.step_seconds = 0.5;
  metrics.source_loss["a"] = 1.5;
  metrics.sample_ids.push_back({1, 2, 3, 4});
  const auto numbers = named_numbers(metrics);
  std::map<std::string, double> by_name(numbers.begin(), numbers.end());
  EXPECT_EQ(by_name.size(), numbers.size());
  EXPECT_TRUE(std::isnan(by_name.at("loss")));
  EXPECT_NE(to_json_line(metrics).find("\"loss\":null"), std::string::npos);
  EXPECT_EQ(by_name.at("tokens"), 100);
  EXPECT_EQ(by_name.at("skipped"), 1);
  EXPECT_EQ(by_name.at("source_loss/a"), 1.5);
  for (const char* name : {"step", "mfu", "source_loss", "sample_ids", "eval_loss"})
    EXPECT_FALSE(by_name.contains(name)) << name;
}

TEST(Launch, LaunchersAreRecognisedByTheirVariables) {
  using Map = std::map<std::string, std::string>;
  const auto read = [](Map map) {
    return read_launch([map](const std::string& name) {
      const auto found = map.find(name);
      return found == map.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_FALSE(read({}).launched);
  const auto open_mpi = read({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}});
  EXPECT_TRUE(open_mpi.launched);
  EXPECT_EQ(open_mpi.size, 4);
  EXPECT_EQ(open_mpi.rank, 2);
  const auto slurm = read({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_NTASKS_PER_NODE", "4(x2)"}});
  EXPECT_EQ(slurm.size, 8);
  EXPECT_EQ(slurm.local_size, 4);
  EXPECT_TRUE(read({{"PMIX_RANK", "0"}}).launched);
}

TEST(Launch, ThreadsNeverExceedTheAffinityMask) {
  std::string warning;
  EXPECT_EQ(threads_of_rank(std::nullopt, 1, warning), available_cores());
  EXPECT_EQ(threads_of_rank(1, 1, warning), 1);
  EXPECT_TRUE(warning.empty());
  EXPECT_EQ(threads_of_rank(available_cores() + 5, 1, warning), available_cores());
  EXPECT_NE(warning.find(std::to_string(available_cores() + 5)), std::string::npos);
  EXPECT_GE(threads_of_rank(std::nullopt, 1000, warning), 1);
}

}  // namespace
}  // namespace tessera
