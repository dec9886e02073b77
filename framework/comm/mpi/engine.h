// SPDX-License-Identifier: Apache-2.0
// The progress thread of a process. It makes every call of the message layer, its construction and its end
// among them, so the layer needs no locks. It sleeps while nothing is outstanding. While something is, it
// polls: at once and then with pauses that grow to 50 us for a thread that waits, and else, because each look
// takes time from the computation on its core, at the pace at which messages come, at most every 200 us.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "framework/comm/mpi/message_layer.h"
#include "framework/comm/patience.h"

namespace tessera::messages {

class Operation;
struct Group;

class Engine {
 public:
  // Returns when the layer is there; throws what making it threw.
  Engine(const MakeMessageLayer& make_layer, Patience patience);
  // Meets the other ranks. When operations are outstanding or have failed, or an exception is on its way, it
  // ends all processes instead: meeting would hang.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int64_t largest_tag() const { return largest_tag_; }
  const std::vector<int>& nodes() const { return nodes_; }

  // Any thread.
  void post(std::shared_ptr<Operation> operation);
  void wait(const Operation& operation);
  bool done(const Operation& operation);
  // Waits for the group's operations. An exception or a failure stops the thread instead, because the tensors
  // and the backend of the operations may go now.
  void leave(const Group& group, bool unwinding);
  [[noreturn]] void abort(std::string_view cause) noexcept;

  // The progress thread only.
  using Callback = std::function<void(int64_t bytes)>;
  void send(std::span<const std::byte> bytes, int peer, int tag, Callback finished);
  void receive(std::span<std::byte> bytes, int peer, int tag, Callback finished);
  void finish(std::shared_ptr<Operation> operation) { finished_.push_back(std::move(operation)); }
  void mark_present(Operation& operation, int group_rank);

 private:
  void run(const MakeMessageLayer& make_layer);
  bool advance(std::vector<std::shared_ptr<Operation>>& started);
  void complete_finished();
  // With the mutex held: until `ended`, or a text of how long it took too long.
  std::optional<std::string> wait_until(std::unique_lock<std::mutex>& lock,
                                        const std::function<bool()>& ended);
  void set_failure(std::string cause);  // with the mutex held; the first stays
  void check_running() const;           // with the mutex held

  const Patience patience_;
  const int exceptions_at_birth_;
  int rank_ = 0, size_ = 0;
  int64_t largest_tag_ = 0;
  std::vector<int> nodes_;

  std::mutex mutex_;
  std::condition_variable wake_;     // for the progress thread
  std::condition_variable changed_;  // for who waits
  std::vector<std::shared_ptr<Operation>> posted_;
  int64_t unfinished_ = 0;  // operations posted and not done
  std::string failure_;     // empty while all is well
  bool ready_ = false, stop_ = false, abort_ = false;
  bool working_ = false;  // the progress thread is using tensors
  int waiting_ = 0;       // threads that wait for operations

  // The progress thread's own.
  std::unique_ptr<MessageLayer> layer_;
  std::unordered_map<int64_t, Callback> callbacks_;
  int64_t next_id_ = 0;
  std::vector<MessageLayer::Completed> completed_;
  std::vector<std::shared_ptr<Operation>> finished_;

  std::thread thread_;
};

}  // namespace tessera::messages
