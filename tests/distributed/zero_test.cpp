// SPDX-License-Identifier: Apache-2.0
// ZeRO divides state among the ranks that share gradients and trains the same model (K1 to K5): stages beside
// dp, shard sizes, accumulation, tensor ranks and the types that travel.
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

class Zero : public testing::TestWithParam<LayoutCase> {};

TEST_P(Zero, TrainsTheSameModel) {
  expect_same_model(GetParam(), 3);
}

INSTANTIATE_TEST_SUITE_P(
    Stages, Zero,
    testing::Values(
        LayoutCase{"one_dp2", "llama", {"parallel.dp=2", "parallel.zero_stage=1"}},
        LayoutCase{
            "one_dp3_gpt", "gpt", {"parallel.dp=3", "parallel.zero_stage=1", "comm.bucket_size_mb=0.05"}},
        LayoutCase{"one_no_overlap",
                   "llama",
                   {"parallel.dp=4", "parallel.zero_stage=1", "comm.overlap_param_gather=false",
                    "comm.overlap_grad_reduce=false", "comm.bucket_size_mb=0.05"}},
        LayoutCase{"one_in_shards_of_two",
                   "gpt",
                   {"parallel.dp=4", "parallel.zero_stage=1", "parallel.zero_shard_size=2"}},
        LayoutCase{
            "two_dp2", "llama", {"parallel.dp=2", "parallel.zero_stage=2", "comm.bucket_size_mb=0.05"}},
        LayoutCase{
            "two_dp3_gpt", "gpt", {"parallel.dp=3", "parallel.zero_stage=2", "comm.bucket_size_mb=0.05"}},
        LayoutCase{"two_once_a_step",
                   "gpt",
                   {"parallel.dp=2", "parallel.zero_stage=2", "parallel.zero_reduce=step"}},
        LayoutCase{"two_no_overlap",
                   "llama",
                   {"parallel.dp=4", "parallel.zero_stage=2", "comm.overlap_grad_reduce=false",
                    "comm.bucket_size_mb=0.05"}},
        LayoutCase{"two_in_shards_of_two_recomputed",
                   "llama",
                   {"parallel.dp=4", "parallel.zero_stage=2", "parallel.zero_shard_size=2",
                    "activation_checkpointing.mode=full"}},
        LayoutCase{"one_tp2", "llama", {"parallel.dp=2", "parallel.tp=2", "parallel.zero_stage=1"}},
        LayoutCase{"two_tp3_gpt",
                   "gpt",
                   {"parallel.dp=2", "parallel.tp=3", "parallel.zero_stage=2", "comm.bucket_size_mb=0.05"}},
        LayoutCase{
            "two_tp2_whole_rows",
            "llama",
            {"parallel.dp=2", "parallel.tp=2", "parallel.sequence_parallel=false", "parallel.zero_stage=2"}},
        LayoutCase{"one_sgd_tied",
                   "llama",
                   {"parallel.dp=2", "parallel.zero_stage=1"},
                   {"optimizer.type=sgd", "optimizer.momentum=0.9", "model.tie_word_embeddings=true"}},
        LayoutCase{"two_sgd_tied",
                   "gpt",
                   {"parallel.dp=2", "parallel.zero_stage=2"},
                   {"optimizer.type=sgd", "optimizer.momentum=0.9"}}),
    [](const auto& info) { return info.param.name; });

// Masters are apart from values, and the scale of fp16 is agreed.
TEST(ZeroPrecision, StagesGiveTheBitsOfStageZero) {
  for (const char* compute : {"bf16", "fp16"}) {
    const Keys base =
        odd_model("gpt", 3) + Keys{std::string("precision.compute=") + compute, "parallel.dp=2"};
    const RunRecord reference = run_fixture(fixture_config(base), {.steps = 4});
    for (const Keys& stage :
         {Keys{"parallel.zero_stage=1"}, Keys{"parallel.zero_stage=2", "parallel.zero_reduce=step"}}) {
      const RunRecord run = run_fixture(fixture_config(base + stage), {.steps = 4});
      EXPECT_EQ(run.losses, reference.losses) << compute << stage[0];
      for (const auto& [name, values] : reference.gradients)
        EXPECT_EQ(run.gradients.at(name), values) << compute << stage[0] << name;
      expect_same_weights(run, reference, std::string(compute) + stage[0]);
    }
  }
}

