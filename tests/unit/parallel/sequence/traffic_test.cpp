// SPDX-License-Identifier: Apache-2.0
// What each way of cutting attention costs: bytes by the formulas of docs/parallelism.md, operations that add
// up to those of one rank, and what a planner that moves no data foresees.
#include <gtest/gtest.h>

#include "framework/backends/cpu/workspace.h"
#include "framework/backends/shape/shape_backend.h"
#include "framework/comm/shape/shape_communicator.h"
#include "framework/parallel/sequence/sequence_attention.h"
#include "tests/support/logged_communicator.h"
#include "tests/support/sequence_case.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

constexpr TrafficKind kKinds[] = {TrafficKind::AllReduce, TrafficKind::AllGather, TrafficKind::ReduceScatter,
                                  TrafficKind::AllToAll,  TrafficKind::Broadcast, TrafficKind::Exchange,
                                  TrafficKind::Host};

using Bytes = std::map<TrafficKind, int64_t>;

Bytes sent(Communicator& group) {
  Bytes bytes;
  for (const TrafficKind kind : kKinds)
    if (group.traffic().sent(kind) > 0) bytes[kind] = group.traffic().sent(kind);
  group.traffic().reset();
  return bytes;
}

// The letters of docs/parallelism.md.
struct Sizes {
  Sizes(const SequenceCase& c, const SequenceCut& cut)
      : s(cut.ranks),
        rank(cut.rank),
        n(c.rows * cut.local_length()),
        a(c.share.heads),
        q(c.share.heads * c.share.head_dim),
        k(c.share.kv_heads() * c.share.head_dim),
        e(size_of(c.dtype)),
        w(size_of(statistics_type(c.dtype))) {
    for (int r = 0; r < s; ++r) {
      HeadShare part = c.share;
      part.heads = a / s;
      part.first_head += r * part.heads;
      k_of.push_back(part.kv_heads() * part.head_dim);
    }
  }
  // Sum of k_r over the other ranks.
  int64_t k_elsewhere() const {
    int64_t sum = 0;
    for (int r = 0; r < s; ++r) sum += r == rank ? 0 : k_of[static_cast<size_t>(r)];
    return sum;
  }
  int64_t k_here() const { return k_of[static_cast<size_t>(rank)]; }

  int64_t s, rank, n, a, q, k, e, w;
  std::vector<int64_t> k_of;
};

struct LayerBytes {
  Bytes forward, backward;
};

LayerBytes formula(SequenceMode mode, const Sizes& z) {
  const int64_t others = z.s - 1, keys = others * 2 * z.n * z.k;
  switch (mode) {
    case SequenceMode::Ring:
      return {{{TrafficKind::Exchange, keys * z.e}}, {{TrafficKind::Exchange, keys * (z.e + z.w)}}};
    case SequenceMode::Gather:
      return {{{TrafficKind::AllGather, keys * z.e}},
              {{TrafficKind::AllGather, keys * z.e}, {TrafficKind::ReduceScatter, keys * z.e}}};
    case SequenceMode::Ulysses:
      break;
  }
  const int64_t q_out = others * z.n * z.q / z.s, k_out = z.n * z.k_elsewhere();
  const int64_t k_back = others * z.n * z.k_here(), lse = others * z.n * z.a / z.s * z.w;
  return {{{TrafficKind::AllToAll, (2 * q_out + 2 * k_out) * z.e + lse}},
          {{TrafficKind::AllToAll, (4 * q_out + 2 * k_out + 2 * k_back) * z.e + lse}}};
}

std::vector<SequenceCase> cases() {
  return {{.length = 64},
          {.rows = 3, .length = 13, .share = {.heads = 12, .head_dim = 5, .group = 2}, .dtype = DType::BF16},
          {.length = 50, .documents = {7, 30, 1}, .share = {.heads = 12, .head_dim = 4, .group = 4}},
          {.length = 1, .dtype = DType::F32},
          {.length = 40,
           .window = 9,
           .dropout = 0.1,
           .share = {.heads = 12, .head_dim = 4, .group = 5, .first_head = 3},
           .dtype = DType::F32}};
}

