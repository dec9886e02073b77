// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/sequence/ulysses_attention.h"

#include "framework/ops/copy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/memory.h"
#include "framework/parallel/sequence/head_exchange.h"
#include "framework/parallel/sequence/local_queries.h"
#include "framework/parallel/sequence/whole_rows.h"

namespace tessera {
namespace {

using enum HeadExchange::Heads;
using Part = HeadExchange::Part;

// Of whole rows; padding stands at their ends and sees nothing.
AttentionOptions whole_row_options(const AttentionSettings& settings, const Context& context) {
  const Batch& batch = context.batch;
  const int64_t padded = batch.cut.padded_length();
  AttentionOptions options = attention_options(settings, context);
  options.mask.document_start = batch.row_document_start;
  options.visible_pairs =
      visible_pairs(batch.host_row_document_start, padded, 0, {0, padded}, settings.window);
  return options;
}

// The columns of `to` are the heads of the ranks in order.
void put_side_by_side(Backend& backend, const HeadExchange& heads,
                      const std::vector<std::vector<Tensor>>& parts, size_t part, const Tensor& to) {
  for (size_t rank = 0; rank < parts.size(); ++rank)
    copy(backend, parts[rank][part], heads.columns_of(static_cast<int>(rank), {Query, to}));
}

// The gradient of key heads: the sum of what the ranks that used them sent, in the order of the ranks.
void sum_copies(Backend& backend, const HeadExchange& heads, const std::vector<std::vector<Tensor>>& parts,
                size_t part, const Tensor& gradient) {
  const Tensor sums = sums_for(backend, gradient);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const Tensor to = heads.columns_of(static_cast<int>(rank), {Key, sums});
    add_into(backend, to, converted(backend, parts[rank][part], sums.dtype()), to);
  }
  store_sums(backend, sums, gradient);
}

}  // namespace

void check_ulysses_heads(const HeadShare& share, int ranks) {
  const int64_t below = share.heads / ranks * ranks;
  CHECK_AS(ExitCode::Usage, share.heads % ranks == 0,
           "parallel.sp_mode = \"ulysses\" shares {} query heads among parallel.sp = {} ranks, which does "
           "not come "
           "out even: {} heads would, or another sp_mode",
           share.heads, ranks,
           below > 0 ? fmt::format("{} or {}", below, below + ranks) : fmt::format("{}", ranks));
}

AttentionResult UlyssesAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                          Context& context) const {
  check_cut(context.batch, group_);
  Backend& backend = context.backend;
  const HeadExchange heads(settings_.share, group_, context.batch, backend);
  AttentionResult whole;
  {
    const Part parts[] = {{Query, q}, {Key, k}, {Key, v}};
    const std::vector<Tensor> rows = heads.to_heads(parts);
    whole = shared_attention(backend, rows[0], rows[1], rows[2], whole_row_options(settings_, context),
                             heads.own_share());
  }
  AttentionResult result{empty(backend, q.dtype(), q.shape()),
                         empty(backend, whole.lse.dtype(), {q.size(0), settings_.share.heads})};
  const Part y[] = {{Query, whole.y}}, lse[] = {{Query, whole.lse}};
  put_side_by_side(backend, heads, heads.to_positions(y), 0, result.y);
  put_side_by_side(backend, heads, heads.to_positions(lse), 0, result.lse);
  return result;
}

void UlyssesAttention::backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                const AttentionResult& forward, const AttentionGradients& gradients,
                                Context& context) const {
  check_cut(context.batch, group_);
  Backend& backend = context.backend;
  const HeadExchange heads(settings_.share, group_, context.batch, backend);
  AttentionGradients whole;
  {
    const Part parts[] = {{Query, q}, {Key, k}, {Key, v}, {Query, dy}, {Query, forward.y}};
    const Part statistics[] = {{Query, forward.lse}};
    const std::vector<Tensor> rows = heads.to_heads(parts), lse = heads.to_heads(statistics);
    const auto like = [&](const Tensor& x) { return empty(backend, x.dtype(), x.shape()); };
    whole = {like(rows[0]), like(rows[1]), like(rows[2])};
    shared_attention_backward(backend, rows[3], rows[0], rows[1], rows[2], {rows[4], lse[0]}, whole,
                              whole_row_options(settings_, context), heads.own_share());
  }
  const Part parts[] = {{Query, whole.dq}, {Key, whole.dk}, {Key, whole.dv}};
  const std::vector<std::vector<Tensor>> sent = heads.to_positions(parts);
  put_side_by_side(backend, heads, sent, 0, gradients.dq);
  sum_copies(backend, heads, sent, 1, gradients.dk);
  sum_copies(backend, heads, sent, 2, gradients.dv);
}

}  // namespace tessera
