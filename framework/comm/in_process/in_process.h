// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. Collectives are asynchronous: when all ranks of a group have made a call,
// the world's one progress thread carries it out with the ranks' own backends, so tensor memory is never
// touched here. Sums are in rank order. This transport is the reference for the others.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/comm/patience.h"
#include "framework/ops/backend.h"

namespace tessera {

namespace in_process {
class World;
}

class InProcessWorld {
 public:
  // A wait that lasts longer than `patience` allows fails the world and names the ranks that have not
  // arrived. `nodes`: by rank, the node that it stands for, when the ranks stand for those of several.
  InProcessWorld(int size, Patience patience, std::vector<int> nodes = {});
  ~InProcessWorld();
  InProcessWorld(const InProcessWorld&) = delete;
  InProcessWorld& operator=(const InProcessWorld&) = delete;

  // The world communicator of one rank, made once by that rank. `backend` must outlive it and every
  // communicator made from it. Its sum and copy are called from the progress thread.
  std::unique_ptr<Communicator> attach(int rank, Backend& backend);

  // As Communicator::abort, for who launched the ranks. The first cause stays.
  void abort(int rank, std::string_view cause) noexcept;
  int aborted_by() const;  // the rank whose abort came before any other failure; -1 when there is none

 private:
  std::shared_ptr<in_process::World> world_;
};

}  // namespace tessera
