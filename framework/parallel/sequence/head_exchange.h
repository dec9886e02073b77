// SPDX-License-Identifier: Apache-2.0
// The all-to-all of Ulysses: from all heads of the local positions to all positions of some heads, and back.
// Query heads are cut evenly in order; a rank gets the key heads that its query heads use, so that a key head
// goes to each rank that uses it.
#pragma once
#include <span>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/nn/attention_core.h"

namespace tessera {

class HeadExchange {
 public:
  // `share` is of the heads here before the exchange. All must outlive this.
  HeadExchange(const HeadShare& share, Communicator& group, const Batch& batch, Backend& backend)
      : share_(share), group_(group), batch_(batch), backend_(backend) {}

  HeadShare share_of(int rank) const;  // after the exchange
  HeadShare own_share() const { return share_of(group_.rank()); }

  // The tensors of one call are of one type; their columns are heads of equal widths.
  enum class Heads : uint8_t { Query, Key };
  struct Part {
    Heads heads;
    Tensor tensor;
  };
  // Of a tensor with all heads here, the columns that the heads of a rank have.
  Tensor columns_of(int rank, const Part& part) const;

  // From [n, all heads here] to whole rows, [rows * padded, heads of this rank].
  std::vector<Tensor> to_heads(std::span<const Part> parts) const;
  // From whole rows to the local positions, result[rank][part] being [n, heads of that rank]. Of a key head
  // each rank that uses it sends its own.
  std::vector<std::vector<Tensor>> to_positions(std::span<const Part> parts) const;

 private:
  int64_t local_tokens() const { return batch_.rows * batch_.length; }

  const HeadShare& share_;
  Communicator& group_;
  const Batch& batch_;
  Backend& backend_;
};

}  // namespace tessera
