// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/sequence/head_exchange.h"

#include <numeric>

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"
#include "framework/parallel/sequence/whole_rows.h"

namespace tessera {
namespace {

// What goes to, or comes from, each rank in turn: the matrices of `tokens` rows of its parts, packed.
class Message {
 public:
  // columns[rank]: of all parts together.
  Message(Backend& backend, DType dtype, int64_t tokens, const std::vector<int64_t>& columns)
      : tokens_(tokens), counts_(columns) {
    for (int64_t& count : counts_) count *= tokens;
    flat_ = empty(backend, dtype, {std::reduce(counts_.begin(), counts_.end())});
  }

  Tensor next(int64_t columns) {
    const Tensor part = flat_.narrow(taken_, tokens_ * columns).reshape({tokens_, columns});
    taken_ += tokens_ * columns;
    return part;
  }
  const Tensor& flat() const { return flat_; }
  std::span<const int64_t> counts() const { return counts_; }

 private:
  int64_t tokens_, taken_ = 0;
  std::vector<int64_t> counts_;  // elements
  Tensor flat_;
};

int64_t count(HeadExchange::Heads heads, const HeadShare& share) {
  return heads == HeadExchange::Heads::Query ? share.heads : share.kv_heads();
}

}  // namespace

HeadShare HeadExchange::share_of(int rank) const {
  HeadShare part = share_;
  part.heads = share_.heads / group_.size();
  part.first_head = share_.first_head + rank * part.heads;
  return part;
}

Tensor HeadExchange::columns_of(int rank, const Part& part) const {
  const HeadShare share = share_of(rank);
  const int64_t width = part.tensor.size(1) / count(part.heads, share_);
  const int64_t first = part.heads == Heads::Query ? share.first_head - share_.first_head
                                                   : share.first_kv_head() - share_.first_kv_head();
  return part.tensor.columns(first * width, count(part.heads, share) * width);
}

std::vector<Tensor> HeadExchange::to_heads(std::span<const Part> parts) const {
  const DType dtype = parts.front().tensor.dtype();
  std::vector<int64_t> sent(static_cast<size_t>(group_.size()));
  for (int rank = 0; rank < group_.size(); ++rank)
    for (const Part& part : parts) sent[static_cast<size_t>(rank)] += columns_of(rank, part).size(1);
  const std::vector<int64_t> received(sent.size(), sent[static_cast<size_t>(group_.rank())]);
  Message receive(backend_, dtype, local_tokens(), received);
  {
    Message send(backend_, dtype, local_tokens(), sent);
    for (int rank = 0; rank < group_.size(); ++rank)
      for (const Part& part : parts) {
        const Tensor columns = columns_of(rank, part);
        copy(backend_, columns, send.next(columns.size(1)));
      }
    Stream& stream = backend_.compute_stream();
    group_.all_to_all(send.flat(), send.counts(), receive.flat(), receive.counts(), stream)
        .wait_in_turn(stream);
  }
  std::vector<Tensor> whole;
  for (const Part& part : parts)
    whole.push_back(empty_rows(backend_, batch_, dtype, columns_of(group_.rank(), part).size(1)));
  for (int rank = 0; rank < group_.size(); ++rank)
    for (const Tensor& rows : whole) put_in_rows(backend_, batch_, rank, receive.next(rows.size(1)), rows);
  return whole;
}

std::vector<std::vector<Tensor>> HeadExchange::to_positions(std::span<const Part> parts) const {
  const DType dtype = parts.front().tensor.dtype();
  const auto columns_from = [&](int rank, const Part& part) {
    return part.tensor.size(1) / count(part.heads, own_share()) * count(part.heads, share_of(rank));
  };
  std::vector<int64_t> sent(static_cast<size_t>(group_.size())), received(sent.size());
  for (int rank = 0; rank < group_.size(); ++rank)
    for (const Part& part : parts) {
      sent[static_cast<size_t>(rank)] += part.tensor.size(1);
      received[static_cast<size_t>(rank)] += columns_from(rank, part);
    }
  Message receive(backend_, dtype, local_tokens(), received);
  Message send(backend_, dtype, local_tokens(), sent);
  for (int rank = 0; rank < group_.size(); ++rank)
    for (const Part& part : parts)
      take_from_rows(backend_, batch_, rank, part.tensor, send.next(part.tensor.size(1)));
  Stream& stream = backend_.compute_stream();
  group_.all_to_all(send.flat(), send.counts(), receive.flat(), receive.counts(), stream)
      .wait_in_turn(stream);
  std::vector<std::vector<Tensor>> result(sent.size());
  for (int rank = 0; rank < group_.size(); ++rank)
    for (const Part& part : parts)
      result[static_cast<size_t>(rank)].push_back(receive.next(columns_from(rank, part)));
  return result;
}

}  // namespace tessera
