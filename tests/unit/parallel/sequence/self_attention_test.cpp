// SPDX-License-Identifier: Apache-2.0
// A whole attention module on a cut batch: rotations by the position within the document, head norms, the
// kept tensors or their recomputation, and the sums of weight gradients over ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/nn/attention.h"
#include "framework/nn/linear.h"
#include "framework/nn/rope.h"
#include "framework/ops/memory.h"
#include "framework/parallel/sequence/sequence_attention.h"
#include "tests/support/sequence_case.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

constexpr int64_t kHidden = 10;
constexpr int kRanks = 3;
const SequenceCase kCase{.rows = 2,
                         .length = 23,
                         .documents = {9, 1, 12},
                         .dropout = 0.2,
                         .share = {.heads = 6, .head_dim = 4, .group = 3}};

std::vector<double> values(int64_t count, uint64_t seed) {
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(
        static_cast<double>(normal_from_bits(philox(RandomKey{seed}, static_cast<uint64_t>(i))[0])));
  return result;
}

// The rows of a matrix of whole rows that belong to a rank; 0 in padding.
std::vector<double> part_of_tokens(const std::vector<double>& whole, const SequenceCut& cut) {
  std::vector<double> part;
  for (int64_t i = 0; i < kCase.rows * cut.local_length(); ++i) {
    const int64_t position = cut.position(i, kCase.rows),
                  token = cut.row(i, kCase.rows) * cut.length + position;
    for (int64_t c = 0; c < kHidden; ++c)
      part.push_back(position < cut.length ? whole[static_cast<size_t>(token * kHidden + c)] : 0);
  }
  return part;
}

struct Variant {
  bool head_norms, recompute;
};

// One module with its weights on one rank.
class Attention {
 public:
  Attention(Backend& backend, const Variant& variant, std::unique_ptr<AttentionCore> core)
      : backend_(backend) {
    const int64_t q = 24, kv = 8;
    make(qkv_, {q + 2 * kv, kHidden}, 1);
    make(output_, {kHidden, q}, 2);
    make(query_norm_, {4}, 3);
    make(key_norm_, {4}, 4);
    SelfAttentionParts parts{.qkv = std::make_unique<Linear>(qkv_, nullptr),
                             .core = std::move(core),
                             .output = std::make_unique<Linear>(output_, nullptr),
                             .query_norm = variant.head_norms ? &query_norm_ : nullptr,
                             .key_norm = variant.head_norms ? &key_norm_ : nullptr};
    const SelfAttentionSettings settings{.attention = settings_of(kCase),
                                         .norm_epsilon = 1e-5,
                                         .rope_table = rope_table(backend, {.rotary_dim = 4}, 23, DType::F64),
                                         .recompute = variant.recompute};
    module_ = std::make_unique<SelfAttention>(std::move(parts), settings);
    step_.step_number = zeros(backend, DType::I64, {1});
  }

  struct Results {
    std::vector<double> y, dx, qkv, output, query_norm, key_norm;
  };
  Results run(const SequenceCut& cut, const std::vector<double>& x, const std::vector<double>& dy) {
    const Batch batch = upload(cut_batch(whole_batch(kCase), cut), backend_);
    NoMetrics silent;
    Context context{.backend = backend_, .batch = batch, .step = step_, .metrics = silent};
    const Shape shape{batch.rows * batch.length, kHidden};
    const Tensor input = from_host<double>(backend_, part_of_tokens(x, cut), shape);
    Saved saved;
    const Tensor y = module_->forward(input, saved, context);
    const Tensor dx =
        module_->backward(from_host<double>(backend_, part_of_tokens(dy, cut), shape), saved, context);
    const auto host = [&](const Tensor& t) { return to_host_double(backend_, t); };
    return {host(y),
            host(dx),
            host(qkv_.gradient),
            host(output_.gradient),
            host(query_norm_.gradient),
            host(key_norm_.gradient)};
  }

 private:
  void make(Weight& weight, const Shape& shape, uint64_t seed) {
    weight.value = from_host<double>(backend_, values(shape.elements(), seed), shape);
    weight.gradient = zeros(backend_, DType::F64, shape);
  }

  Backend& backend_;
  Weight qkv_, output_, query_norm_, key_norm_;
  std::unique_ptr<SelfAttention> module_;
  StepInfo step_;
};

void expect_close(const std::vector<double>& got, const std::vector<double>& wanted, const char* name) {
  ASSERT_EQ(got.size(), wanted.size()) << name;
  double size = 1e-300;
  for (const double value : wanted) size = std::max(size, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], 1e-12 * size) << name << "[" << i << "]";
}

TEST(SequenceSelfAttention, is_that_of_one_rank) {
  const std::vector<double> x = values(kCase.rows * kCase.length * kHidden, 5),
                            dy = values(kCase.rows * kCase.length * kHidden, 6);
  for (const Variant& variant : {Variant{false, false}, Variant{true, false}, Variant{true, true}}) {
    const auto one = make_cpu_backend(1);
    const Attention::Results whole =
        Attention(*one, variant, std::make_unique<LocalAttention>(settings_of(kCase)))
            .run(make_sequence_cut(kCase.length, 1, 0), x, dy);
    for (const SequenceMode mode : {SequenceMode::Ring, SequenceMode::Ulysses, SequenceMode::Gather})
      run_ranks(kRanks, [&](Communicator& group, Backend& backend, int rank) {
        const SequenceCut cut = make_sequence_cut(kCase.length, kRanks, rank);
        Attention attention(backend, variant, make_sequence_attention(mode, group, settings_of(kCase)));
        const Attention::Results part = attention.run(cut, x, dy);
        expect_close(part.y, part_of_tokens(whole.y, cut), "y");
        expect_close(part.dx, part_of_tokens(whole.dx, cut), "dx");
        const auto summed = [&](std::vector<double> terms) {
          group.all_reduce_host(std::span<double>(terms), Reduce::Sum);
          return terms;
        };
        expect_close(summed(part.qkv), whole.qkv, "qkv");
        expect_close(summed(part.output), whole.output, "output");
        expect_close(summed(part.query_norm), whole.query_norm, "query_norm");
        expect_close(summed(part.key_norm), whole.key_norm, "key_norm");
      });
  }
}

}  // namespace
}  // namespace tessera::test
