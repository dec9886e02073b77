// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/in_process/world.h"

#include <algorithm>

#include "framework/base/check.h"

namespace tessera::in_process {

namespace {

std::string list_of(const Group& group, const std::vector<int>& ranks, std::string_view verb) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + group.rank_text(rank);
  return fmt::format("{} {} {}", text, ranks.size() == 1 ? "has" : "have", verb);
}

}  // namespace

std::string Group::rank_text(int rank) const {
  const int world_rank = world_ranks[static_cast<size_t>(rank)];
  return rank == world_rank ? fmt::format("rank {}", rank)
                            : fmt::format("rank {} (world rank {})", rank, world_rank);
}

Collective::Collective(const Group& of, int64_t number)
    : Pending(of),
      sequence(number),
      calls(static_cast<size_t>(of.size())),
      host(static_cast<size_t>(of.size())) {}

std::string Collective::missing() const {
  std::vector<int> absent;
  for (int r = 0; r < group.size(); ++r)
    if (!calls[static_cast<size_t>(r)]) absent.push_back(r);
  return fmt::format(
      "{} #{} on '{}': {}", text, sequence, group.name,
      absent.empty() ? "all ranks have arrived, it is not finished" : list_of(group, absent, "not arrived"));
}

std::string Exchange::missing() const {
  return fmt::format("{} on '{}': {}", text, group.name,
                     absent.empty() ? "all partners have arrived, it is not finished"
                                    : list_of(group, absent, "not made the matching call"));
}

World::World(int size, Patience patience, std::vector<int> nodes)
    : size_(size), nodes_(std::move(nodes)), patience_(std::move(patience)) {
  CHECK(size >= 1 && patience_.timeout_s > 0, "a world of {} ranks with a time limit of {} s", size,
        patience_.timeout_s);
  CHECK(nodes_.empty() || nodes_.size() == static_cast<size_t>(size), "{} nodes are given for {} ranks",
        nodes_.size(), size);
  thread_ = std::thread([this] { progress(); });
}

World::~World() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  posted_.notify_all();
  thread_.join();
}

std::vector<int> World::nodes_of(const Group& group) const {
  std::vector<int> nodes;
  for (const int world_rank : group.world_ranks)
    nodes.push_back(nodes_.empty() ? 0 : nodes_[static_cast<size_t>(world_rank)]);
  return nodes;
}

std::shared_ptr<Group> World::join(const std::vector<int>& world_ranks, int64_t number, std::string_view name,
                                   int rank, Backend& backend) {
  const std::lock_guard lock(mutex_);
  check_running();
  std::shared_ptr<Group>& group = groups_[{number, world_ranks.front()}];
  if (!group) {
    group = std::make_shared<Group>();
    group->name = name;
    group->number = number;
    group->world_ranks = world_ranks;
    group->backends.resize(world_ranks.size());
    group->left.resize(world_ranks.size());
    group->threw.resize(world_ranks.size());
    group->calls_made.resize(world_ranks.size());
  }
  Backend*& place = group->backends[static_cast<size_t>(rank)];
  CHECK(place == nullptr && !group->left[static_cast<size_t>(rank)], "{} joined '{}' twice",
        group->rank_text(rank), group->name);
  place = &backend;
  return group;
}

void World::leave(Group& group, int rank, bool unwinding) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return busy_ != &group && std::none_of(ready_.begin(), ready_.end(),
                                           [&](const Task& task) { return task.group.get() == &group; });
  });
  group.left[static_cast<size_t>(rank)] = true;
  group.threw[static_cast<size_t>(rank)] = unwinding;
  if (std::find(group.left.begin(), group.left.end(), false) == group.left.end())
    groups_.erase({group.number, group.world_ranks.front()});
  if (unwinding || !failure_.empty()) return;
  if (!group.collectives.empty())
    set_failure(fmt::format("{} left {}", group.rank_text(rank), group.collectives.front()->missing()));
  for (const auto& [ends, channel] : group.channels) {
    if (ends.first != rank && ends.second != rank) continue;
    for (const auto* halves : {&channel.sends, &channel.receives})
      if (!halves->empty())
        set_failure(fmt::format("{} left {}", group.rank_text(rank), halves->front().exchange->missing()));
  }
}

// A rank that has left can do no more work, not even for a call that it made and did not wait for. After an
// exception it will say why: what others call meanwhile waits for that.
void World::check_present(const Group& group, int rank, const Pending& pending) {
  if (group.left[static_cast<size_t>(rank)] && !group.threw[static_cast<size_t>(rank)])
    fail(fmt::format("{}; {} has left", pending.missing(), group.rank_text(rank)));
}

