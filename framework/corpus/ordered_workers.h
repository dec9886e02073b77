// SPDX-License-Identifier: Apache-2.0
// Threads that do jobs, and hand over the results in the order of the jobs, on the thread that adds them.
// With one thread everything happens in add().
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/corpus/encode_job.h"

namespace tessera {

class OrderedWorkers {
 public:
  using Sink = std::function<void(const EncodedDocuments& result, int64_t input_bytes)>;

  OrderedWorkers(const Tokenizer& tokenizer, const DocumentOptions& options, int threads, Sink sink);
  ~OrderedWorkers();  // without finish(): what was not done is dropped

  void add(EncodeJob job);  // blocks while enough is waiting
  void finish();            // does the rest

 private:
  struct Task {
    EncodeJob job;
    EncodedDocuments result;
    bool done = false;
  };

  void work(std::stop_token stop);
  void hand_over(size_t leave);
  void do_here(const EncodeJob& job);

  const Tokenizer& tokenizer_;
  const DocumentOptions& options_;
  size_t most_tasks_;
  Sink sink_;
  DocumentEncoder own_;  // for jobs done on this thread
  std::mutex mutex_;
  std::condition_variable_any added_;
  std::condition_variable done_;
  std::deque<std::shared_ptr<Task>> tasks_;    // in order, from the oldest that was not handed over
  std::deque<std::shared_ptr<Task>> waiting_;  // not begun
  std::vector<std::jthread> threads_;          // last: they use the others
};

}  // namespace tessera
