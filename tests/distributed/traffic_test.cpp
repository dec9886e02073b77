// SPDX-License-Identifier: Apache-2.0
// Bytes that a rank sends in a step along the tensor axis, counted, against the formulas of
// docs/parallelism.md, to the byte.
#include <gtest/gtest.h>

#include "framework/mesh/shard_spec.h"
#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

constexpr int64_t kLayers = 7, kHidden = 64, kRows = 2, kMicro = 3;

struct Sent {
  int64_t all_reduce = 0, all_gather = 0, reduce_scatter = 0;
  int64_t total() const { return all_reduce + all_gather + reduce_scatter; }
};

// Of the first rank, in one step.
Sent sent_in_a_step(const Keys& keys) {
  Sent sent;
  const Keys shape{"model.num_hidden_layers=7", "train.micro_batch_size=2", "train.global_batch_size=6",
                   "model.num_attention_heads=12", "model.head_dim=6"};
  run_fixture(fixture_config(shape + keys),
              {.prepare = [](Rank& rank) { rank.groups().along({Axis::Tensor}).traffic().reset(); },
               .finish =
                   [&](Rank& rank) {
                     if (rank.number() != 0) return;
                     const Traffic& traffic = rank.groups().along({Axis::Tensor}).traffic();
                     sent = {traffic.sent(TrafficKind::AllReduce), traffic.sent(TrafficKind::AllGather),
                             traffic.sent(TrafficKind::ReduceScatter)};
                   }});
  return sent;
}

// What auto sends on one node: all chunks but the own to reduce, the own to each other rank to gather.
int64_t all_reduce_sent_bytes(int64_t elements, DType dtype, int size, int rank) {
  const int64_t own = part_of(elements, size, rank).size();
  return (elements - own + own * (size - 1)) * size_of(dtype);
}

// What the loss and the gradients that several ranks hold terms of cost, whatever the rest.
int64_t statistics_and_shared(int ranks, int64_t tokens, int64_t shared_elements) {
  return kMicro * (all_reduce_sent_bytes(tokens, DType::F32, ranks, 0) +
                   all_reduce_sent_bytes(3 * tokens, DType::F32, ranks, 0)) +
         all_reduce_sent_bytes(shared_elements, DType::F32, ranks, 0);
}

// Key and value heads: two, each used on a rank or two.
int64_t shared_key_heads(int ranks) {
  return ranks == 2 ? 0 : kLayers * 2 * (2 * 6) * kHidden;
}

// 8 units a layer, 4 of them in forward; a unit is (t-1)/t of the hidden states. One all-reduce is two.
TEST(Traffic, TensorParallelismSendsEightUnitsALayer) {
  for (const int ranks : {2, 3, 4})
    for (const int64_t length : {int64_t{36}, int64_t{37}}) {
      const int64_t tokens = kRows * length;
      const Sent sent =
          sent_in_a_step({"parallel.tp=" + std::to_string(ranks), "parallel.sequence_parallel=false",
                          "train.seq_length=" + std::to_string(length)});
      const int64_t all_reduces = kMicro * (4 * kLayers + 2);  // and the embedding's and the head's
      EXPECT_EQ(sent.all_reduce, all_reduces * all_reduce_sent_bytes(tokens * kHidden, DType::F32, ranks, 0) +
                                     statistics_and_shared(ranks, tokens, shared_key_heads(ranks)))
          << ranks << " ranks, length " << length;
      EXPECT_EQ(sent.all_gather + sent.reduce_scatter, 0);
      if (tokens % ranks == 0) {
        const int64_t unit = (ranks - 1) * tokens * kHidden * 4 / ranks;
        EXPECT_EQ(all_reduces * all_reduce_sent_bytes(tokens * kHidden, DType::F32, ranks, 0),
                  kMicro * (8 * kLayers + 4) * unit);
      }
    }
}

// 10 units a layer, or 8 when whole inputs are kept; 4 in forward.
TEST(Traffic, SequenceParallelismSendsTenUnitsALayerOrEight) {
  for (const int ranks : {2, 3, 4})
    for (const int64_t length : {int64_t{36}, int64_t{37}})
      for (const bool regather : {true, false}) {
        const int64_t tokens = kRows * length, here = (tokens + ranks - 1) / ranks;
        const Sent sent =
            sent_in_a_step({"parallel.tp=" + std::to_string(ranks),
                            std::string("comm.regather_inputs=") + (regather ? "true" : "false"),
                            "train.seq_length=" + std::to_string(length)});
        const int64_t unit = (ranks - 1) * here * kHidden * 4;
        // A layer: forward 2 and 2, backward 2 and 2, inputs again 2; the embedding 1 and 1; the head 1 and
        // 1, and its input again.
        const int64_t gathers = kLayers * (regather ? 6 : 4) + (regather ? 3 : 2);
        EXPECT_EQ(sent.all_gather, kMicro * gathers * unit) << ranks << " " << length << regather;
        EXPECT_EQ(sent.reduce_scatter, kMicro * (kLayers * 4 + 2) * unit) << ranks << " " << length;
        const int64_t norms = (2 * kLayers + 1) * kHidden;
        EXPECT_EQ(sent.all_reduce, statistics_and_shared(ranks, tokens, norms + shared_key_heads(ranks)));
      }
}

TEST(Traffic, EvaluationSendsTheForwardOnly) {
  int64_t sent = 0;
  run_fixture(fixture_config({"parallel.tp=2", "model.num_hidden_layers=7", "train.seq_length=36"}),
              {.finish = [&](Rank& rank) {
                Communicator& group = rank.groups().along({Axis::Tensor});
                group.traffic().reset();
                HostBatch host(0, 2, 36);
                host.count_weights();
                const Batch batch = rank.upload(host);
                rank.step().evaluate(std::span(&batch, 1));
                if (rank.number() == 0)
                  sent = group.traffic().sent(TrafficKind::AllGather) +
                         group.traffic().sent(TrafficKind::ReduceScatter);
              }});
  EXPECT_EQ(sent, (4 * kLayers + 2) * (72 * kHidden * 4) / 2);
}

}  // namespace
}  // namespace tessera::test
