// SPDX-License-Identifier: Apache-2.0
// What the ranks of an in-process world share: the calls that wait for partners, the queue of those that are
// complete, and the thread that carries them out. One mutex guards all of it; it is never held while a
// backend works.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "framework/comm/patience.h"
#include "framework/comm/transport.h"

namespace tessera::in_process {

struct Group;

// What a wait waits for. Fields are guarded by the world's mutex.
class Pending {
 public:
  explicit Pending(const Group& of) : group(of) {}
  virtual ~Pending() = default;
  virtual std::string missing() const = 0;  // "all_reduce(...) #3 on 'dp': ranks 1, 2 have not arrived"

  // With the world's mutex.
  void end() {
    finished_at = Timeline::now();
    done = true;
  }

  const Group& group;
  bool done = false;
  double finished_at = 0;
};

// The k-th collective of a group.
class Collective final : public Pending {
 public:
  Collective(const Group& of, int64_t number);
  std::string missing() const override;

  const int64_t sequence;
  std::vector<std::optional<Call>> calls;  // by rank of the group; dropped when it is done
  std::vector<std::string> host;           // the bytes of a host collective, by rank
  std::string text;                        // of the call that came first: the others must match it
  int first = -1;                          // whose it was
  int arrived = 0;
};

// One rank's exchange: done when the message of each of its operations has been copied.
class Exchange final : public Pending {
 public:
  Exchange(const Group& of, int by, std::string what) : Pending(of), rank(by), text(std::move(what)) {}
  std::string missing() const override;

  const int rank;
  const std::string text;
  std::vector<int> absent;  // the peers of operations that have not met their partner
  int unfinished = 0;
};

// One half of a message.
struct Half {
  std::shared_ptr<Exchange> exchange;
  Tensor tensor;
  Stream* after = nullptr;
};

struct Group {
  struct Channel {
    std::deque<Half> sends, receives;  // one of them is empty
  };

  int size() const { return static_cast<int>(world_ranks.size()); }
  std::string rank_text(int rank) const;  // "rank 1 (world rank 5)"

  std::string name;
  int64_t number = 0;
  std::vector<int> world_ranks;
  // By rank of the group:
  std::vector<Backend*> backends;  // null until the rank has joined
  std::vector<bool> left;
  std::vector<bool> threw;  // left during an exception
  std::vector<int64_t> calls_made;
  // Collectives that some rank has not called yet; the front one has the number `first_sequence`.
  std::deque<std::shared_ptr<Collective>> collectives;
  int64_t first_sequence = 0;
  std::map<std::pair<int, int>, Channel> channels;  // by (from, to)
};

class World {
 public:
  World(int size, Patience patience, std::vector<int> nodes);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int size() const { return size_; }
  std::vector<int> nodes_of(const Group& group) const;  // by rank of the group
  // The group with this number, made by the first of its ranks that asks.
  std::shared_ptr<Group> join(const std::vector<int>& world_ranks, int64_t number, std::string_view name,
                              int rank, Backend& backend);
  // The rank makes no more calls in the group; returns when its backend does no more work for the group.
  // When it leaves partners waiting the world fails, except during an exception: its cause is the one to
  // report.
  void leave(Group& group, int rank, bool unwinding);

  std::shared_ptr<Collective> start(const std::shared_ptr<Group>& group, int rank, Call call,
                                    std::string host = {});
  std::shared_ptr<Exchange> exchange(const std::shared_ptr<Group>& group, int rank, const Call& call);
  void wait(const Pending& pending, int rank);
  bool done(const Pending& pending);
  void abort(int world_rank, std::string_view cause) noexcept;
  int aborted_by();

 private:
  // A complete collective, or the two halves of a message.
  struct Task {
    std::shared_ptr<Group> group;
    std::shared_ptr<Collective> collective;
    int from = 0, to = 0;
    Half send, receive;
  };
  static void run(Task& task);
  void progress();
  // With the mutex held:
  void finish(Task& task);
  [[noreturn]] void fail(std::string cause);  // the first cause stays
  void set_failure(std::string cause);
  void check_running() const;
  void check_present(const Group& group, int rank, const Pending& pending);
  void meet(const std::shared_ptr<Group>& group, int from, int to);

  const int size_;
  const std::vector<int> nodes_;  // by world rank; empty: all on one
  const Patience patience_;
  std::mutex mutex_;
  std::condition_variable changed_;  // something is done, has failed, or the progress thread is free
  std::condition_variable posted_;   // for the progress thread
  std::deque<Task> ready_;
  const Group* busy_ = nullptr;  // whom the progress thread works for
  std::string failure_;          // empty while all is well
  int aborted_by_ = -1;
  bool stop_ = false;
  // By number and first world rank, until all ranks have left.
  std::map<std::pair<int64_t, int>, std::shared_ptr<Group>> groups_;
  std::thread thread_;
};

// Carries out a complete collective on the backends of its ranks.
void run_collective(const Group& group, Collective& collective);

}  // namespace tessera::in_process