struct ZeroTraffic {
  int64_t all_reduce = 0, all_gather = 0, reduce_scatter = 0;  // of shards, sent by the first rank in a step
  int64_t replicas = 0;                                        // over copies of its shard
  int64_t elements = 0;                                        // of all buckets, padding included
};

ZeroTraffic zero_traffic(const Keys& keys) {
  ZeroTraffic result;
  const auto reset = [](Rank& rank) {
    rank.wait_for_values();
    rank.shard_group().traffic().reset();
    rank.replica_group().traffic().reset();
  };
  const auto read = [&](Rank& rank) {
    if (rank.number() != 0) return;
    const Traffic& traffic = rank.shard_group().traffic();
    result = {traffic.sent(TrafficKind::AllReduce), traffic.sent(TrafficKind::AllGather),
              traffic.sent(TrafficKind::ReduceScatter),
              rank.replica_group().traffic().sent(TrafficKind::AllReduce), 0};
    for (const Bucket& bucket : rank.buffers().buckets()) result.elements += bucket.elements;
  };
  run_fixture(fixture_config(odd_model("llama", 3) +
                             Keys{"train.global_batch_size=12", "comm.bucket_size_mb=0.05"} + keys),
              {.prepare = reset, .finish = read});
  return result;
}

// In units of (N-1)/N * P elements a step with m micro-batches: one gradient and one parameter under stage 1,
// m gradients and one parameter under stage 2, or one and one when it reduces once.
TEST(ZeroTraffic, FollowsTheFormulas) {
  constexpr int64_t kMicrobatches = 3, kWire = 4;
  const Keys half{"precision.compute=bf16"};
  for (const int ranks : {2, 4}) {
    const Keys dp{"parallel.dp=" + std::to_string(ranks),
                  "train.micro_batch_size=" + std::to_string(4 / ranks)};
    const auto unit = [&](const ZeroTraffic& sent) { return sent.elements / ranks * (ranks - 1); };
    const ZeroTraffic one = zero_traffic(dp + half + Keys{"parallel.zero_stage=1"});
    EXPECT_EQ(one.reduce_scatter, unit(one) * kWire);
    EXPECT_EQ(one.all_gather, unit(one) * 2);
    const ZeroTraffic two = zero_traffic(dp + Keys{"parallel.zero_stage=2"});
    EXPECT_EQ(two.reduce_scatter, kMicrobatches * unit(two) * kWire);
    EXPECT_EQ(two.all_gather, unit(two) * 4);
    const ZeroTraffic once = zero_traffic(
        dp + half +
        Keys{"parallel.zero_stage=2", "parallel.zero_reduce=step", "comm.grad_reduce_dtype=bf16"});
    EXPECT_EQ(once.reduce_scatter, unit(once) * 2);
    EXPECT_EQ(once.all_gather, unit(once) * 2);
    for (const ZeroTraffic& sent : {one, two, once}) EXPECT_EQ(sent.all_reduce + sent.replicas, 0);
  }
}

// Shards on two ranks, replicas on two: what stage 1 sends inside, and one all-reduce of a shard outside.
TEST(ZeroTraffic, ReplicasReduceTheirShard) {
  const ZeroTraffic sent = zero_traffic(
      {"parallel.dp=4", "parallel.zero_stage=2", "parallel.zero_shard_size=2", "train.micro_batch_size=1"});
  EXPECT_EQ(sent.reduce_scatter, 3 * sent.elements / 2 * 4);
  EXPECT_EQ(sent.all_gather, sent.elements / 2 * 4);
  EXPECT_EQ(sent.replicas, sent.elements / 2 * 4);  // 2 (R-1)/R of the shard, R = 2
}

}  // namespace
}  // namespace tessera::test
