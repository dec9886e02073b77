// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/mpi/operation.h"

#include <algorithm>

#include "framework/base/check.h"

namespace tessera::messages {

std::string_view Header::text_view() const {
  return {text.data(), static_cast<size_t>(std::find(text.begin(), text.end(), '\0') - text.begin())};
}

Header header_of(std::string_view text, int64_t bytes) {
  Header header{.bytes = bytes, .text = {}};
  std::copy_n(text.begin(), std::min(text.size(), header.text.size()), header.text.begin());
  return header;
}

std::string Group::rank_text(int group_rank) const {
  const int world_rank = world_ranks[static_cast<size_t>(group_rank)];
  return group_rank == world_rank ? fmt::format("rank {}", group_rank)
                                  : fmt::format("rank {} (world rank {})", group_rank, world_rank);
}

Operation::Operation(std::shared_ptr<Group> group, Call call, int64_t expected_bytes)
    : absent(static_cast<size_t>(group->size())),
      group_(std::move(group)),
      call_(std::move(call)),
      sequence_(collective() ? group_->next_sequence++ : 0),
      expected_bytes_(expected_bytes) {
  for (size_t r = 0; collective() && r < absent.size(); ++r) absent[r] = static_cast<int>(r) != group_->rank;
  for (const PeerOp& operation : call_.operations) absent[static_cast<size_t>(operation.peer)] = true;
}

int Operation::tag(Phase phase) const {
  // The sequence number only has to tell neighbouring calls apart.
  return static_cast<int>((group_->number * 16 + sequence_ % 16) * 4 + static_cast<int>(phase));
}

std::string Operation::missing() const {
  std::string ranks;
  int64_t count = 0;
  for (int r = 0; r < group_->size(); ++r) {
    if (!absent[static_cast<size_t>(r)]) continue;
    ranks += (ranks.empty() ? "" : ", ") + group_->rank_text(r);
    ++count;
  }
  const std::string call = collective() ? fmt::format("{} #{} on '{}'", text(), sequence_, group_->name)
                                        : fmt::format("{} on '{}'", text(), group_->name);
  if (count == 0) return call + ": all ranks have arrived, it is not finished";
  return fmt::format("{}: {} {} {}", call, ranks, count == 1 ? "has" : "have",
                     collective() ? "not arrived" : "not made the matching call");
}

void Operation::begin() {
  if (call_.after != nullptr) call_.after->synchronize();
  algorithm_ = make_algorithm_(*this);
  open_part();  // so that nothing ends before everything has begun
  algorithm_->begin();
  if (collective()) {
    sent_headers_.resize(static_cast<size_t>(group_->size()));
    headers_.resize(sent_headers_.size());
    for (int peer = 0; peer < group_->size(); ++peer) {
      if (peer == group_->rank) continue;
      const auto p = static_cast<size_t>(peer);
      sent_headers_[p] = header_of(text(), algorithm_->bytes_to(peer));
      send(std::as_bytes(std::span(&sent_headers_[p], 1)), peer, Phase::Data, [] {});
      receive(std::as_writable_bytes(std::span(&headers_[p], 1)), peer, Phase::Data,
              [this, peer, p](int64_t received) {
                check_header(peer, received);
                engine().mark_present(*this, peer);
                algorithm_->meet(peer, headers_[p]);
              });
    }
  }
  close_part();
}

void Operation::check_header(int peer, int64_t received) const {
  const Header& theirs = headers_[static_cast<size_t>(peer)];
  CHECK(received == static_cast<int64_t>(sizeof(Header)) &&
            theirs.text_view() == header_of(text(), 0).text_view(),
        "call #{} on '{}' differs between ranks: {} makes {}, {} makes {}", sequence_, group_->name,
        group_->rank_text(group_->rank), text(), group_->rank_text(peer), theirs.text_view());
  const int64_t expected = algorithm_->bytes_from(peer);
  CHECK(expected < 0 || theirs.bytes == expected, "{} #{} on '{}': {} sends {} bytes to {}, which expects {}",
        text(), sequence_, group_->name, group_->rank_text(peer), theirs.bytes,
        group_->rank_text(group_->rank), expected);
}

void Operation::send(std::span<const std::byte> bytes, int peer, Phase phase, std::function<void()> sent) {
  open_part();
  engine().send(bytes, group_->world_ranks[static_cast<size_t>(peer)], tag(phase),
                [self = shared_from_this(), sent = std::move(sent)](int64_t) {
                  sent();
                  self->close_part();
                });
}

void Operation::receive(std::span<std::byte> bytes, int peer, Phase phase,
                        std::function<void(int64_t)> received) {
  open_part();
  engine().receive(bytes, group_->world_ranks[static_cast<size_t>(peer)], tag(phase),
                   [self = shared_from_this(), received = std::move(received)](int64_t count) {
                     received(count);
                     self->close_part();
                   });
}

void Operation::close_part() {
  if (--open_parts_ > 0) return;
  CHECK(sent_bytes_ == expected_bytes_, "{} on '{}' sent {} bytes, its formula gives {}", text(),
        group_->name, sent_bytes_, expected_bytes_);
  engine().finish(shared_from_this());
}

void Operation::release() {
  algorithm_.reset();
  make_algorithm_ = {};
  call_.send = call_.receive = {};
  call_.operations.clear();
}

}  // namespace tessera::messages