TEST(SequenceTraffic, is_that_of_the_formulas) {
  for (const int ranks : {2, 3, 4})
    run_ranks(ranks, [&](Communicator& group, Backend& backend, int rank) {
      for (const SequenceCase& c : cases()) {
        const SequenceCut cut = make_sequence_cut(c.length, ranks, rank);
        const Matrices inputs = local_inputs(c, cut, make_inputs(c));
        for (const SequenceMode mode : kModes) {
          SCOPED_TRACE(
              fmt::format("mode {}, rank {} of {}, {}", static_cast<int>(mode), rank, ranks, c.name()));
          Layer layer(c, cut, backend, inputs);
          const auto core = make_sequence_attention(mode, group, settings_of(c));
          const LayerBytes wanted = formula(mode, Sizes(c, cut));
          const AttentionResult result = layer.forward(*core);
          EXPECT_EQ(sent(group), wanted.forward);
          layer.backward(*core, result);
          EXPECT_EQ(sent(group), wanted.backward);
        }
      }
    });
}

// Where ranks, heads and length divide, the page gives shorter forms.
TEST(SequenceTraffic, is_that_of_the_short_forms) {
  const SequenceCase c{
      .rows = 1, .length = 48, .share = {.heads = 12, .head_dim = 2, .group = 3}, .dtype = DType::BF16};
  const int64_t tokens = 48 / 4, q = 24, k = 8;  // s = 4, e = 2
  const Sizes z(c, make_sequence_cut(48, 4, 1));
  EXPECT_EQ(formula(SequenceMode::Ring, z).forward[TrafficKind::Exchange], 3 * 2 * tokens * k * 2);
  EXPECT_EQ(formula(SequenceMode::Ulysses, z).forward[TrafficKind::AllToAll],
            3 * tokens * (2 * q + 2 * k) * 2 / 4 + 3 * tokens * 12 * 4 / 4);
}

// What is hidden is not computed and not counted: the ranks together do the work of one.
TEST(SequenceWork, of_all_ranks_adds_up_to_that_of_one) {
  for (const SequenceCase& c : cases()) {
    const LayerRun whole = run_whole(c, make_inputs(c));
    for (const int ranks : {2, 3, 4})
      for (const SequenceMode mode : kModes) {
        std::atomic<int64_t> model = 0, hardware = 0;
        run_ranks(ranks, [&](Communicator& group, Backend& backend, int rank) {
          const SequenceCut cut = make_sequence_cut(c.length, ranks, rank);
          Layer layer(c, cut, backend, local_inputs(c, cut, make_inputs(c)));
          const LayerRun run = layer.run(*make_sequence_attention(mode, group, settings_of(c)));
          model += run.model_flops;
          hardware += run.hardware_flops;
        });
        EXPECT_EQ(model, whole.model_flops) << c.name() << ", " << ranks << " ranks";
        EXPECT_EQ(hardware, whole.hardware_flops) << c.name() << ", " << ranks << " ranks";
      }
  }
}

TEST(SequenceWork, of_causal_rows_is_the_same_on_every_rank) {
  const SequenceCase c{.rows = 2, .length = 48};
  for (const SequenceMode mode : kModes) {
    std::vector<int64_t> flops(3);
    run_ranks(3, [&](Communicator& group, Backend& backend, int rank) {
      const SequenceCut cut = make_sequence_cut(c.length, 3, rank);
      Layer layer(c, cut, backend, local_inputs(c, cut, make_inputs(c)));
      flops[static_cast<size_t>(rank)] =
          layer.run(*make_sequence_attention(mode, group, settings_of(c))).model_flops;
    });
    EXPECT_EQ(flops[0], flops[1]);
    EXPECT_EQ(flops[0], flops[2]);
  }
}

