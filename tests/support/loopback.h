// SPDX-License-Identifier: Apache-2.0
// Messages between threads of one process, for testing what is built on messages without MPI. Delivery is
// late and in random order, except that messages between two ranks with one tag keep theirs.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "framework/comm/mpi/message_layer.h"

namespace tessera::test {

class LoopbackNetwork {
 public:
  // The largest tag is the least that MPI promises unless given. `nodes`: by rank; empty: all on one.
  LoopbackNetwork(int ranks, unsigned seed, int64_t largest_tag = 32767, std::vector<int> nodes = {})
      : ranks_(ranks), seed_(seed), largest_tag_(largest_tag), nodes_(std::move(nodes)) {
    nodes_.resize(static_cast<size_t>(ranks));
  }
  // The network must outlive the layers made.
  messages::MakeMessageLayer layer(int rank);

 private:
  friend class LoopbackLayer;
  using Lane = std::tuple<int, int, int>;  // from, to, tag
  const int ranks_;
  const unsigned seed_;
  const int64_t largest_tag_;
  std::vector<int> nodes_;
  std::mutex mutex_;
  std::map<Lane, std::deque<std::string>> sent_;
};

}  // namespace tessera::test
