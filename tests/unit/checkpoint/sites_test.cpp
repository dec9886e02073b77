// SPDX-License-Identifier: Apache-2.0
// Ranks that share a directory, and ranks on pretend nodes with a directory each.
#include "framework/checkpoint/sites.h"

#include <gtest/gtest.h>

#include "framework/checkpoint/folders.h"
#include "framework/checkpoint/load.h"
#include "framework/checkpoint/save.h"
#include "tests/support/checkpoint_support.h"
#include "tests/support/thread_ranks.h"

namespace tessera {
namespace {

using namespace test;
namespace fs = std::filesystem;

// Four ranks on two nodes.
fs::path node_of(const fs::path& scratch, int rank) {
  return scratch / (rank < 2 ? "first" : "second") / "checkpoints";
}

TEST(Sites, AreFoundByLooking) {
  const ScratchFolder scratch;
  run_ranks(4, [&](Communicator& world, int rank) {
    const Sites apart = find_sites(node_of(scratch.path(), rank), false, world);
    EXPECT_EQ(apart.leader, (std::vector<int>{0, 0, 2, 2}));
    EXPECT_EQ(apart.count(), 2);
    EXPECT_EQ(apart.ranks_of(2), (std::vector<int>{2, 3}));
    for (const bool shared : {false, true}) {
      const Sites together = find_sites(scratch.path() / "shared", shared, world);
      EXPECT_EQ(together.leader, (std::vector<int>{0, 0, 0, 0}));
    }
    EXPECT_TRUE(fs::is_empty(node_of(scratch.path(), rank)));
  });
}

TEST(Sites, DirectoriesApartNeedTheKey) {
  const ScratchFolder scratch;
  run_ranks(4, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    try {
      const CheckpointWriter writer(node_of(scratch.path(), rank), {}, world, backend, log);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Data);
      EXPECT_NE(std::string(error.what()).find("rank 2: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("checkpoint.shared_fs"), std::string::npos) << error.what();
    }
  });
}

class Apart : public testing::TestWithParam<std::tuple<Cut, Cut, int>> {};

TEST_P(Apart, SavesAndLoads) {
  const auto [saved, loaded, max_files] = GetParam();
  const ScratchFolder scratch;
  const std::vector<TestTensor> tensors = test_tensors(saved == Cut::Flat);
  run_ranks(4, [&, saved = saved, loaded = loaded, max_files = max_files](Communicator& world,
                                                                          Backend& backend, int rank) {
    Log log(LogLevel::Error);
    const fs::path directory = node_of(scratch.path(), rank);
    const SaveOptions options{.max_files = max_files, .shared_fs = false, .keep_last = 2};
    CheckpointWriter writer(directory, options, world, backend, log);
    for (int step = 1; step <= 3; ++step)
      writer.start(Steps(step), tensor_map(tensors, saved, 4, rank, backend, step, true), "{}");
    EXPECT_TRUE(writer.wait());
    world.barrier();  // the first rank of a node removes old steps
    EXPECT_EQ(published_steps(directory), (std::vector<Steps>{Steps(2), Steps(3)}));

    const auto newest = find_newest(directory, world, log, {.shared_fs = false});
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->step(), Steps(3));
    const TensorMap map = tensor_map(tensors, loaded, 4, rank, backend, std::nullopt, false);
    EXPECT_TRUE(load_tensors(*newest, map, world, backend).empty());
    expect_values(tensors, map, backend, 3);
    world.barrier();

    // One node lost its folder, or a part of it: all ranks take the step before.
    if (rank == 2) fs::remove_all(directory / "step_00000003");
    world.barrier();
    const auto before = find_newest(directory, world, log, {.shared_fs = false});
    ASSERT_TRUE(before);
    EXPECT_EQ(before->step(), Steps(2));
    load_tensors(*before, map, world, backend);
    expect_values(tensors, map, backend, 2);
    world.barrier();
    if (rank == 0)
      for (const auto& entry : fs::directory_iterator(directory / "step_00000002"))
        if (entry.path().filename().string().starts_with("part_")) fs::resize_file(entry.path(), 5);
    world.barrier();
    EXPECT_THROW(find_newest(directory, world, log, {.shared_fs = false}), Error);
  });
}

INSTANTIATE_TEST_SUITE_P(Sites, Apart,
                         testing::Values(std::tuple{Cut::Replicated, Cut::Replicated, 256},
                                         std::tuple{Cut::Flat, Cut::Columns, 256},
                                         std::tuple{Cut::Rows, Cut::Flat, 1},
                                         std::tuple{Cut::Columns, Cut::Rows, 2}));

TEST(Sites, ManySavesFromFourRanks) {
  const ScratchFolder scratch;
  const std::vector<TestTensor> tensors{{"parameters/x", DType::F32, {7}}};
  for (const bool shared : {false, true}) {
    run_ranks(4, [&](Communicator& world, Backend& backend, int rank) {
      Log log(LogLevel::Error);
      const fs::path directory = shared ? scratch.path() / "shared" : node_of(scratch.path(), rank);
      CheckpointWriter writer(directory, {.shared_fs = shared, .keep_last = 1}, world, backend, log);
      for (int step = 1; step <= 30; ++step) {
        writer.start(Steps(step), tensor_map(tensors, Cut::Rows, 4, rank, backend, step, true), "{}");
        writer.poll();
      }
      writer.wait();
      EXPECT_EQ(published_steps(directory), std::vector<Steps>{Steps(30)});
    });
  }
}

}  // namespace
}  // namespace tessera