// The most that a call holds beside inputs and results: "Memory inside a call" of docs/parallelism.md. Every
// tensor here is of whole units of allocation.
TEST(SequenceMemory, is_that_of_the_table) {
  for (const DType dtype : {DType::BF16, DType::F32})
    for (const int ranks : {2, 3, 4})
      for (const SequenceMode mode : kModes) {
        const SequenceCase c{.rows = 1,
                             .length = 64 * ranks,
                             .share = {.heads = 24, .head_dim = 8, .group = 2},
                             .dtype = dtype};
        const SequenceCut cut = make_sequence_cut(c.length, ranks, 1);
        ShapeBackend backend;
        const auto group = make_shape_world(ranks, 1, backend);
        Layer layer(c, cut, backend, {});
        const auto core = make_sequence_attention(mode, *group, settings_of(c));
        const auto peak = [&](const auto& call) {
          const int64_t live = backend.allocator().live_bytes();
          backend.allocator().reset_peak();
          call();
          return backend.allocator().peak_bytes() - live;
        };
        AttentionResult result;
        const int64_t forward = peak([&] { result = layer.forward(*core); });
        const int64_t backward = peak([&] { layer.backward(*core, result); });
        const Sizes z(c, cut);
        const bool narrow = z.e < z.w;
        const int64_t wide_q = narrow ? z.q * z.w : 0, kept = z.q * z.e + z.a * z.w;
        // A wide result is rounded when keys are gone; where none is, the sums are the result.
        const int64_t own_y = narrow ? 0 : z.q * z.e;
        SCOPED_TRACE(fmt::format("mode {}, {} ranks, {} bytes", static_cast<int>(mode), ranks, z.e));
        if (mode == SequenceMode::Ring) {
          const int64_t travelling = ranks == 2   ? 4 * z.k * z.w
                                     : ranks == 3 ? 3 * z.k * z.e + 5 * z.k * z.w
                                                  : 4 * z.k * z.e + 5 * z.k * z.w;
          EXPECT_EQ(forward, z.n * (4 * z.k * z.e + wide_q + own_y + z.a * z.w));
          EXPECT_EQ(backward, z.n * (travelling + wide_q + (narrow ? 2 * z.k * z.w : 0)));
        } else if (mode == SequenceMode::Gather) {
          EXPECT_EQ(forward, z.n * (4 * z.s * z.k * z.e + wide_q + own_y + z.a * z.w));
          EXPECT_EQ(backward, z.n * (2 * z.s * z.k * z.w + 2 * (z.s + 1) * z.k * z.e + wide_q));
        } else {
          EXPECT_EQ(forward, z.n * std::max((2 * z.q + 4 * z.k) * z.e, kept + 3 * z.q * z.e + z.a * z.w));
          EXPECT_EQ(backward, z.n * (6 * z.q + 4 * z.k) * z.e);
        }
      }
}

// A pair of chunks that a mask hides is no call at all.
TEST(SequenceWork, skips_pairs_of_chunks_that_are_hidden) {
  class CallCounter final : public WorkspaceModel {
   public:
    int64_t attention(const AttentionArgs&) const override { return ++calls, 0; }
    int64_t attention_backward(const AttentionBackwardArgs&) const override { return ++backward_calls, 0; }
    mutable int calls = 0, backward_calls = 0;
  };
  struct Expected {
    SequenceCase c;
    int calls[4];  // of each of 4 ranks, chunks of 8 positions
  };
  const Expected list[] = {// Three pairs of its own, two with each other rank.
                           {{.rows = 1, .length = 64}, {9, 9, 9, 9}},
                           // A chunk sees itself and the end of the one before it; the first has none before
                           // it, and chunks 3 and 4
                           // of the last rank are neighbours.
                           {{.rows = 1, .length = 64, .window = 8}, {3, 4, 4, 4}},
                           {{.rows = 1, .length = 64, .documents = {8}}, {2, 2, 2, 2}},
                           // 17 positions are chunks of 3: the last two are padding.
                           {{.rows = 1, .length = 17}, {1, 2, 9, 9}}};
  for (const Expected& expected : list)
    for (int rank = 0; rank < 4; ++rank) {
      const auto counter = std::make_shared<CallCounter>();
      ShapeBackend backend(counter);
      const auto group = make_shape_world(4, rank, backend);
      Layer layer(expected.c, make_sequence_cut(expected.c.length, 4, rank), backend, {});
      const auto core = make_sequence_attention(SequenceMode::Ring, *group, settings_of(expected.c));
      layer.backward(*core, layer.forward(*core));
      EXPECT_EQ(counter->calls, expected.calls[rank]) << expected.c.name() << ", rank " << rank;
      EXPECT_EQ(counter->backward_calls, expected.calls[rank]) << expected.c.name() << ", rank " << rank;
    }
}

