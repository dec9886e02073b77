// SPDX-License-Identifier: Apache-2.0
// What is saved on n ranks in one cut comes back on m ranks in another, bit for bit.
#include <gtest/gtest.h>

#include "framework/checkpoint/folders.h"
#include "framework/checkpoint/load.h"
#include "framework/checkpoint/save.h"
#include "framework/ops/memory.h"
#include "tests/support/checkpoint_support.h"
#include "tests/support/thread_ranks.h"

namespace tessera {
namespace {

using namespace test;

constexpr const char* kState = R"({"tokens": 12345678901234567, "loss_scale": 0.1, "config": "[run]\n"})";

void save(const std::filesystem::path& directory, int step, Cut cut, int ranks, const SaveOptions& options,
          const std::vector<TestTensor>& tensors = test_tensors()) {
  run_ranks(ranks, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    const TensorMap map = tensor_map(tensors, cut, ranks, rank, backend, step, true);
    CheckpointWriter writer(directory, options, world, backend, log);
    writer.start(Steps(step), map, kState);
    const std::optional<SaveResult> result = writer.wait();
    ASSERT_TRUE(result);
    EXPECT_EQ(result->step, Steps(step));
    EXPECT_GT(result->bytes, 0);
    EXPECT_EQ(result->async, options.async);
  });
}

void expect_loads(const std::filesystem::path& directory, int step, Cut cut, int ranks,
                  const std::vector<TestTensor>& tensors = test_tensors()) {
  run_ranks(ranks, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    const std::optional<Checkpoint> newest = find_newest(directory, world, log);
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->step(), Steps(step));
    EXPECT_EQ(newest->state(), R"({"tokens":12345678901234567,"loss_scale":0.1,"config":"[run]\n"})");
    const TensorMap map = tensor_map(tensors, cut, ranks, rank, backend, std::nullopt, false);
    EXPECT_TRUE(load_tensors(*newest, map, world, backend).empty());
    expect_values(tensors, map, backend, step);
  });
}

class EveryPair : public testing::TestWithParam<std::tuple<Cut, Cut>> {};

TEST_P(EveryPair, OfCutsReturnsEveryElement) {
  const auto [saved, loaded] = GetParam();
  const ScratchFolder folder;
  save(folder.path(), 3, saved, 3, {});
  expect_loads(folder.path(), 3, loaded, 4);
  expect_loads(folder.path(), 3, loaded, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, EveryPair,
    testing::Combine(testing::Values(Cut::Replicated, Cut::Rows, Cut::Columns, Cut::Flat),
                     testing::Values(Cut::Replicated, Cut::Rows, Cut::Columns, Cut::Flat)));

TEST(SaveLoad, OneRank) {
  const ScratchFolder folder;
  for (const bool async : {false, true}) {
    save(folder.path(), 5, Cut::Replicated, 1, {.async = async}, test_tensors(true));
    expect_loads(folder.path(), 5, Cut::Flat, 3, test_tensors(true));
    expect_loads(folder.path(), 5, Cut::Columns, 2, test_tensors(true));
  }
}

TEST(SaveLoad, FewerFilesThanRanksShareParts) {
  for (const int max_files : {1, 2, 3}) {
    for (const bool verify : {false, true}) {
      const ScratchFolder folder;
      save(folder.path(), 7, Cut::Flat, 5, {.max_files = max_files, .verify = verify});
      int64_t parts = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "step_00000007"))
        parts += entry.path().filename().string().starts_with("part_") ? 1 : 0;
      EXPECT_EQ(parts, max_files);
      expect_loads(folder.path(), 7, Cut::Columns, 2);
    }
  }
}

TEST(SaveLoad, NothingHiddenIsLeft) {
  const ScratchFolder folder;
  save(folder.path(), 2, Cut::Rows, 2, {});
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path().filename(), "step_00000002");
}

TEST(SaveLoad, ReplicasShareTheWriting) {
  // The large tensor is cut, so that no rank writes everything.
  const ScratchFolder folder;
  save(folder.path(), 1, Cut::Replicated, 3, {}, test_tensors(true));
  const Manifest manifest = read_manifest(folder.path() / "step_00000001");
  ASSERT_EQ(manifest.parts.size(), 3u);
  for (const StoredFile& part : manifest.parts) EXPECT_LT(part.bytes, manifest.bytes() / 2);
}

TEST(SaveLoad, SameStepAgainReplaces) {
  const ScratchFolder folder;
  const std::vector<TestTensor> one{{"parameters/x", DType::F32, {7}}};
  for (const int version : {1, 2}) {
    run_ranks(2, [&](Communicator& world, Backend& backend, int rank) {
      Log log(LogLevel::Error);
      save_checkpoint(folder.path(), Steps(4), tensor_map(one, Cut::Rows, 2, rank, backend, version, true),
                      kState, world, backend, log);
      const Checkpoint checkpoint = open_checkpoint(folder.path() / "step_00000004", world, log);
      const TensorMap map = tensor_map(one, Cut::Flat, 2, rank, backend, std::nullopt, false);
      load_tensors(checkpoint, map, world, backend);
      expect_values(one, map, backend, version);
    });
  }
}

