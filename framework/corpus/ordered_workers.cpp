// SPDX-License-Identifier: Apache-2.0
#include "framework/corpus/ordered_workers.h"

namespace tessera {

OrderedWorkers::OrderedWorkers(const Tokenizer& tokenizer, const DocumentOptions& options, int threads,
                               Sink sink)
    : tokenizer_(tokenizer),
      options_(options),
      most_tasks_(static_cast<size_t>(threads) * 4),
      sink_(std::move(sink)),
      own_(tokenizer, options) {
  if (threads <= 1) return;
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this](std::stop_token stop) { work(stop); });
}

OrderedWorkers::~OrderedWorkers() = default;

void OrderedWorkers::work(std::stop_token stop) {
  DocumentEncoder encoder(tokenizer_, options_);
  while (true) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(mutex_);
      if (!added_.wait(lock, stop, [&] { return !waiting_.empty(); })) return;
      task = waiting_.front();
      waiting_.pop_front();
    }
    encoder.run(task->job, task->result);
    {
      const std::lock_guard lock(mutex_);
      task->done = true;
    }
    done_.notify_one();
  }
}

void OrderedWorkers::add(EncodeJob job) {
  if (threads_.empty() || job.goes_on || job.breaks_off) return do_here(job);
  const auto task = std::make_shared<Task>();
  task->job = std::move(job);
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(task);
    waiting_.push_back(task);
  }
  added_.notify_one();
  hand_over(most_tasks_);
}

void OrderedWorkers::do_here(const EncodeJob& job) {
  hand_over(0);
  EncodedDocuments result;
  own_.run(job, result);
  sink_(result, job.input_bytes);
}

void OrderedWorkers::finish() {
  hand_over(0);
}

// Hands over results until at most `leave` tasks are not done.
void OrderedWorkers::hand_over(size_t leave) {
  while (!tasks_.empty()) {
    std::shared_ptr<Task> task = tasks_.front();
    {
      std::unique_lock lock(mutex_);
      if (!task->done && tasks_.size() <= leave) return;
      done_.wait(lock, [&] { return task->done; });
    }
    tasks_.pop_front();
    sink_(task->result, task->job.input_bytes);
  }
}

}  // namespace tessera
