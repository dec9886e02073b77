// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile checkpoints are refused with the file's name, whatever was done to them.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "framework/checkpoint/folders.h"
#include "framework/checkpoint/load.h"
#include "framework/checkpoint/save.h"
#include "tests/support/checkpoint_support.h"
#include "tests/support/thread_ranks.h"

namespace tessera {
namespace {

using namespace test;
namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void overwrite(const fs::path& path, const std::string& text) {
  fs::remove(path);  // ext4 flushes a file that is cut to nothing and written again
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

void save(const fs::path& directory, int step, int ranks) {
  run_ranks(ranks, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Error);
    save_checkpoint(directory, Steps(step),
                    tensor_map(test_tensors(), Cut::Flat, ranks, rank, backend, step, true),
                    R"({"tokens": 7, "nested": {"a": [1, 2.5, null, true, "x"]}})", world, backend, log);
  });
}

// The message with which opening fails; empty when it does not.
std::string refusal(const fs::path& folder, Communicator& world) {
  Log log(LogLevel::Error);
  try {
    open_checkpoint(folder, world, log);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data) << error.what();
    return error.what();
  }
  return {};
}

std::string refusal(const fs::path& folder, int ranks = 1) {
  std::string message;
  run_ranks(ranks, [&](Communicator& world, int rank) {
    const std::string own = refusal(folder, world);
    if (rank == 0) message = own;
  });
  return message;
}

// One of: flip a bit, cut, append, swap two blocks, zero a block.
std::string mutated(std::string bytes, std::mt19937& random) {
  const auto place = [&](size_t size) { return static_cast<size_t>(random()) % size; };
  const size_t block = 1 + place(std::min<size_t>(bytes.size() / 2, 512));
  switch (random() % 5) {
    case 0:
      bytes[place(bytes.size())] ^= static_cast<char>(1u << (random() % 8));
      break;
    case 1:
      bytes.resize(place(bytes.size()));
      break;
    case 2:
      bytes.append(block, static_cast<char>(random()));
      break;
    case 3: {
      const size_t a = place(bytes.size() - block), b = place(bytes.size() - block);
      const std::string first = bytes.substr(a, block), second = bytes.substr(b, block);
      bytes.replace(b, block, first);
      bytes.replace(a, block, second);
      break;
    }
    default:
      bytes.replace(place(bytes.size() - block), block, std::string(block, '\0'));
      break;
  }
  return bytes;
}

TEST(Damage, FiveHundredMutationsAreRefusedByName) {
  const ScratchFolder scratch;
  save(scratch.path(), 1, 2);
  const fs::path folder = scratch.path() / "step_00000001";
  const std::vector<std::string> names{"manifest.json", "index.h5", "part_00000.h5", "part_00001.h5"};
  run_ranks(1, [&](Communicator& world, int) {
    std::mt19937 random(11);
    int changed = 0;
    for (int trial = 0; changed < 500; ++trial) {
      const std::string& name = names[random() % names.size()];
      const std::string whole = contents(folder / name);
      const std::string broken = mutated(whole, random);
      if (broken == whole) continue;
      ++changed;
      overwrite(folder / name, broken);
      const std::string message = refusal(folder, world);
      EXPECT_NE(message.find(name), std::string::npos) << "trial " << trial << ": " << message;
      overwrite(folder / name, whole);
    }
  });
  EXPECT_EQ(refusal(folder), "");
}

