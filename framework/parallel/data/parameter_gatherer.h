// SPDX-License-Identifier: Apache-2.0
// Whole parameters from the shards of ZeRO. Under stages Optimizer and Gradients the updated shards are
// gathered once a step, bucket by bucket in the order of use, under the next forward; under stage Parameters
// a unit's values come before it runs and go after.
#pragma once
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/data/flat_buffers.h"

namespace tessera {

class ParameterGatherer {
 public:
  // `group` is the ranks that the shards lie on. Without overlap a gather is waited for where it starts.
  ParameterGatherer(FlatBuffers& buffers, Communicator& group, Backend& backend, bool overlap);

  // The last gather of a run ends before its buffers go, unless the rank is failing.
  ~ParameterGatherer();
  ParameterGatherer(const ParameterGatherer&) = delete;
  ParameterGatherer& operator=(const ParameterGatherer&) = delete;

  // Stages Optimizer and Gradients: the shards have new values. Nothing to do without shards.
  void gather_updated();
  // Stage Parameters: starts to bring a unit's values; each gather of a unit needs its drop.
  void gather(int unit);
  void drop(int unit);
  // Returns when the unit's values are whole. Call it before the unit computes, or with no unit for all.
  void wait(int unit);
  void wait_all();

 private:
  void start(int bucket);
  void wait_bucket(int bucket);

  FlatBuffers& buffers_;
  Communicator& group_;
  Backend& backend_;
  bool overlap_;
  std::vector<Work> pending_;  // of each bucket
  std::vector<int> users_;     // gathers without their drop yet, of each bucket
};

}  // namespace tessera
