// SPDX-License-Identifier: Apache-2.0
// A program that saves and loads the test tensors on thread ranks, for tests that need a process: to be
// killed, to run under an interposed library, or to have its files read by other programs.
//   checkpoint_program save DIR STEP RANKS CUT      one checkpoint
//   checkpoint_program loop DIR RANKS CUT           steps 1, 2, ... until killed; keeps the last two
//   checkpoint_program load DIR RANKS CUT           the newest one, every element; prints its step
// CUT is replicated, rows, columns or flat.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "framework/checkpoint/load.h"
#include "framework/checkpoint/save.h"
#include "tests/support/checkpoint_support.h"
#include "tests/support/thread_ranks.h"

namespace {

using namespace tessera;

std::string state() {
  return R"({"step": 1, "tokens": 12345678901, "seed": 1234, "loss_scale": 0.5, "config": "[run]\nname = \"x\"\n",
             "cursors": [{"source": "a", "position": 3}], "long": ")" +
         std::string(200000, 'x') + "\"}";
}

test::Cut cut_named(const std::string& name) {
  if (name == "replicated") return test::Cut::Replicated;
  if (name == "rows") return test::Cut::Rows;
  if (name == "columns") return test::Cut::Columns;
  if (name == "flat") return test::Cut::Flat;
  fail(ExitCode::Usage, "'{}' is not a cut", name);
}

void save(const std::string& directory, int first, int last, int ranks, test::Cut cut) {
  const std::vector<test::TestTensor> tensors = test::test_tensors();
  test::run_ranks(ranks, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Warning);
    // The next start begins after what is there, as a resumed run does.
    if (const auto newest = find_newest(directory, world, log); newest && last > first)
      first = static_cast<int>(newest->step().value) + 1;
    CheckpointWriter writer(directory, {.keep_last = 2}, world, backend, log);
    for (int step = first; step <= last; ++step) {
      writer.start(Steps(step), test::tensor_map(tensors, cut, ranks, rank, backend, step, true), state());
      writer.poll();
    }
    writer.wait();
  });
}

void load(const std::string& directory, int ranks, test::Cut cut) {
  const std::vector<test::TestTensor> tensors = test::test_tensors();
  test::run_ranks(ranks, [&](Communicator& world, Backend& backend, int rank) {
    Log log(LogLevel::Warning);
    const auto newest = find_newest(directory, world, log);
    CHECK_AS(ExitCode::Data, newest.has_value(), "there is no checkpoint in {}", directory);
    const TensorMap map = test::tensor_map(tensors, cut, ranks, rank, backend, std::nullopt, false);
    load_tensors(*newest, map, world, backend);
    test::expect_values(tensors, map, backend, static_cast<int>(newest->step().value));
    CHECK(!testing::Test::HasFailure(), "a tensor has other values than were saved");
    if (rank == 0) fmt::print("{}\n", newest->step().value);
  });
}

int run(const std::vector<std::string>& arguments) {
  const auto number = [&](size_t index) { return std::stoi(arguments.at(index)); };
  const std::string& mode = arguments.at(0);
  if (mode == "save")
    save(arguments.at(1), number(2), number(2), number(3), cut_named(arguments.at(4)));
  else if (mode == "loop")
    save(arguments.at(1), 1, 1 << 30, number(2), cut_named(arguments.at(3)));
  else if (mode == "load")
    load(arguments.at(1), number(2), cut_named(arguments.at(3)));
  else
    fail(ExitCode::Usage, "'{}' is not save, loop or load", mode);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(ExitCode::Communication);
  }
}
