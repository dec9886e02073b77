// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "framework/parallel/pipeline/validate_parts.h"

namespace tessera {
namespace {

struct Channel {
  std::vector<Action> sent;      // each as the receive that it should meet
  std::vector<size_t> received;  // cells of the receiver's list
};

}  // namespace

void check_channels(const Schedule& schedule, const Refusal& refusal) {
  const auto rank_of = [&](int stage) {
    return static_cast<size_t>(schedule.rank_of_stage[static_cast<size_t>(stage)]);
  };
  std::map<std::pair<size_t, size_t>, Channel> channels;  // from rank, to rank
  for (size_t rank = 0; rank < schedule.by_rank.size(); ++rank)
    for (size_t i = 0; i < schedule.by_rank[rank].size(); ++i) {
      const Action& a = schedule.by_rank[rank][i];
      if (!is_message(a.kind)) continue;
      const size_t other = rank_of(other_end(a));
      if (is_receive(a.kind))
        channels[{other, rank}].received.push_back(i);
      else
        channels[{rank, other}].sent.push_back(receive_of(a));
    }
  for (const auto& [ends, channel] : channels) {
    const auto [from, to] = ends;
    const auto& list = schedule.by_rank[to];
    for (size_t k = 0; k < std::max(channel.sent.size(), channel.received.size()); ++k) {
      const size_t cell = k < channel.received.size() ? channel.received[k] : list.size();
      if (k >= channel.sent.size()) refusal.at(to, cell, fmt::format("rank {} sends nothing for it", from));
      const std::string sent = to_text(channel.sent[k]);
      if (cell == list.size())
        refusal.at(to, cell, fmt::format("{} is missing: rank {} sends it", sent, from));
      if (list[cell] != channel.sent[k])
        refusal.at(to, cell, fmt::format("the message that comes then from rank {} is for {}", from, sent));
    }
  }
}

}  // namespace tessera
