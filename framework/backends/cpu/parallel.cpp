// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/parallel.h"

#include <hwy/cache_control.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace tessera::cpu::detail {
namespace {

// A wait spins so long before it sleeps. Most waits of a step on a quiet machine are shorter, and a sleeper
// takes some 50 us to come back; but where other programs want the cores, the thread that is waited for may
// need the one that this thread spins on.
constexpr std::chrono::microseconds kPatience{100};

// A number that one thread waits for and others change. Lies on a cache line of its own.
class alignas(64) Awaited {
 public:
  std::atomic<uint32_t> value{0};

  void wait_for(uint32_t wanted) {
    const auto start = std::chrono::steady_clock::now();
    do {
      for (int i = 0; i < 32; ++i) {
        if (value.load(std::memory_order_acquire) == wanted) return;
        hwy::Pause();
      }
    } while (std::chrono::steady_clock::now() - start < kPatience);
    std::unique_lock lock(mutex_);
    asleep_ = true;
    changed_.wait(lock, [&] { return value == wanted; });
    asleep_ = false;
  }

  // After the change that is waited for. Either this sees that the other is asleep, or the other, which looks
  // once more before it sleeps, sees the change.
  void wake() {
    if (!asleep_) return;
    { const std::lock_guard lock(mutex_); }
    changed_.notify_one();
  }

 private:
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

thread_local bool in_team = false;

// The threads of one caller, which is thread 0 of the team itself. They are started when they are first
// needed and end with the caller's thread.
class Team {
 public:
  Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    body_ = nullptr;
    for (Worker& worker : workers_) worker.call();
    for (Worker& worker : workers_) worker.thread.join();
  }

  void run(int threads, void (*body)(void*, int), void* context) {
    const auto others = static_cast<size_t>(threads - 1);
    while (workers_.size() < others) workers_.emplace_back(*this, static_cast<int>(workers_.size()) + 1);
    body_ = body;
    context_ = context;
    running_.value = static_cast<uint32_t>(others);
    for (size_t i = 0; i < others; ++i) workers_[i].call();
    run_piece(0);
    running_.wait_for(0);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  struct Worker {
    Worker(Team& team, int index) : thread([this, &team, index] { team.work(calls, index); }) {}
    void call() {
      ++calls.value;
      calls.wake();
    }

    Awaited calls;  // so far
    std::thread thread;
  };

  void work(Awaited& calls, int index) {
    for (uint32_t call = 1;; ++call) {
      calls.wait_for(call);
      if (!body_) return;
      run_piece(index);
      if (--running_.value == 0) running_.wake();
    }
  }

  void run_piece(int index) {
    in_team = true;
    try {
      body_(context_, index);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    in_team = false;
  }

  std::deque<Worker> workers_;          // of the threads 1, 2, ...
  void (*body_)(void*, int) = nullptr;  // none: the team ends
  void* context_ = nullptr;
  Awaited running_;  // pieces of workers that are not done
  std::mutex error_mutex_;
  std::exception_ptr error_;  // the first
};

}  // namespace

void run_team(int threads, void (*body)(void* context, int thread), void* context) {
  if (threads > 1 && !in_team) {
    thread_local Team team;
    return team.run(threads, body, context);
  }
  for (int thread = 0; thread < threads; ++thread) body(context, thread);
}

}  // namespace tessera::cpu::detail