TEST(SaveLoad, TensorsMayChangeAfterStart) {
  const ScratchFolder folder;
  const std::vector<TestTensor> tensors = test_tensors(true);
  run_ranks(2, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    CheckpointWriter writer(folder.path(), {}, world, backend, log);
    TensorMap map = tensor_map(tensors, Cut::Flat, 2, rank, backend, 9, true);
    writer.start(Steps(9), map, kState);
    for (auto& [name, tensor] : map)
      for (Piece& piece : tensor.pieces) backend.fill(piece.data, 0);
    int polls = 0;
    while (!writer.poll()) ++polls;
    EXPECT_FALSE(writer.poll());
    EXPECT_FALSE(writer.wait());
    EXPECT_EQ(writer.peak_snapshot_bytes(), written_bytes(map));
  });
  expect_loads(folder.path(), 9, Cut::Rows, 3, tensors);
}

TEST(SaveLoad, SavesDoNotOverlapAndOldOnesGo) {
  const ScratchFolder folder;
  const std::vector<TestTensor> tensors{{"parameters/x", DType::F32, {1003}}};
  run_ranks(3, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    CheckpointWriter writer(folder.path(), {.keep_last = 2, .keep_every = 4}, world, backend, log);
    for (int step = 1; step <= 9; ++step) {
      const auto before =
          writer.start(Steps(step), tensor_map(tensors, Cut::Flat, 3, rank, backend, step, true), kState);
      ASSERT_EQ(before.has_value(), step > 1);
      if (before) {
        EXPECT_EQ(before->step, Steps(step - 1));
      }
    }
    EXPECT_TRUE(writer.wait());
  });
  EXPECT_EQ(published_steps(folder.path()), (std::vector<Steps>{Steps(4), Steps(8), Steps(9)}));
  run_ranks(2, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    const TensorMap map = tensor_map(tensors, Cut::Rows, 2, rank, backend, std::nullopt, false);
    load_tensors(*find_newest(folder.path(), world, log), map, world, backend);
    expect_values(tensors, map, backend, 9);
  });
}

TEST(SaveLoad, TooLargeASnapshotOnOneRankWritesAtOnceOnAll) {
  const ScratchFolder folder;
  const std::vector<TestTensor> tensors{{"parameters/x", DType::F32, {1003}}};
  run_ranks(2, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    const SaveOptions options{.snapshot_limit_bytes = rank == 1 ? 100 : 1000000};
    CheckpointWriter writer(folder.path(), options, world, backend, log);
    writer.start(Steps(1), tensor_map(tensors, Cut::Flat, 2, rank, backend, 1, true), kState);
    const std::optional<SaveResult> result = writer.poll();
    ASSERT_TRUE(result);
    EXPECT_FALSE(result->async);
    EXPECT_EQ(writer.peak_snapshot_bytes(), 0);
  });
}

TEST(SaveLoad, NotWaitedForLeavesNoCheckpoint) {
  const ScratchFolder folder;
  const std::vector<TestTensor> tensors = test_tensors(true);
  run_ranks(1, [&](Communicator& world, Backend& backend, int) {
    Log log(LogLevel::Error);
    {
      CheckpointWriter writer(folder.path(), {}, world, backend, log);
      writer.start(Steps(1), tensor_map(tensors, Cut::Flat, 1, 0, backend, 1, true), kState);
    }
    EXPECT_TRUE(published_steps(folder.path()).empty());
    EXPECT_FALSE(find_newest(folder.path(), world, log));
    const CheckpointWriter next(folder.path(), {}, world, backend, log);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  });
}

TEST(SaveLoad, UnusedNamesAreThoseNobodyWants) {
  const ScratchFolder folder;
  save(folder.path(), 1, Cut::Rows, 2, {});
  run_ranks(2, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    std::vector<TestTensor> all = test_tensors(), wanted;
    std::vector<std::string> expected;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 3 == static_cast<size_t>(rank)) wanted.push_back(all[i]);
      if (i % 3 == 2) expected.push_back(all[i].name);
    }
    const TensorMap map = tensor_map(wanted, Cut::Replicated, 1, 0, backend, std::nullopt, false);
    EXPECT_EQ(load_tensors(*find_newest(folder.path(), world, log), map, world, backend), expected);
    expect_values(wanted, map, backend, 1);
  });
}