// As above, but the manifest's own checksum is made right again: only the checks of its fields are left.
TEST(Damage, HostileManifestsEndInRefusalOrAreHarmless) {
  const ScratchFolder scratch;
  save(scratch.path(), 1, 2);
  const fs::path folder = scratch.path() / "step_00000001", file = folder / kManifestName;
  const std::string whole = contents(file);
  const size_t frame = std::string("{\"checksum\": \"xxh3-128:\",\n\"body\": ").size() + kDigestHexLength;
  const std::string body = whole.substr(frame, whole.size() - frame - 2);
  const auto framed = [](const std::string& text) {
    return "{\"checksum\": \"xxh3-128:" + to_hex(digest_of(text)) + "\",\n\"body\": " + text + "}\n";
  };
  ASSERT_EQ(framed(body), whole);

  const std::vector<std::pair<std::string, std::string>> replacements{
      {"\"version\": 1", "\"version\": 2"},
      {"\"step\": 1", "\"step\": -1"},
      {"\"step\": 1", "\"step\": 1e3"},
      {"\"step\": 1", "\"step\": 99999999999999999999999"},
      {"part_00000.h5", "../part_0000.h5"},
      {"part_00000.h5", "/etc/passwd"},
      {"\"index.h5\"", "\"..\""},
      {"\"offset\":[0", "\"offset\":[-1"},
      {"\"offset\":[0", "\"offset\":[9223372036854775807"},
      {"\"extent\":[", "\"extent\":[1,1,1,1,1,"},
      {"\"position\":", "\"position\":9223372036854775"},
      {"\"position\":", "\"position\":9000000"},
      {"\"position\":", "\"position\":-"},
      {"\"part\":0", "\"part\":2"},
      {"\"part\":0", "\"part\":\"0\""},
      {"\"dtype\":\"fp32\"", "\"dtype\":\"fp31\""},
      {"\"shape\":[7,33]", "\"shape\":[9223372036854775807,33]"},
      {"\"shape\":[7,33]", "\"shape\":[4611686018427387904,4611686018427387904]"},
      {"\"shape\":[7,33]", "\"shape\":[7,34]"},
      {"\"shape\":[7,33]", "\"shape\":[-7,-33]"},
      {"\"shape\":[7,33]", "\"shape\":[7,33,1]"},
      {"\"covered_once\":231", "\"covered_once\":230"},
      {"adamw/m/", "adamw/../"},
      {"adamw/m/", "adamw/v/"},
      {"\"xxh3_128\":\"", "\"xxh3_128\":\"zz"},
      {"\"tensors\": [", "\"tensors\": [[], "},
      {"\"tensors\": [", "\"tensors\": [" + std::string(100000, '[')},
      {"\"state\": {", "\"state\": " + std::string(100000, '{')},
      {"\"format\": \"tessera checkpoint\"", "\"format\": \"another\""},
  };
  for (const auto& [from, to] : replacements) {
    const size_t at = body.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    overwrite(file, framed(std::string(body).replace(at, from.size(), to)));
    EXPECT_NE(refusal(folder).find("manifest.json"), std::string::npos) << from << " -> " << to.substr(0, 80);
  }

  int refused = 0;
  run_ranks(1, [&](Communicator& world, int) {
    std::mt19937 random(13);
    for (int trial = 0; trial < 1000; ++trial) {
      overwrite(file, framed(mutated(body, random)));
      refused += refusal(folder, world).empty() ? 0 : 1;
    }
  });
  EXPECT_GT(refused, 900);  // some only change the trainer's state or a word of no effect
  for (const std::string& text : {std::string(), std::string("{"), whole.substr(0, 40), framed(""),
                                  framed("null"), framed("[]"), framed("\xff"), std::string(200, '\0')}) {
    overwrite(file, text);
    EXPECT_NE(refusal(folder).find("manifest.json"), std::string::npos) << text.substr(0, 60);
  }
}

TEST(Damage, MissingFilesAreNamed) {
  const ScratchFolder scratch;
  for (const char* name : {"manifest.json", "index.h5", "part_00001.h5"}) {
    save(scratch.path(), 1, 2);
    fs::remove(scratch.path() / "step_00000001" / name);
    EXPECT_NE(refusal(scratch.path() / "step_00000001", 3).find(name), std::string::npos);
  }
  EXPECT_NE(refusal(scratch.path() / "step_00000007").find("step_00000007"), std::string::npos);
  overwrite(scratch.path() / "file", "");
  EXPECT_NE(refusal(scratch.path() / "file").find("file"), std::string::npos);
}

// One rank sees the fault, all ranks end with it.
TEST(Damage, TruncatedPartOfOneRankEndsAllRanks) {
  const ScratchFolder scratch;
  save(scratch.path(), 1, 4);
  overwrite(scratch.path() / "step_00000001" / "part_00003.h5", "");
  run_ranks(4, [&](Communicator& world, Backend&, int) {
    Log log(LogLevel::Error);
    try {
      open_checkpoint(scratch.path() / "step_00000001", world, log);
      ADD_FAILURE() << "opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Data);
      EXPECT_NE(std::string(error.what()).find("rank 3: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("part_00003.h5 is damaged: it has 0 bytes"), std::string::npos)
          << error.what();
    }
  });
}

TEST(Damage, TheOneBeforeIsUsed) {
  const ScratchFolder scratch;
  for (const int step : {5, 10, 15}) save(scratch.path(), step, 2);
  const auto newest = [&] {
    int64_t step = -1;
    run_ranks(3, [&](Communicator& world, Backend& backend, int rank) {
      Log log(LogLevel::Error);
      const std::optional<Checkpoint> found = find_newest(scratch.path(), world, log);
      ASSERT_TRUE(found);
      const TensorMap map = tensor_map(test_tensors(), Cut::Rows, 3, rank, backend, std::nullopt, false);
      load_tensors(*found, map, world, backend);
      expect_values(test_tensors(), map, backend, static_cast<int>(found->step().value));
      if (rank == 0) step = found->step().value;
    });
    return step;
  };
  EXPECT_EQ(newest(), 15);
  const fs::path part = scratch.path() / "step_00000015" / "part_00001.h5";
  std::string bytes = contents(part);
  bytes[bytes.size() / 2] ^= 1;
  overwrite(part, bytes);
  EXPECT_EQ(newest(), 10);
  fs::remove(scratch.path() / "step_00000010" / "manifest.json");
  EXPECT_EQ(newest(), 5);
  // A folder under another step's name is not that step.
  fs::rename(scratch.path() / "step_00000005", scratch.path() / "step_00000006");
  try {
    newest();
    ADD_FAILURE() << "found one";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data);
    for (const char* name : {"part_00001.h5", "step_00000010", "holds step 5"})
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
  }
}

TEST(Damage, AnEmptyOrAbsentFolderHasNoCheckpoint) {
  const ScratchFolder scratch;
  run_ranks(2, [&](Communicator& world, Backend&, int) {
    Log log(LogLevel::Error);
    EXPECT_FALSE(find_newest(scratch.path(), world, log));
    EXPECT_FALSE(find_newest(scratch.path() / "absent", world, log));
  });
}

}  // namespace
}  // namespace tessera