// Each half of the keys is sent on before the compute on it, and what it is waited for has been compute's
// length under way: the other half's, or that of a rank's own pairs. Likewise the sums behind them.
TEST(SequenceRing, has_compute_beside_every_transfer) {
  class CallLog final : public WorkspaceModel {
   public:
    int64_t attention(const AttentionArgs&) const override { return text += 'c', 0; }
    int64_t attention_backward(const AttentionBackwardArgs&) const override { return text += 'c', 0; }
    mutable std::string text;
  };
  const SequenceCase c{.rows = 2, .length = 64};
  for (int rank = 0; rank < 4; ++rank) {
    const auto log = std::make_shared<CallLog>();
    ShapeBackend backend(log);
    const auto world = make_shape_world(4, rank, backend);
    LoggedCommunicator group(*world, log->text);
    Layer layer(c, make_sequence_cut(c.length, 4, rank), backend, {});
    const auto core = make_sequence_attention(SequenceMode::Ring, group, settings_of(c));
    std::string forward = "ssccc", backward = "ssc";
    for (int step = 1; step < 4; ++step)
      for (const int half : {0, 1}) {
        // Both halves of the queries see the first keys of an earlier rank, and none its last; the second
        // half sees all keys of a later one.
        const std::string compute = rank < step ? "c" : half == 0 ? "cc" : "";
        const std::string on = step < 3 ? "s" : "";
        forward += "w" + on + compute;
        backward += "w" + on + compute + (step > 1 ? "ws" : "s");
      }
    const AttentionResult result = layer.forward(*core);
    EXPECT_EQ(log->text, forward) << rank;
    log->text.clear();
    layer.backward(*core, result);
    EXPECT_EQ(log->text, backward + "ccww") << rank;
  }
}

// Bytes, operations and the peak of memory, to the byte.
TEST(SequencePlan, foresees_a_run) {
  for (const int ranks : {2, 3, 4})
    run_ranks(ranks, [&](Communicator& group, Backend& backend, int rank) {
      for (const SequenceCase& c : cases())
        for (const SequenceMode mode : kModes) {
          SCOPED_TRACE(
              fmt::format("mode {}, rank {} of {}, {}", static_cast<int>(mode), rank, ranks, c.name()));
          const SequenceCut cut = make_sequence_cut(c.length, ranks, rank);
          const auto run = [&](Communicator& on, Backend& with, const Matrices& inputs) {
            Layer layer(c, cut, with, inputs);
            const auto core = make_sequence_attention(mode, on, settings_of(c));
            (void)layer.run(*core);  // leaves its workspace behind
            on.traffic().reset();
            return layer.run(*core);
          };
          const LayerRun real = run(group, backend, local_inputs(c, cut, make_inputs(c)));
          const Bytes bytes = sent(group);
          ShapeBackend shape(make_cpu_workspace_model(1));
          const auto imagined = make_shape_world(ranks, rank, shape);
          const LayerRun planned = run(*imagined, shape, {});
          EXPECT_EQ(sent(*imagined), bytes);
          EXPECT_EQ(planned.peak_bytes, real.peak_bytes);
          EXPECT_EQ(planned.model_flops, real.model_flops);
          EXPECT_EQ(planned.hardware_flops, real.hardware_flops);
        }
    });
}

}  // namespace
}  // namespace tessera::test
