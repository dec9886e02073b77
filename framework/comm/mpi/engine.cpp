// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/mpi/engine.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "framework/base/check.h"
#include "framework/comm/mpi/operation.h"

namespace tessera::messages {

namespace {

using namespace std::chrono_literals;

constexpr auto kAbortLimit = 2s;  // for the layer's own abort, which may hang as well

// The pauses between polls.
class Pauses {
 public:
  // After a poll that moved something or did not, while a thread waits or all compute; 0: poll on.
  std::chrono::nanoseconds after(bool moved, bool awaited) {
    if (awaited) {
      idle_polls_ = moved ? 0 : idle_polls_ + 1;
      pause_ = {};
      return std::clamp<std::chrono::nanoseconds>(1us * (idle_polls_ - kPollsAtOnce), 0us, kLongestAwaited);
    }
    // Comes to rest where one poll of five finds something.
    pause_ = moved ? pause_ / 2 : std::min<std::chrono::nanoseconds>(pause_ * 5 / 4 + 1us, kLongest);
    idle_polls_ = 0;
    return pause_ < 1us ? 0us : pause_;
  }

 private:
  static constexpr int kPollsAtOnce = 16;
  static constexpr auto kLongestAwaited = 50us, kLongest = 200us;
  int idle_polls_ = 0;  // in a row, for who waits
  std::chrono::nanoseconds pause_{};
};

}  // namespace

Engine::Engine(const MakeMessageLayer& make_layer, Patience patience)
    : patience_(std::move(patience)), exceptions_at_birth_(std::uncaught_exceptions()) {
  CHECK(patience_.timeout_s > 0, "a time limit of {} s", patience_.timeout_s);
  thread_ = std::thread([this, &make_layer] { run(make_layer); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready_ || !failure_.empty(); });
  if (ready_) return;
  stop_ = true;
  lock.unlock();
  thread_.join();
  throw Error(ExitCode::Communication, failure_);
}

Engine::~Engine() {
  std::unique_lock lock(mutex_);
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_birth_;
  if (unwinding || unfinished_ > 0 || !failure_.empty()) {
    const std::string cause = failure_.empty() ? "ended in the middle of communication" : failure_;
    lock.unlock();
    abort(cause);
  }
  stop_ = true;
  lock.unlock();
  wake_.notify_all();
  thread_.join();
}

void Engine::post(std::shared_ptr<Operation> operation) {
  {
    const std::lock_guard lock(mutex_);
    check_running();
    ++unfinished_;
    ++operation->group().unfinished;
    posted_.push_back(std::move(operation));
  }
  wake_.notify_one();
}

void Engine::wait(const Operation& operation) {
  std::unique_lock lock(mutex_);
  const auto too_long = wait_until(lock, [&] { return operation.done || !failure_.empty(); });
  if (too_long)
    set_failure(fmt::format("{} waited {} for {}", operation.group().rank_text(operation.group().rank),
                            *too_long, operation.missing()));
  check_running();
}

bool Engine::done(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  check_running();
  return operation.done;
}

void Engine::leave(const Group& group, bool unwinding) {
  std::unique_lock lock(mutex_);
  // What is still unfinished after that is a failure below, whatever the reason.
  if (!unwinding) (void)wait_until(lock, [&] { return group.unfinished == 0 || !failure_.empty(); });
  if (group.unfinished == 0) return;
  set_failure(
      fmt::format("rank {} left '{}' with {} operations under way", rank_, group.name, group.unfinished));
  changed_.wait(lock, [&] { return !working_; });
}

void Engine::abort(std::string_view cause) noexcept {
  // One write, so that lines of several ranks do not mix.
  try {
    const std::string text = fmt::format("error: rank {}: {}\n", rank_, cause);
    std::fflush(nullptr);
    (void)!write(STDERR_FILENO, text.data(), text.size());
  } catch (...) {  // out of memory: without the text, then
  }
  {
    const std::lock_guard lock(mutex_);  // never held for long
    abort_ = true;
  }
  wake_.notify_all();
  std::this_thread::sleep_for(kAbortLimit);
  _exit(static_cast<int>(ExitCode::Communication));
}

void Engine::send(std::span<const std::byte> bytes, int peer, int tag, Callback finished) {
  callbacks_.emplace(next_id_, std::move(finished));
  layer_->send(bytes, peer, tag, next_id_++);
}

void Engine::receive(std::span<std::byte> bytes, int peer, int tag, Callback finished) {
  callbacks_.emplace(next_id_, std::move(finished));
  layer_->receive(bytes, peer, tag, next_id_++);
}

void Engine::mark_present(Operation& operation, int group_rank) {
  const std::lock_guard lock(mutex_);
  operation.absent[static_cast<size_t>(group_rank)] = false;
}

std::optional<std::string> Engine::wait_until(std::unique_lock<std::mutex>& lock,
                                              const std::function<bool()>& ended) {
  if (ended()) return std::nullopt;
  ++waiting_;
  wake_.notify_one();
  auto too_long = wait_patiently(changed_, lock, patience_, ended);
  --waiting_;
  return too_long;
}

void Engine::set_failure(std::string cause) {
  if (failure_.empty()) failure_ = std::move(cause);
  changed_.notify_all();
}

void Engine::check_running() const {
  if (!failure_.empty()) throw Error(ExitCode::Communication, failure_);
}

// Begins what can begin and calls back for what has finished; true when anything moved.
bool Engine::advance(std::vector<std::shared_ptr<Operation>>& started) {
  for (const std::shared_ptr<Operation>& operation : started) {
    if (!operation->collective()) {
      operation->begin();
      continue;
    }
    auto& queue = operation->group().collectives;
    queue.push_back(operation);
    if (queue.size() == 1) operation->begin();
  }
  bool moved = !started.empty();
  started.clear();
  if (!callbacks_.empty()) layer_->poll(completed_);
  for (const MessageLayer::Completed& message : completed_) {
    const auto found = callbacks_.find(message.id);
    const Callback callback = std::move(found->second);
    callbacks_.erase(found);
    callback(message.bytes);
    moved = true;
  }
  completed_.clear();
  return moved;
}

void Engine::complete_finished() {
  while (!finished_.empty()) {
    const std::shared_ptr<Operation> operation = std::move(finished_.front());
    finished_.erase(finished_.begin());
    // Before anybody learns that it is done: who has waited is the last owner of the tensors.
    operation->backend().compute_stream().synchronize();
    operation->release();
    {
      const std::lock_guard lock(mutex_);
      operation->finished_at = Timeline::now();
      operation->done = true;
      --unfinished_;
      --operation->group().unfinished;
      changed_.notify_all();
    }
    if (!operation->collective()) continue;
    auto& queue = operation->group().collectives;
    queue.pop_front();
    if (!queue.empty()) queue.front()->begin();
  }
}

void Engine::run(const MakeMessageLayer& make_layer) {
  std::unique_lock lock(mutex_);
  std::vector<std::shared_ptr<Operation>> started;
  try {
    lock.unlock();
    layer_ = make_layer();
    lock.lock();
    rank_ = layer_->rank();
    size_ = layer_->size();
    largest_tag_ = layer_->largest_tag();
    nodes_ = layer_->nodes();
    ready_ = true;
  } catch (const std::exception& exception) {
    lock.lock();
    set_failure(exception.what());
  }
  changed_.notify_all();
  // The system lets timers end 50 us late unless asked: as long again as the longest pause.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  Pauses pauses;
  while (!stop_ && !abort_) {
    started.swap(posted_);
    if (!failure_.empty() || (started.empty() && callbacks_.empty())) {
      wake_.wait(lock, [&] { return stop_ || abort_ || (failure_.empty() && !posted_.empty()); });
      continue;
    }
    working_ = true;
    lock.unlock();
    std::string error;
    bool moved = false;
    try {
      moved = advance(started);
      complete_finished();
    } catch (const std::exception& exception) {
      error = exception.what();
    }
    lock.lock();
    working_ = false;
    if (!error.empty()) set_failure(error);
    if (!failure_.empty()) changed_.notify_all();
    const bool awaited = waiting_ > 0;
    const auto pause = pauses.after(moved, awaited);
    if (pause > 0us) {
      wake_.wait_for(lock, pause,
                     [&] { return stop_ || abort_ || !posted_.empty() || (waiting_ > 0) != awaited; });
    } else if (!moved) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
  if (layer_ == nullptr) return;
  lock.unlock();
  if (abort_) layer_->abort();
  layer_->close();
}

}  // namespace tessera::messages
