// SPDX-License-Identifier: Apache-2.0
// Step t works on the keys of the rank that stands t places before this one. The halves of a rank's tokens
// travel one behind the other, so that there is work on the first while the second still comes.
#include "framework/parallel/sequence/ring_attention.h"

#include "framework/ops/elementwise.h"
#include "framework/ops/memory.h"
#include "framework/parallel/sequence/local_queries.h"
#include "framework/parallel/sequence/transfer.h"

namespace tessera {
namespace {

// A tensor that goes around the ring: what is here is sent to the next rank while that of the one before
// comes.
class Passed {
 public:
  Passed(Backend& backend, Communicator& group) : backend_(backend), group_(group) {}

  Tensor here;
  // `here` must stay as it is until arrive().
  void pass_on() {
    const int size = group_.size(), rank = group_.rank();
    next_ = empty(backend_, here.dtype(), here.shape());
    Stream& stream = backend_.compute_stream();
    const PeerOp operations[] = {{PeerOp::Kind::Send, (rank + 1) % size, here},
                                 {PeerOp::Kind::Receive, (rank + size - 1) % size, next_}};
    transfer_ = Transfer(group_.exchange(operations, stream), stream);
  }
  // `here` becomes what the rank before sent.
  void arrive() {
    transfer_.wait();
    here = std::exchange(next_, {});
  }

 private:
  Backend& backend_;
  Communicator& group_;
  Tensor next_;
  Transfer transfer_;
};
struct Halves {
  Halves(Backend& backend, Communicator& group) : first(backend, group), second(backend, group) {}
  Passed& operator[](int half) { return half == 0 ? first : second; }
  Passed first, second;
};

// The keys and values of this rank set out.
void send_off(Backend& backend, const LocalQueries& local, const KeysValues& own, Halves& passed) {
  for (int half = 0; half < local.halves(); ++half) {
    passed[half].here = stacked(backend, local.half(own, half));
    passed[half].pass_on();
  }
}

// Whose keys a rank has in a step.
int owner(const Communicator& group, int step) {
  return (group.rank() - step + group.size()) % group.size();
}

class Backward {
 public:
  Backward(Communicator& group, const LocalQueries& local, const LocalQueries::Backward& inputs,
           Backend& backend)
      : backend_(backend), group_(group), local_(local), inputs_(inputs) {}

  // Adds all terms of the gradients of this rank's keys to `own`. Its own pairs come in two parts, so that
  // there is work both while the first keys and while the last sums travel.
  void run(const KeysValues& keys, const KeysValues& own) {
    Halves passed(backend_, group_), sums(backend_, group_);
    send_off(backend_, local_, keys, passed);
    add_pairs(1, 0, 0, local_.half(keys, 0), local_.half(own, 0));
    for (int step = 1; step < group_.size(); ++step)
      for (int half = 0; half < local_.halves(); ++half) pass_by(step, half, passed[half], sums[half]);
    for (int half = 0; half < local_.halves(); ++half)
      add_pairs(half, 0, half, local_.half(keys, half), local_.half(own, half));
    for (int half = 0; half < local_.halves(); ++half) {
      sums[half].arrive();
      const KeysValues home = parts_of(sums[half].here), to = local_.half(own, half);
      add_into(backend_, to.k, home.k, to.k);
      add_into(backend_, to.v, home.v, to.v);
    }
  }

 private:
  // One half of the keys of a step, and the sums of their gradients behind them.
  void pass_by(int step, int key_half, Passed& keys, Passed& sums) {
    keys.arrive();
    if (step + 1 < group_.size()) keys.pass_on();
    const Tensor terms = zeros(backend_, statistics_type(keys.here.dtype()), keys.here.shape());
    for (int half = 0; half < local_.halves(); ++half)
      add_pairs(half, step, key_half, parts_of(keys.here), parts_of(terms));
    if (step + 1 == group_.size()) keys.here = {};
    if (step > 1) {
      sums.arrive();  // of the ranks that had these keys before
      add_into(backend_, sums.here, terms, terms);
    }
    sums.here = terms;
    sums.pass_on();
  }

  void add_pairs(int half, int step, int key_half, const KeysValues& keys,
                 const KeysValues& gradients) const {
    local_.attend_backward(half, inputs_, keys, local_.positions(owner(group_, step), key_half), gradients);
  }

  Backend& backend_;
  Communicator& group_;
  const LocalQueries& local_;
  const LocalQueries::Backward& inputs_;
};

}  // namespace

AttentionResult RingAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                       Context& context) const {
  check_cut(context.batch, group_);
  const LocalQueries local(settings_, context);
  const AttentionResult result = nothing_attended(context.backend, q, settings_.share.heads);
  {
    Halves keys(context.backend, group_);
    send_off(context.backend, local, {k, v}, keys);
    for (int half = 0; half < local.halves(); ++half)
      for (int key_half = 0; key_half < local.halves(); ++key_half)
        local.attend(half, q, local.half({k, v}, key_half), local.positions(group_.rank(), key_half), result);
    for (int step = 1; step < group_.size(); ++step)
      for (int key_half = 0; key_half < local.halves(); ++key_half) {
        Passed& passed = keys[key_half];
        passed.arrive();
        if (step + 1 < group_.size()) passed.pass_on();
        for (int half = 0; half < local.halves(); ++half)
          local.attend(half, q, parts_of(passed.here), local.positions(owner(group_, step), key_half),
                       result);
      }
  }
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
