// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/base/check.h"
#include "tests/support/scratch_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class RunReportTest : public testing::Test {
 protected:
  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();

  fs::path write(const std::string& name, const std::string& metrics, const std::string& lost = "") {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "metrics.jsonl") << metrics;
    if (!lost.empty()) std::ofstream(folder_ / name / "metrics.lost.jsonl") << lost;
    return folder_ / name;
  }

  std::string error_of(const std::string& metrics) {
    try {
      read_run_history(write("broken", metrics));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Data) << error.what();
      return error.what();
    }
    return "no error";
  }
};

constexpr const char* kThreeSteps =
    R"({"step":1,"loss":5.5,"tokens":100,"seen_tokens":100,"step_seconds":0.5,"tokens_per_second":200.0,"peak_memory_bytes":1000,"source_tokens":{"a":60,"b":40},"source_loss":{"a":5.0,"b":6.25}}
{"step":2,"loss":null,"tokens":0,"seen_tokens":100,"step_seconds":0.25,"peak_memory_bytes":3000,"skipped":true}
{"step":3,"loss":4.5,"tokens":50,"seen_tokens":150,"step_seconds":0.25,"peak_memory_bytes":2000,"eval_loss":4.75,"source_tokens":{"b":50},"source_loss":{"b":4.5}}
)";

TEST_F(RunReportTest, FiguresAreThoseOfTheLines) {
  const RunHistory run = read_run_history(
      write("run", kThreeSteps, "{\"step\":4,\"step_seconds\":1.0,\"skipped\":\"no\"}\n{\"step\":5,\"lo\n"));
  const auto json = nlohmann::json::parse(figures_json(std::span(&run, 1)))["runs"][0];
  EXPECT_EQ(json["steps"], 3);
  EXPECT_EQ(json["last_step"], 3);
  EXPECT_EQ(json["seen_tokens"], 150);
  EXPECT_EQ(json["first_loss"], 5.5);
  EXPECT_EQ(json["last_loss"], 4.5);
  EXPECT_EQ(json["lowest_loss"], 4.5);
  EXPECT_EQ(json["lowest_loss_step"], 3);
  EXPECT_EQ(json["eval_loss"], 4.75);
  EXPECT_EQ(json["eval_step"], 3);
  EXPECT_EQ(json["skipped_steps"], 1);
  EXPECT_EQ(json["lost_steps"], 1);
  EXPECT_EQ(json["step_seconds"], 1.0);
  EXPECT_EQ(json["lost_seconds"], 1.0);
  EXPECT_EQ(json["tokens_per_second"], 150.0);
  EXPECT_EQ(json["goodput"], 0.375);  // (0.5 + 0.25) of (1 + 1) seconds
  EXPECT_EQ(json["peak_memory_bytes"], 3000);
  EXPECT_EQ(json["sources"],
            (nlohmann::json{{"a", {{"tokens", 60}, {"loss", 5.0}}}, {"b", {{"tokens", 90}, {"loss", 4.5}}}}));
  EXPECT_TRUE(std::isnan(run.loss[1].value));
  EXPECT_TRUE(std::isnan(run.grad_norm[0].value));
}

TEST_F(RunReportTest, ARunWithoutStepsHasNoFigures) {
  const RunHistory run = read_run_history(write("run", "{\"step\":1,\"lo"));
  const auto json = nlohmann::json::parse(figures_json(std::span(&run, 1)))["runs"][0];
  EXPECT_EQ(json["steps"], 0);
  for (const char* absent : {"last_step", "first_loss", "lowest_loss_step", "goodput", "tokens_per_second"})
    EXPECT_TRUE(json[absent].is_null()) << absent;
  EXPECT_EQ(json["notes"][1], "line 1 of metrics.jsonl has no end yet and was left out");
  EXPECT_NE(report_page(std::span(&run, 1), true).find("metrics.jsonl has no steps yet"), std::string::npos);
}

