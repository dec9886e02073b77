// SPDX-License-Identifier: Apache-2.0
#include "framework/train/replicas.h"

#include "framework/base/random.h"
#include "framework/ops/memory.h"
#include "framework/train/resume.h"

namespace tessera {
namespace {

uint64_t checksum(Backend& backend, const Tensor& x) {
  std::string bytes(static_cast<size_t>(x.bytes()), '\0');
  backend.download(x, std::as_writable_bytes(std::span(bytes)));
  return random_key(0, bytes).value;  // XXH3
}

std::string box_text(const Box& box) {
  std::string text;
  for (size_t i = 0; i < box.offset.size(); ++i) text += fmt::format("{}+{} ", box.offset[i], box.extent[i]);
  return text;
}

}  // namespace

void check_replicas(Rank& rank, Steps step) {
  std::string mine;
  for (const auto& [name, tensor] : tensors_of(rank, TensorsFor::Loading))
    for (const Piece& piece : tensor.pieces) {
      mine += fmt::format("{} {}{:016x}\n", name, box_text(piece.box), checksum(rank.backend(), piece.data));
    }
  const std::vector<std::string> all = rank.world().all_gather_host(mine);
  const std::vector<int> peers = rank.layout().dense.peers(rank.world().rank(), {Axis::Data, Axis::Sequence});
  for (const int peer : peers) {
    const std::string& other = all[static_cast<size_t>(peer)];
    if (other == mine) continue;
    size_t at = 0;
    while (at < other.size() && at < mine.size() && other[at] == mine[at]) ++at;
    const size_t line = mine.rfind('\n', at == 0 ? 0 : at - 1);
    const size_t begin = line == std::string::npos ? 0 : line + 1;
    fail(ExitCode::Communication, "step {}: ranks {} and {} hold different copies of {}", step.value,
         rank.world().rank(), peer, mine.substr(begin, mine.find(' ', begin) - begin));
  }
}

}  // namespace tessera
