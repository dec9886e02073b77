// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/folders.h"

#include <gtest/gtest.h>

#include <fstream>

#include "framework/checkpoint/load.h"
#include "tests/support/checkpoint_support.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

void make(const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "file") << folder.filename();
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string first_line(const fs::path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

const Notify kIgnore = [](const std::string&) {};

TEST(Folders, NamesReadBackAndNothingElseIsAStep) {
  for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{100}, int64_t{99999999}, int64_t{100000000}})
    EXPECT_EQ(step_of_folder_name(step_folder_name(Steps(step))), Steps(step));
  EXPECT_EQ(step_folder_name(Steps(100)), "step_00000100");
  for (const char* name :
       {"step_100", "step_", "step_000000100", "step_-0000001", "step_0000010x", ".step_00000100",
        "step_00000100.tmp-1", "xstep_00000100", "step_99999999999999999999", ""})
    EXPECT_FALSE(step_of_folder_name(name)) << name;
  EXPECT_TRUE(working_folder_name(Steps(7)).starts_with(".step_00000007.tmp-"));
  EXPECT_NE(working_folder_name(Steps(7)), working_folder_name(Steps(7)));
}

TEST(Folders, PublishingReplaces) {
  const ScratchFolder scratch;
  const fs::path published = scratch.path() / "step_00000001";
  for (const char* name : {".step_00000001.tmp-a", ".step_00000001.tmp-b"}) {
    make(scratch.path() / name);
    publish_folder(scratch.path() / name, published);
    EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"step_00000001"});
    EXPECT_NE(first_line(published / "file").find(name), std::string::npos);
  }
}

TEST(Folders, LeftoversGoAndAReplacedOneGetsItsNameBack) {
  const ScratchFolder scratch;
  make(scratch.path() / ".step_00000001.tmp-1f");
  make(scratch.path() / ".step_00000002.del-1f");
  make(scratch.path() / ".step_00000003.old-1f");  // killed between the two renames
  make(scratch.path() / ".step_00000004.old-1f");  // killed after them
  make(scratch.path() / "step_00000004");
  make(scratch.path() / ".other");
  make(scratch.path() / ".step_x.tmp-1f");
  int messages = 0;
  clean_leftovers(scratch.path(), [&](const std::string&) { ++messages; });
  EXPECT_EQ(names_in(scratch.path()),
            (std::vector<std::string>{".other", ".step_x.tmp-1f", "step_00000003", "step_00000004"}));
  EXPECT_EQ(messages, 4);
  EXPECT_NE(first_line(scratch.path() / "step_00000004" / "file").find("\"step_00000004\""),
            std::string::npos);
  clean_leftovers(scratch.path() / "absent", [&](const std::string&) { ++messages; });
  EXPECT_EQ(messages, 4);
}

std::vector<int64_t> kept(const std::vector<int64_t>& steps, int64_t newest, int64_t last, int64_t every) {
  const ScratchFolder scratch;
  for (const int64_t step : steps) make(scratch.path() / step_folder_name(Steps(step)));
  prune(scratch.path(), Steps(newest), last, every, kIgnore);
  std::vector<int64_t> left;
  for (const Steps step : published_steps(scratch.path())) left.push_back(step.value);
  EXPECT_EQ(names_in(scratch.path()).size(), left.size());
  return left;
}

TEST(Folders, PruningKeepsWhatTheRulesSay) {
  using List = std::vector<int64_t>;
  const List steps{10, 20, 30, 40, 50};
  EXPECT_EQ(kept(steps, 50, 0, 0), steps);
  EXPECT_EQ(kept(steps, 50, 1, 0), (List{50}));
  EXPECT_EQ(kept(steps, 50, 2, 20), (List{20, 40, 50}));
  EXPECT_EQ(kept(steps, 50, 9, 0), steps);
  // Later steps are of another past: they are not counted and not touched, the newest stays.
  EXPECT_EQ(kept(steps, 30, 1, 0), (List{30, 40, 50}));
  EXPECT_EQ(kept(steps, 30, 2, 0), (List{20, 30, 40, 50}));
}

TEST(Folders, LaterStepsAreSetAside) {
  const ScratchFolder scratch;
  for (const int64_t step : {1, 2, 3}) make(scratch.path() / step_folder_name(Steps(step)));
  const std::vector<fs::path> moved = set_aside_later(scratch.path(), Steps(1));
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_EQ(published_steps(scratch.path()), std::vector<Steps>{Steps(1)});
  EXPECT_TRUE(moved[0].filename().string().starts_with("aside_step_00000002-"));
  EXPECT_TRUE(fs::exists(moved[1] / "file"));
}

TEST(Folders, APathNamesACheckpointOrTheNewestOfARun) {
  const ScratchFolder scratch;
  const fs::path run = scratch.path() / "run";
  fs::create_directories(run);
  EXPECT_THROW(checkpoint_folder(run), Error);
  EXPECT_THROW(checkpoint_folder(scratch.path() / "absent"), Error);
  make(run / "checkpoints" / "step_00000002");
  make(run / "checkpoints" / "step_00000010");
  make(run / "checkpoints" / ".step_00000011.tmp-1");
  EXPECT_EQ(checkpoint_folder(run).filename(), "step_00000010");
  EXPECT_EQ(checkpoint_folder(run / "checkpoints").filename(), "step_00000010");
  std::ofstream(run / "checkpoints" / "step_00000002" / "manifest.json") << "{}";
  EXPECT_EQ(checkpoint_folder(run / "checkpoints" / "step_00000002").filename(), "step_00000002");
}

}  // namespace
}  // namespace tessera