// A change of the compute type: parameters and masters follow, everything else must have its own type.
TEST(SaveLoad, ParametersFollowTheComputeType) {
  const ScratchFolder folder;
  run_ranks(1, [&](Communicator& world, Backend& backend, int) {
    Log log(LogLevel::Error);
    const std::vector<float> values{1.0f, 1.0f + 1.0f / 1024, -3.5f};
    const Box box{{0}, {3}};
    const auto f32 = [&](float fill) {
      const std::vector<float> list(3, fill);
      return GlobalTensor{DType::F32, {3}, {{box, from_host<float>(backend, list, {3}), true}}};
    };
    const GlobalTensor exact{DType::F32, {3}, {{box, from_host<float>(backend, values, {3}), true}}};
    const GlobalTensor rounded{
        DType::BF16,
        {3},
        {{box, converted(backend, from_host<float>(backend, values, {3}), DType::BF16), true}}};
    const auto loaded = [&](const TensorMap& saved, const std::string& name, GlobalTensor wanted) {
      save_checkpoint(folder.path(), Steps(1), saved, "{}", world, backend, log);
      const Checkpoint checkpoint = open_checkpoint(folder.path() / "step_00000001", world, log);
      load_tensors(checkpoint, {{name, wanted}}, world, backend);
      return to_host<float>(backend, converted(backend, wanted.pieces[0].data, DType::F32));
    };
    const GlobalTensor bf16_target{
        DType::BF16, {3}, {{box, converted(backend, f32(0).pieces[0].data, DType::BF16)}}};

    // bf16 run to fp32 run: the master is the parameter.
    EXPECT_EQ(loaded({{"masters/x", exact}, {"parameters/x", rounded}}, "parameters/x", f32(0)), values);
    // fp32 run to bf16 run: the parameter is the master, and is rounded to the parameter.
    EXPECT_EQ(loaded({{"parameters/x", exact}}, "masters/x", f32(0)), values);
    EXPECT_EQ(loaded({{"parameters/x", exact}}, "parameters/x", bf16_target),
              (std::vector<float>{1.0f, 1.0f, -3.5f}));
    // A master never comes from a rounded parameter, and a moment never changes its type.
    EXPECT_THROW(loaded({{"parameters/x", rounded}}, "masters/x", f32(0)), Error);
    EXPECT_THROW(loaded({{"adamw/m/x", rounded}}, "adamw/m/x", f32(0)), Error);
    EXPECT_THROW(loaded({{"adamw/m/x", exact}}, "adamw/m/y", f32(0)), Error);
  });
}

TEST(SaveLoad, ShapeMismatchNamesBothAndChangesNothing) {
  const ScratchFolder folder;
  const std::vector<TestTensor> saved{{"parameters/a", DType::F32, {3}},
                                      {"parameters/b", DType::F32, {7, 3}}};
  save(folder.path(), 1, Cut::Rows, 1, {}, saved);
  run_ranks(2, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    std::vector<TestTensor> wanted = saved;
    if (rank == 1) wanted[1].shape = {3, 7};  // the other rank must not hang
    const TensorMap map = tensor_map(wanted, Cut::Replicated, 1, 0, backend, 8, false);
    try {
      load_tensors(*find_newest(folder.path(), world, log), map, world, backend);
      ADD_FAILURE() << "loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Data);
      EXPECT_NE(
          std::string(error.what()).find("parameters/b is [7, 3] in the checkpoint, [3, 7] in this run"),
          std::string::npos)
          << error.what();
    }
    if (rank == 1) expect_values(wanted, map, backend, 8);
  });
}

TEST(SaveLoad, FaultsOfTheCallerAreAgreed) {
  const ScratchFolder folder;
  const auto attempt = [&](const std::function<void(TensorMap&, int)>& spoil, const char* state,
                           const std::string& expected) {
    run_ranks(2, [&](Communicator& world, Backend& backend, int rank) {
      Log log(LogLevel::Error);
      TensorMap map = tensor_map({{"parameters/x", DType::F32, {7}}}, Cut::Rows, 2, rank, backend, 1, true);
      spoil(map, rank);
      try {
        save_checkpoint(folder.path(), Steps(1), map, state, world, backend, log);
        ADD_FAILURE() << "saved in spite of: " << expected;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
      }
    });
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  };
  const auto nothing = [](TensorMap&, int) {};
  attempt(nothing, "[1, 2]", "JSON object");
  attempt(nothing, "{", "JSON object");
  attempt([](TensorMap& map, int) { map["parameters/x"].pieces[0].writes = false; }, "{}", "nothing to save");
  attempt([](TensorMap& map, int rank) { map["parameters/x"].pieces[0].writes = rank == 0; }, "{}",
          "pieces cover 4 of 7 elements");
  attempt(
      [](TensorMap& map, int rank) {
        if (rank == 1) map["parameters/x"].pieces[0].box.offset[0] = 3;
      },
      "{}", "covered twice");
  attempt(
      [](TensorMap& map, int rank) {
        if (rank == 1) map["parameters/x"].shape = {8};
      },
      "{}", "another rank as");
  attempt(
      [](TensorMap& map, int rank) {
        if (rank == 1) map["../x"] = map["parameters/x"];
      },
      "{}", "cannot be the name");
  attempt(
      [](TensorMap& map, int rank) {
        if (rank == 1) map["parameters/x"].pieces[0].box.extent[0] = 9;
      },
      "{}", "reaches from");
}

}  // namespace
}  // namespace tessera
