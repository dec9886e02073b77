// SPDX-License-Identifier: Apache-2.0
// Every algorithm of the all-reduce trains the same model, with replicas bitwise equal, and sends the bytes
// of docs/communication.md.
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

class AllReduce : public testing::TestWithParam<LayoutCase> {};

TEST_P(AllReduce, TrainsTheSameModel) {
  expect_same_model(GetParam(), 3);
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, AllReduce,
    testing::Values(
        LayoutCase{"ring_dp3", "llama", {"parallel.dp=3", "comm.all_reduce=ring"}},
        LayoutCase{
            "tree_dp5_buckets", "gpt", {"parallel.dp=5", "comm.all_reduce=tree", "comm.bucket_size_mb=0.05"}},
        LayoutCase{"tree_tp3", "gpt", {"parallel.tp=3", "comm.all_reduce=tree"}},
        LayoutCase{"ring_tp4_whole_rows",
                   "llama",
                   {"parallel.tp=4", "parallel.sequence_parallel=false", "comm.all_reduce=ring"}},
        LayoutCase{"hierarchical_dp2_tp2",
                   "llama",
                   {"parallel.dp=2", "parallel.tp=2", "comm.all_reduce=hierarchical"}},
        LayoutCase{"server_dp3_no_overlap",
                   "gpt",
                   {"parallel.dp=3", "comm.all_reduce=parameter_server", "comm.overlap_grad_reduce=false"}},
        LayoutCase{"ring_replicas_of_shards",
                   "llama",
                   {"parallel.dp=4", "parallel.zero_stage=2", "parallel.zero_shard_size=2",
                    "comm.all_reduce=ring"}}),
    [](const auto& info) { return info.param.name; });

// In 16-bit gradients each hop rounds, but all replicas hold the same bits after each step.
TEST(AllReduceTraining, NarrowGradientsKeepReplicasEqual) {
  for (const char* algorithm : {"ring", "tree", "parameter_server"})
    run_fixture(fixture_config(odd_model("gpt", 2) + Keys{"parallel.dp=3", "comm.grad_reduce_dtype=bf16",
                                                          std::string("comm.all_reduce=") + algorithm}),
                {.steps = 3, .finish = [&](Rank& rank) {
                   for (const Bucket& bucket : rank.buffers().buckets()) {
                     std::string bytes(static_cast<size_t>(bucket.values.bytes()), '\0');
                     rank.backend().download(bucket.values, std::as_writable_bytes(std::span(bytes)));
                     for (const std::string& theirs : rank.world().all_gather_host(bytes))
                       EXPECT_TRUE(theirs == bytes) << algorithm;
                   }
                 }});
}

// Bytes of the gradient sum by rank, in a step.
std::vector<int64_t> gradient_bytes(const std::string& algorithm, int64_t& elements) {
  std::vector<int64_t> sent(4);
  run_fixture(
      fixture_config(odd_model("llama", 2) + Keys{"parallel.dp=4", "comm.all_reduce=" + algorithm}),
      {.prepare =
           [](Rank& rank) {
             rank.groups().along({Axis::Data, Axis::Sequence}).traffic().reset();
           },
       .finish =
           [&](Rank& rank) {
             sent[static_cast<size_t>(rank.number())] =
                 rank.groups().along({Axis::Data, Axis::Sequence}).traffic().sent(TrafficKind::AllReduce);
             if (rank.number() != 0) return;
             elements = 0;
             for (const Bucket& bucket : rank.buffers().buckets()) elements += bucket.elements;
           }});
  return sent;
}

TEST(AllReduceTraining, SendsTheBytesOfItsAlgorithm) {
  int64_t elements = 0;
  const std::vector<int64_t> server = gradient_bytes("parameter_server", elements);
  EXPECT_EQ(server, (std::vector<int64_t>{3 * 4 * elements, 4 * elements, 4 * elements, 4 * elements}));
  for (const char* algorithm : {"auto", "ring", "tree", "hierarchical"}) {
    const std::vector<int64_t> sent = gradient_bytes(algorithm, elements);
    EXPECT_EQ(sent[0] + sent[1] + sent[2] + sent[3], 2 * 3 * 4 * elements) << algorithm;
  }
}

}  // namespace
}  // namespace tessera::test
