// SPDX-License-Identifier: Apache-2.0
// Where hidden states pass between what every tensor rank computes and what is cut over them (Shoeybi et al.
// 2019). Without sequence parallelism each rank has all rows of hidden states: entering costs nothing, its
// backward sums; leaving sums, its backward costs nothing. With it (Korthikanti et al. 2022) each rank has an
// equal part of the rows: entering gathers, leaving sums and scatters, and each is the other's backward.
#pragma once
#include <optional>
#include <utility>

#include "framework/comm/communicator.h"
#include "framework/nn/context.h"

namespace tessera {

// A tensor that a collective is still making.
class Pending {
 public:
  Pending(Tensor result) : result_(std::move(result)) {}  // made already
  Pending(Tensor result, Work work) : result_(std::move(result)), work_(std::move(work)) {}
  Tensor wait(Context& context) {
    if (work_) std::exchange(work_, std::nullopt)->wait_in_turn(context.backend.compute_stream());
    return result_;
  }

 private:
  Tensor result_;
  std::optional<Work> work_;
};

// Copyable; the group must outlive it.
class Boundary {
 public:
  Boundary() = default;  // one rank: everything passes as it is
  // `group` may be null or of one rank; `rows_cut` is sequence parallelism.
  Boundary(Communicator* group, bool rows_cut) : group_(group), rows_cut_(rows_cut) {}

  int ranks() const { return group_ == nullptr ? 1 : group_->size(); }
  int rank() const { return group_ == nullptr ? 0 : group_->rank(); }
  bool cuts_rows() const { return rows_cut_ && ranks() > 1; }
  // Rows of hidden states here, of `rows` in all: the last rank's end in rows of padding where it does not
  // divide. Padding holds finite values and its gradient is zero.
  int64_t hidden_rows(int64_t rows) const { return cuts_rows() ? (rows + ranks() - 1) / ranks() : rows; }

  // All rows of the batch, from this rank's.
  Pending gather(const Tensor& hidden, Context& context) const;
  // This rank's rows of the sum over ranks of `partial`, whose memory it takes over.
  Pending sum(const Tensor& partial, Context& context) const;

 private:
  Communicator* group_ = nullptr;
  bool rows_cut_ = false;
};

}  // namespace tessera