std::shared_ptr<Collective> World::start(const std::shared_ptr<Group>& group, int rank, Call call,
                                         std::string host) {
  const std::lock_guard lock(mutex_);
  check_running();
  const auto r = static_cast<size_t>(rank);
  const int64_t sequence = group->calls_made[r]++;
  const auto place = static_cast<size_t>(sequence - group->first_sequence);
  if (place == group->collectives.size())
    group->collectives.push_back(std::make_shared<Collective>(*group, sequence));
  const std::shared_ptr<Collective> collective = group->collectives[place];
  if (collective->first < 0) {
    collective->first = rank;
    collective->text = call.text;
  } else if (collective->text != call.text) {
    fail(fmt::format("call #{} on '{}' differs between ranks: {} makes {}, {} makes {}", sequence,
                     group->name, group->rank_text(collective->first), collective->text,
                     group->rank_text(rank), call.text));
  }
  collective->calls[r] = std::move(call);
  collective->host[r] = std::move(host);
  for (int other = 0; other < group->size(); ++other) check_present(*group, other, *collective);
  if (++collective->arrived == group->size()) {
    // Every rank has made this call, so every rank has made those before it: it is the front one.
    group->collectives.pop_front();
    ++group->first_sequence;
    ready_.push_back({.group = group, .collective = collective});
    posted_.notify_one();
  }
  return collective;
}

std::shared_ptr<Exchange> World::exchange(const std::shared_ptr<Group>& group, int rank, const Call& call) {
  const std::lock_guard lock(mutex_);
  check_running();
  auto exchange = std::make_shared<Exchange>(*group, rank, call.text);
  exchange->unfinished = static_cast<int>(call.operations.size());
  for (const PeerOp& operation : call.operations) exchange->absent.push_back(operation.peer);
  for (const PeerOp& operation : call.operations) check_present(*group, operation.peer, *exchange);
  for (const PeerOp& operation : call.operations) {
    const bool sends = operation.kind == PeerOp::Kind::Send;
    const int from = sends ? rank : operation.peer, to = sends ? operation.peer : rank;
    Group::Channel& channel = group->channels[{from, to}];
    (sends ? channel.sends : channel.receives).push_back({exchange, operation.tensor, call.after});
    meet(group, from, to);
  }
  return exchange;
}

void World::meet(const std::shared_ptr<Group>& group, int from, int to) {
  Group::Channel& channel = group->channels[{from, to}];
  if (channel.sends.empty() || channel.receives.empty()) return;
  Half send = std::move(channel.sends.front()), receive = std::move(channel.receives.front());
  channel.sends.pop_front();
  channel.receives.pop_front();
  if (send.tensor.dtype() != receive.tensor.dtype() || send.tensor.elements() != receive.tensor.elements())
    fail(fmt::format("messages on '{}' differ: {} makes {}, {} makes {}", group->name, group->rank_text(from),
                     send.exchange->text, group->rank_text(to), receive.exchange->text));
  const auto met = [](std::vector<int>& absent, int peer) {
    absent.erase(std::find(absent.begin(), absent.end(), peer));
  };
  met(send.exchange->absent, to);
  met(receive.exchange->absent, from);
  ready_.push_back(
      {.group = group, .from = from, .to = to, .send = std::move(send), .receive = std::move(receive)});
  posted_.notify_one();
}

void World::wait(const Pending& pending, int rank) {
  std::unique_lock lock(mutex_);
  const auto too_long =
      wait_patiently(changed_, lock, patience_, [&] { return pending.done || !failure_.empty(); });
  if (too_long)
    fail(fmt::format("{} waited {} for {}", pending.group.rank_text(rank), *too_long, pending.missing()));
  check_running();
}

bool World::done(const Pending& pending) {
  const std::lock_guard lock(mutex_);
  check_running();
  return pending.done;
}

void World::abort(int world_rank, std::string_view cause) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) aborted_by_ = world_rank;
    set_failure(fmt::format("rank {}: {}", world_rank, cause));
  } catch (...) {  // out of memory: the waits then end by their time limit
  }
}

int World::aborted_by() {
  const std::lock_guard lock(mutex_);
  return aborted_by_;
}

void World::set_failure(std::string cause) {
  if (failure_.empty()) failure_ = std::move(cause);
  ready_.clear();
  changed_.notify_all();
}

void World::fail(std::string cause) {
  set_failure(std::move(cause));
  throw Error(ExitCode::Communication, failure_);
}

void World::check_running() const {
  if (!failure_.empty()) throw Error(ExitCode::Communication, failure_);
}

void World::run(Task& task) {
  if (task.collective) return run_collective(*task.group, *task.collective);
  Backend& receiver = *task.group->backends[static_cast<size_t>(task.to)];
  task.send.after->synchronize();
  task.receive.after->synchronize();
  copy_unless_same(receiver, task.send.tensor, task.receive.tensor);
  receiver.compute_stream().synchronize();
}

void World::finish(Task& task) {
  if (task.collective) {
    task.collective->calls.clear();  // so that a rank that has waited is the last owner of its tensors
    task.collective->end();
    return;
  }
  for (Half* half : {&task.send, &task.receive}) {
    half->tensor = {};
    if (--half->exchange->unfinished == 0) half->exchange->end();
  }
}

void World::progress() {
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [&] { return stop_ || !ready_.empty(); });
    if (stop_) return;
    Task task = std::move(ready_.front());
    ready_.pop_front();
    busy_ = task.group.get();
    lock.unlock();
    std::string error;
    try {
      run(task);
    } catch (const std::exception& exception) {
      error = exception.what();
    }
    lock.lock();
    busy_ = nullptr;
    if (error.empty())
      finish(task);
    else
      set_failure(fmt::format("{} on '{}': {}",
                              task.collective ? task.collective->text : task.receive.exchange->text,
                              task.group->name, error));
    changed_.notify_all();
  }
}

}  // namespace tessera::in_process
