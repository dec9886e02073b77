// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loopback.h"

#include <unistd.h>

#include <algorithm>

namespace tessera::test {

class LoopbackLayer final : public messages::MessageLayer {
 public:
  LoopbackLayer(LoopbackNetwork& network, int rank)
      : network_(network), rank_(rank), random_(network.seed_ + static_cast<unsigned>(rank)) {}

  int rank() const override { return rank_; }
  int size() const override { return network_.ranks_; }
  int64_t largest_tag() const override { return network_.largest_tag_; }
  std::vector<int> nodes() const override { return network_.nodes_; }

  void send(std::span<const std::byte> bytes, int peer, int tag, int64_t id) override {
    CHECK(tag >= 0 && tag <= largest_tag(), "tag {}", tag);
    outgoing_.push_back({{rank_, peer, tag}, bytes, id});
  }
  void receive(std::span<std::byte> bytes, int peer, int tag, int64_t id) override {
    incoming_[{peer, rank_, tag}].push_back({bytes, id});
  }

  void poll(std::vector<Completed>& completed) override {
    const std::lock_guard lock(network_.mutex_);
    // A send leaves late, but behind those before it on its lane.
    std::map<LoopbackNetwork::Lane, bool> held;
    std::erase_if(outgoing_, [&](const Outgoing& message) {
      bool& stuck = held[message.lane];
      stuck = stuck || random_() % 3 == 0;
      if (stuck) return false;
      network_.sent_[message.lane].emplace_back(reinterpret_cast<const char*>(message.bytes.data()),
                                                message.bytes.size());
      completed.push_back({message.id, 0});
      return true;
    });
    for (auto& [lane, receives] : incoming_) {
      auto& messages = network_.sent_[lane];
      while (!receives.empty() && !messages.empty() && random_() % 3 != 0) {
        const auto [memory, id] = receives.front();
        const std::string message = std::move(messages.front());
        receives.pop_front();
        messages.pop_front();
        CHECK(message.size() <= memory.size(), "a message of {} bytes for a receive of {}", message.size(),
              memory.size());
        std::copy(message.begin(), message.end(), reinterpret_cast<char*>(memory.data()));
        completed.push_back({id, static_cast<int64_t>(message.size())});
      }
    }
    std::shuffle(completed.begin(), completed.end(), random_);
  }

  // Nothing may be left over for this rank.
  void close() override {
    const std::lock_guard lock(network_.mutex_);
    for (const auto& [lane, messages] : network_.sent_)
      CHECK(std::get<1>(lane) != rank_ || messages.empty(), "a message from rank {} was never received",
            std::get<0>(lane));
  }
  void abort() noexcept override { _exit(static_cast<int>(ExitCode::Communication)); }

 private:
  struct Outgoing {
    LoopbackNetwork::Lane lane;
    std::span<const std::byte> bytes;
    int64_t id;
  };

  LoopbackNetwork& network_;
  const int rank_;
  std::mt19937 random_;
  std::vector<Outgoing> outgoing_;
  std::map<LoopbackNetwork::Lane, std::deque<std::pair<std::span<std::byte>, int64_t>>> incoming_;
};

messages::MakeMessageLayer LoopbackNetwork::layer(int rank) {
  return [this, rank] { return std::make_unique<LoopbackLayer>(*this, rank); };
}

}  // namespace tessera::test
