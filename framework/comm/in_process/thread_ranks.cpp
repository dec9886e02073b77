// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/in_process/thread_ranks.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "framework/base/check.h"

namespace tessera {

namespace {

// Which ranks have returned, and the first failure.
struct Returned {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ranks;
  std::vector<std::exception_ptr> exceptions;  // by rank
  int count = 0;
  int first = -1;  // the rank whose exception came first
};

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

void note_return(InProcessWorld& world, int rank, std::exception_ptr exception, Returned& returned) {
  const std::lock_guard lock(returned.mutex);
  if (exception) {
    world.abort(rank, text_of(exception));
    returned.exceptions[static_cast<size_t>(rank)] = exception;
    if (returned.first < 0) returned.first = rank;
  }
  returned.ranks[static_cast<size_t>(rank)] = true;
  ++returned.count;
  returned.changed.notify_all();
}

void run_rank(InProcessWorld& world, int rank, Returned& returned,
              const std::function<void(InProcessWorld&, int)>& body) {
  std::exception_ptr exception;
  try {
    body(world, rank);
  } catch (...) {
    exception = std::current_exception();
  }
  note_return(world, rank, exception, returned);
}

[[noreturn]] void end_process(const Returned& returned, int culprit, double grace_s) {
  std::string stuck;
  for (size_t r = 0; r < returned.ranks.size(); ++r)
    if (!returned.ranks[r]) stuck += fmt::format("{}{}", stuck.empty() ? "" : ", ", r);
  const std::string text =
      fmt::format("error: rank {}: {}\nerror: rank {} did not return within {} s of it; ending the process\n",
                  culprit, text_of(returned.exceptions[static_cast<size_t>(culprit)]), stuck, grace_s);
  std::fputs(text.c_str(), stderr);
  std::fflush(nullptr);
  _exit(static_cast<int>(ExitCode::Communication));
}

// The rank that aborted the world, where it has thrown; else the one that threw first.
int culprit_of(const InProcessWorld& world, const Returned& returned) {
  const int aborted = world.aborted_by();
  return aborted >= 0 && returned.exceptions[static_cast<size_t>(aborted)] ? aborted : returned.first;
}

// What one of several ranks threw, with its number; an error of the config is that of all ranks.
[[noreturn]] void throw_as_of_rank(int rank, const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    if (error.code() == ExitCode::Usage) throw;
    throw Error(error.code(), fmt::format("rank {}: {}", rank, error.what()));
  } catch (const std::exception& error) {
    throw Error(ExitCode::Communication, fmt::format("rank {}: {}", rank, error.what()));
  }
}

}  // namespace

void run_thread_ranks(int ranks, const ThreadRankOptions& options,
                      const std::function<void(InProcessWorld& world, int rank)>& body) {
  InProcessWorld world(ranks, options.patience, options.nodes);
  Returned returned;
  returned.ranks.resize(static_cast<size_t>(ranks));
  returned.exceptions.resize(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back([&, rank] { run_rank(world, rank, returned, body); });
    } catch (const std::system_error&) {  // no more threads: this rank fails, those that run are woken
      note_return(world, rank, std::current_exception(), returned);
    }
  }
  {
    std::unique_lock lock(returned.mutex);
    const auto all_returned = [&] { return returned.count == ranks; };
    returned.changed.wait(lock, [&] { return all_returned() || returned.first >= 0; });
    const std::chrono::duration<double> grace(options.grace_s);
    if (!returned.changed.wait_for(lock, grace, all_returned))
      end_process(returned, culprit_of(world, returned), options.grace_s);
  }
  for (std::thread& thread : threads) thread.join();
  if (returned.first < 0) return;
  const int culprit = culprit_of(world, returned);
  const std::exception_ptr& exception = returned.exceptions[static_cast<size_t>(culprit)];
  if (ranks == 1) std::rethrow_exception(exception);
  throw_as_of_rank(culprit, exception);
}

}  // namespace tessera
