// SPDX-License-Identifier: Apache-2.0
// Ranks that share a sequence compute what one rank computes: results and all gradients, position by
// position.
#include <gtest/gtest.h>

#include "framework/parallel/sequence/sequence_attention.h"
#include "tests/support/protected_backend.h"
#include "tests/support/sequence_case.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

std::string name_of(SequenceMode mode) {
  return mode == SequenceMode::Ring ? "ring" : mode == SequenceMode::Ulysses ? "ulysses" : "allgather";
}

struct Wanted {
  SequenceCase c;
  Matrices inputs, results;
};

// The results of `reference` (fp64) for the inputs of the case.
Wanted wanted(const SequenceCase& c) {
  SequenceCase reference = c;
  reference.dtype = DType::F64;
  const Matrices inputs = make_inputs(c);
  return {c, inputs, run_whole(reference, inputs).results};
}

void expect_parity(const Wanted& w, Communicator& group, Backend& backend, double bound) {
  const SequenceCut cut = make_sequence_cut(w.c.length, group.size(), group.rank());
  for (const SequenceMode mode : kModes) {
    Layer layer(w.c, cut, backend, local_inputs(w.c, cut, w.inputs));
    const auto core = make_sequence_attention(mode, group, settings_of(w.c));
    const std::string problem = part_differs(w.c, cut, layer.run(*core).results, w.results, bound);
    EXPECT_EQ(problem, "") << name_of(mode) << " rank " << group.rank() << " of " << group.size() << ": "
                           << w.c.name();
  }
}

std::vector<SequenceCase> all_cases() {
  const std::vector<std::vector<int64_t>> layouts{{}, {1}, {5, 1, 1, 9, 2}, {20, 1}};
  const HeadShare shares[] = {{.heads = 12, .head_dim = 3, .group = 1},
                              {.heads = 12, .head_dim = 2, .group = 4},
                              {.heads = 12, .head_dim = 1, .group = 12},
                              {.heads = 12, .head_dim = 2, .group = 5, .first_head = 3},
                              {.heads = 12, .head_dim = 2, .group = 3, .first_head = 4}};
  std::vector<SequenceCase> cases;
  for (const int64_t length : {1, 2, 7, 13, 64})
    for (const std::vector<int64_t>& documents : layouts)
      for (const int64_t window : {0, 1, 4, 30}) {
        // Shares, row counts and dropout take turns.
        const size_t number = cases.size();
        cases.push_back({.rows = static_cast<int64_t>(1 + number % 3),
                         .length = length,
                         .documents = documents,
                         .window = window,
                         .dropout = number % 2 == 0 ? 0.3 : 0.0,
                         .share = shares[number % 5]});
      }
  return cases;
}

class SequenceParity : public ::testing::TestWithParam<int> {};

TEST_P(SequenceParity, in_double_precision) {
  std::vector<Wanted> list;
  for (const SequenceCase& c : all_cases()) list.push_back(wanted(c));
  run_ranks(GetParam(), [&](Communicator& group, Backend& backend, int) {
    for (const Wanted& w : list) expect_parity(w, group, backend, 1e-12);
  });
}

// Inputs are exact in the type. Sums of `length` products round in fp32; a 16-bit result rounds once, and y
// is kept rounded, whose error enters every gradient through the dot product with dy: a few units of the
// type.
TEST_P(SequenceParity, in_the_types_of_training) {
  const std::pair<DType, double> types[] = {
      {DType::F32, 1e-5}, {DType::BF16, 4 * 0x1p-8}, {DType::F16, 4 * 0x1p-11}};
  std::vector<std::pair<Wanted, double>> list;
  for (const auto& [dtype, bound] : types)
    for (const SequenceCase& c :
         {SequenceCase{.length = 64, .documents = {20, 1, 9}, .dropout = 0.2},
          SequenceCase{.rows = 1,
          .length = 301,
          .window = 90,
          .share = {.heads = 12, .head_dim = 20, .group = 5, .first_head = 3}},
          SequenceCase{.rows = 3, .length = 97, .share = {.heads = 12, .head_dim = 16, .group = 6}}}) {
      SequenceCase typed = c;
      typed.dtype = dtype;
      list.emplace_back(wanted(typed), bound);
    }
  run_ranks(GetParam(), [&](Communicator& group, Backend& backend, int) {
    for (const auto& [w, bound] : list) expect_parity(w, group, backend, bound);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SequenceParity, ::testing::Values(1, 2, 3, 4),
                         [](const auto& tested) { return "sp" + std::to_string(tested.param); });

// No code above the backends touches tensor memory, and memory that was never written is never used.
TEST(Sequence, works_on_memory_that_the_host_cannot_touch) {
  const Wanted w = wanted({.length = 13, .documents = {4, 7}, .dropout = 0.1});
  const auto memory = std::make_shared<ProtectedMemory>();
  run_ranks_on(
      3, [&](int) { return make_protected_backend(1, memory); },
      [&](Communicator& group, Backend& backend, int) { expect_parity(w, group, backend, 1e-12); });
}

// Two runs give the same bits, whatever the order in which messages arrive.
TEST(Sequence, repeats_its_bits) {
  const Wanted w = wanted({.length = 64, .documents = {30, 5}, .dtype = DType::F32});
  std::vector<Matrices> first(4);
  for (int repeat = 0; repeat < 3; ++repeat)
    run_ranks(4, [&](Communicator& group, Backend& backend, int rank) {
      const SequenceCut cut = make_sequence_cut(w.c.length, 4, rank);
      for (const SequenceMode mode : kModes) {
        Layer layer(w.c, cut, backend, local_inputs(w.c, cut, w.inputs));
        const Matrices results = layer.run(*make_sequence_attention(mode, group, settings_of(w.c))).results;
        for (const auto& [name, values] : results) {
          std::vector<double>& before = first[static_cast<size_t>(rank)][name + name_of(mode)];
          if (repeat == 0) before = values;
          EXPECT_EQ(before, values) << name;
        }
      }
    });
}

TEST(Sequence, a_batch_of_another_cut_is_refused) {
  run_ranks(2, [&](Communicator& group, Backend& backend, int rank) {
    const SequenceCase c{.length = 8};
    for (const SequenceMode mode : kModes) {
      const auto core = make_sequence_attention(mode, group, settings_of(c));
      Layer other(c, make_sequence_cut(8, 2, 1 - rank), backend, {});
      EXPECT_THROW(other.forward(*core), Error);
      Layer whole(c, make_sequence_cut(8, 1, 0), backend, {});
      EXPECT_THROW(whole.forward(*core), Error);
    }
  });
}

TEST(Sequence, ulysses_refuses_heads_that_do_not_divide) {
  run_ranks(3, [&](Communicator& group, Backend&, int) {
    try {
      make_sequence_attention(SequenceMode::Ulysses, group, {.share = {.heads = 7, .head_dim = 2}});
      ADD_FAILURE() << "7 heads over 3 ranks were taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Usage);
      EXPECT_NE(std::string(error.what()).find("6 or 9"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace tessera::test