TEST_F(RunReportTest, DamagedLinesAreNamed) {
  const std::string place = (folder_ / "broken/metrics.jsonl").string();
  const std::string good = "{\"step\":1,\"loss\":2}\n";
  for (const auto& [line, reason] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{\"step\":2,\"loss\":}", ":2:18: is no JSON from here on"},
           {"", ":2:1: is no JSON from here on"},
           {"\xFF", ":2:1: is no JSON from here on"},
           {"[2]", ":2: is no JSON object"},
           {"{\"loss\":1}", ":2: has no 'step'"},
           {"{\"step\":-2}", ":2: 'step' is no whole number"},
           {"{\"step\":1}", ":2: step 1 comes after step 1"},
           {"{\"step\":2,\"loss\":\"1\"}", ":2: 'loss' is no number"},
           {"{\"step\":2,\"loss\":1e999}", ":2: has a number that no double can hold"},
           {"{\"step\":2,\"skipped\":1}", ":2: 'skipped' is neither true nor false"},
           {"{\"step\":2,\"source_loss\":[1]}", ":2: 'source_loss' is no JSON object"},
           {"{\"step\":2,\"source_loss\":{\"a\":\"x\"}}", ":2: 'source_loss.a' is no number"},
           {"{\"step\":2,\"source_tokens\":{\"a\":null}}", ":2: 'source_tokens.a' is no number"}})
    EXPECT_EQ(error_of(good + line + "\n"), place + reason);
}

TEST_F(RunReportTest, WhatIsNoRunIsNamed) {
  for (const fs::path& path : {folder_ / "nowhere", folder_}) try {
      read_run_history(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Data);
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
    }
  std::ofstream(write("run", kThreeSteps) / "config.toml") << "[run]\nnothing = 1\n";
  try {
    read_run_history(folder_ / "run");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data);
    EXPECT_NE(std::string(error.what()).find("config.toml:2:1"), std::string::npos) << error.what();
  }
}

TEST_F(RunReportTest, NothingOfANameIsMarkup) {
  const std::vector<RunHistory> runs{
      read_run_history(write("<script>alert(1)<", kThreeSteps)),
      read_run_history(write("\"&\xC0'", R"({"step":1,"source_loss":{"</svg><b>\u0001":1},"loss":1})"
                                         "\n"))};
  EXPECT_NE(runs[1].name.find("\"&\uFFFD'"), std::string::npos);
  for (const std::string& text : {report_page(runs, false), to_svg(loss_chart(runs, false))}) {
    EXPECT_EQ(text.find("<script"), std::string::npos);
    EXPECT_NE(text.find("&lt;script&gt;alert(1)&lt;"), std::string::npos);
    EXPECT_NE(text.find("&quot;&amp;\uFFFD&#39;"), std::string::npos);
    EXPECT_EQ(text.find("<b>"), std::string::npos);
  }
}

TEST_F(RunReportTest, ThePageLoadsNothing) {
  const RunHistory run = read_run_history(write("run", kThreeSteps));
  std::string page = report_page(std::span(&run, 1), false);
  for (const std::string name :
       {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"})  // not fetched
    for (size_t at; (at = page.find(name)) != std::string::npos;) page.erase(at, name.size());
  for (const char* loader : {"http:", "https:", "//", " src", "href", "url(", "@import", "<script"})
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
}

TEST_F(RunReportTest, EveryRunHasACurveOfItsOwnLook) {
  std::vector<RunHistory> runs(9);
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].name = "run " + std::to_string(i);
    runs[i].loss = {{1, 2.0 + static_cast<double>(i)}, {2, 1.0}};
    if (i == 0) runs[i].eval_loss = {{2, 1.5}};
  }
  const std::string svg = to_svg(loss_chart(runs, false));
  std::set<std::string> looks;
  size_t curves = 0;
  for (size_t at = 0; (at = svg.find("<g class=\"curve\" ", at)) != std::string::npos; ++at, ++curves)
    looks.insert(svg.substr(at, svg.find('>', at) - at));
  EXPECT_EQ(curves, 10u);
  EXPECT_EQ(looks.size(), 10u);
  for (const RunHistory& run : runs)
    EXPECT_NE(svg.find("class=\"legend\">" + run.name + "</text>"), std::string::npos);
  EXPECT_NE(svg.find("run 0: evaluation</text>"), std::string::npos);
}

TEST_F(RunReportTest, GradientNormsOfUnlikeSizesAreDrawnByRatio) {
  RunHistory run;
  run.grad_norm = {{1, 19.0}, {2, 1.0}, {3, 0.5}, {4, 1.0}, {5, 2.0}};
  EXPECT_FALSE(grad_norm_chart(std::span(&run, 1)).log);
  run.grad_norm[0].value = 21;
  EXPECT_TRUE(grad_norm_chart(std::span(&run, 1)).log);
  run.grad_norm = {{1, kNoValue}, {2, 0.0}};
  EXPECT_FALSE(grad_norm_chart(std::span(&run, 1)).log);
}

}  // namespace
}  // namespace tessera
