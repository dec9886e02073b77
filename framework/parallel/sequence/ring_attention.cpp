// SPDX-License-Identifier: Apache-2.0
// Step t works on the keys of the rank that stands t places before this one.
#include "framework/parallel/sequence/ring_attention.h"

#include "framework/ops/elementwise.h"
#include "framework/ops/memory.h"
#include "framework/parallel/sequence/local_queries.h"
#include "framework/parallel/sequence/transfer.h"

namespace tessera {
namespace {

class Ring {
 public:
  Ring(Communicator& group, Stream& stream) : group_(group), stream_(stream) {}

  int size() const { return group_.size(); }
  int owner(int step) const { return (group_.rank() - step + size()) % size(); }  // of the keys of a step

  // Sends to the next rank and receives from the one before.
  void send(const Tensor& tensor) {
    operations_.push_back({PeerOp::Kind::Send, (group_.rank() + 1) % size(), tensor});
  }
  void receive(const Tensor& tensor) { operations_.push_back({PeerOp::Kind::Receive, owner(1), tensor}); }
  // Starts what was named since the last start.
  [[nodiscard]] Transfer start() {
    const std::vector<PeerOp> operations = std::exchange(operations_, {});
    if (operations.empty()) return {};
    return {group_.exchange(operations, stream_), stream_};
  }

 private:
  Communicator& group_;
  Stream& stream_;
  std::vector<PeerOp> operations_;
};

class Backward {
 public:
  Backward(Communicator& group, const LocalQueries& local, const LocalQueries::Backward& inputs,
           Backend& backend)
      : backend_(backend), ring_(group, backend.compute_stream()), local_(local), inputs_(inputs) {}

  // Adds all terms of the gradients of this rank's keys to `own`. Its own pairs come in two parts, so that
  // there is work both while the first keys and while the last sums travel.
  void run(const KeysValues& keys, const KeysValues& own) {
    here_ = stacked(backend_, keys);
    next_ = empty_stack(backend_, keys.k.dtype(), keys.k);
    begin(own);
    for (int step = 1; step < ring_.size(); ++step) pass_by(step);
    here_ = {};
    end(keys, own);
  }

 private:
  void begin(const KeysValues& own) {
    ring_.send(here_);
    ring_.receive(next_);
    Transfer transfer = ring_.start();
    add_pair(1, ring_.owner(0), 0, parts_of(here_), own);
    transfer.wait();
    std::swap(here_, next_);
  }

  void pass_by(int step) {
    const bool more = step + 1 < ring_.size();
    if (more) {
      ring_.send(here_);
      ring_.receive(next_);
    } else {
      next_ = {};
    }
    Tensor before;  // the sums for these keys of the ranks that had them before
    if (sums_.defined()) {
      before = empty_stack(backend_, sums_.dtype(), parts_of(here_).k);
      ring_.send(sums_);
      ring_.receive(before);
    }
    Transfer transfer = ring_.start();
    const Tensor terms = sums_like(here_);
    for (int half = 0; half < local_.halves(); ++half)
      for (int key_half = 0; key_half < local_.halves(); ++key_half)
        add_pair(half, ring_.owner(step), key_half, parts_of(here_), parts_of(terms));
    transfer.wait();
    if (before.defined()) add_into(backend_, before, terms, terms);
    sums_ = terms;
    if (more) std::swap(here_, next_);
  }

  void end(const KeysValues& keys, const KeysValues& own) {
    const Tensor home = empty_stack(backend_, sums_.dtype(), keys.k);
    ring_.send(sums_);
    ring_.receive(home);
    Transfer transfer = ring_.start();
    for (int half = 0; half < local_.halves(); ++half) add_pair(half, ring_.owner(0), half, keys, own);
    transfer.wait();
    add_into(backend_, own.k, parts_of(home).k, own.k);
    add_into(backend_, own.v, parts_of(home).v, own.v);
  }

  Tensor sums_like(const Tensor& x) { return zeros(backend_, statistics_type(x.dtype()), x.shape()); }

  void add_pair(int half, int rank, int key_half, const KeysValues& keys, const KeysValues& gradients) const {
    local_.attend_backward(half, inputs_, local_.half(keys, key_half), local_.positions(rank, key_half),
                           local_.half(gradients, key_half));
  }

  Backend& backend_;
  Ring ring_;
  const LocalQueries& local_;
  const LocalQueries::Backward& inputs_;
  Tensor here_, next_;  // keys and values of this step and of the next
  Tensor sums_;         // of the gradients of the last step's keys: what goes on to the next rank
};

}  // namespace

AttentionResult RingAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                       Context& context) const {
  check_cut(context.batch, group_);
  const LocalQueries local(settings_, context);
  Ring ring(group_, context.backend.compute_stream());
  const AttentionResult result = nothing_attended(context.backend, q, settings_.share.heads);
  Tensor here = stacked(context.backend, {k, v}), next = empty_stack(context.backend, k.dtype(), k);
  for (int step = 0; step < ring.size(); ++step) {
    if (step + 1 < ring.size()) {
      ring.send(here);
      ring.receive(next);
    }
    Transfer transfer = ring.start();
    for (int half = 0; half < local.halves(); ++half)
      for (int key_half = 0; key_half < local.halves(); ++key_half)
        local.attend(half, q, local.half(parts_of(here), key_half),
                     local.positions(ring.owner(step), key_half), result);
    transfer.wait();
    std::swap(here, next);
  }
  here = next = {};
  return {converted(context.backend, result.y, q.dtype()), result.lse};
}

void RingAttention::backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                             const AttentionResult& forward, const AttentionGradients& gradients,
                             Context& context) const {
  check_cut(context.batch, group_);
  Backend& backend = context.backend;
  const LocalQueries local(settings_, context);
  const Tensor dq = sums_for(backend, gradients.dq);
  const KeysValues own{sums_for(backend, gradients.dk), sums_for(backend, gradients.dv)};
  const LocalQueries::Backward inputs{.dy = dy, .q = q, .forward = forward, .dq = dq};
  Backward(group_, local, inputs, backend).run({k, v}, own);
  store_sums(backend, dq, gradients.dq);
  store_sums(backend, own.k, gradients.dk);
  store_sums(backend, own.v, gradients.dv);
}

}  // namespace tessera
