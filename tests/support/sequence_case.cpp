// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sequence_case.h"

#include <cmath>
#include <limits>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera::test {
namespace {

NoMetrics no_metrics;

std::vector<double> random_values(int64_t count, DType dtype, uint64_t seed) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = normal_from_bits(philox(RandomKey{seed}, i / 4)[i % 4]);
    values[i] = static_cast<double>(dtype == DType::BF16  ? static_cast<float>(BFloat16(value))
                                    : dtype == DType::F16 ? static_cast<float>(Float16(value))
                                                          : value);
  }
  return values;
}

int64_t columns_of(const SequenceCase& c, const std::string& name) {
  if (name == "lse") return c.share.heads;
  const bool keys = name == "k" || name == "v" || name == "dk" || name == "dv";
  return (keys ? c.share.kv_heads() : c.share.heads) * c.share.head_dim;
}

Tensor uploaded(Backend& backend, DType dtype, int64_t rows, int64_t columns,
                const std::vector<double>* values) {
  const Tensor tensor = empty(backend, dtype, {rows, columns});
  if (values == nullptr) return tensor;
  return converted(backend, from_host<double>(backend, *values, {rows, columns}), dtype);
}

const std::vector<double>* find(const Matrices& matrices, const std::string& name) {
  const auto found = matrices.find(name);
  return found == matrices.end() ? nullptr : &found->second;
}

}  // namespace

std::string SequenceCase::name() const {
  std::string text = fmt::format("{} rows of {}, documents", rows, length);
  for (const int64_t document : documents) text += fmt::format(" {}", document);
  return text + fmt::format(", window {}, dropout {}, heads {} + {} in groups of {}, {}", window, dropout,
                            share.first_head, share.heads, share.group, tessera::name_of(dtype));
}

AttentionSettings settings_of(const SequenceCase& c) {
  return {.share = c.share, .window = c.window, .dropout = c.dropout, .dropout_key = random_key(7, "case")};
}

HostBatch whole_batch(const SequenceCase& c) {
  HostBatch batch(5, c.rows, c.length);
  for (int64_t r = 0; r < c.rows; ++r) {
    const RowView row = batch.row(r);
    std::fill(row.weights.begin(), row.weights.end(), 1.0f);
    std::fill(row.document_start.begin(), row.document_start.end(), 0);
    int64_t end = -r, start = 0;
    for (size_t d = 0; !c.documents.empty() && end < c.length; ++d) {
      start = std::max<int64_t>(end, 0);
      end += c.documents[d % c.documents.size()];
      for (int64_t i = start; i < std::min(end, c.length); ++i) {
        row.document_start[static_cast<size_t>(i)] = static_cast<int32_t>(start);
        row.positions[static_cast<size_t>(i)] = static_cast<int32_t>(i - start);
      }
    }
  }
  batch.count_weights();
  return batch;
}

Matrices make_inputs(const SequenceCase& c) {
  Matrices inputs;
  uint64_t seed = 1;
  for (const char* name : {"q", "k", "v", "dy"})
    inputs[name] = random_values(c.rows * c.length * columns_of(c, name), c.dtype, seed++);
  return inputs;
}

Matrices local_inputs(const SequenceCase& c, const SequenceCut& cut, const Matrices& whole) {
  Matrices local;
  for (const auto& [name, values] : whole) {
    const int64_t width = columns_of(c, name);
    for (int64_t i = 0; i < c.rows * cut.local_length(); ++i) {
      const int64_t position = cut.position(i, c.rows), token = cut.row(i, c.rows) * c.length + position;
      for (int64_t column = 0; column < width; ++column)
        local[name].push_back(position < c.length ? values[static_cast<size_t>(token * width + column)]
                                                  : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return local;
}

Layer::Layer(const SequenceCase& c, const SequenceCut& cut, Backend& backend, const Matrices& inputs)
    : case_(c), backend_(backend), batch_(upload(cut_batch(whole_batch(c), cut), backend)) {
  const int64_t n = batch_.rows * batch_.length, q = columns_of(c, "q"), k = columns_of(c, "k");
  qkv_ = empty(backend, c.dtype, {n, q + 2 * k});
  dqkv_ = empty(backend, c.dtype, {n, q + 2 * k});
  copy(backend, uploaded(backend, c.dtype, n, q, find(inputs, "q")), columns(qkv_).q);
  copy(backend, uploaded(backend, c.dtype, n, k, find(inputs, "k")), columns(qkv_).k);
  copy(backend, uploaded(backend, c.dtype, n, k, find(inputs, "v")), columns(qkv_).v);
  dy_ = uploaded(backend, c.dtype, n, q, find(inputs, "dy"));
  step_.step_number = zeros(backend, DType::I64, {1});
  backend.fill(step_.step_number, 3);
}

Layer::Columns Layer::columns(const Tensor& buffer) const {
  const int64_t q = columns_of(case_, "q"), k = columns_of(case_, "k");
  return {.q = buffer.columns(0, q), .k = buffer.columns(q, k), .v = buffer.columns(q + k, k)};
}

Context Layer::context(bool step_known) {
  return {.backend = backend_,
          .batch = batch_,
          .step = step_known ? step_ : unknown_step_,
          .metrics = no_metrics};
}

AttentionResult Layer::forward(const AttentionCore& core, bool step_known) {
  Context run = context(step_known);
  const Columns in = columns(qkv_);
  return core.forward(in.q, in.k, in.v, run);
}

AttentionGradients Layer::backward(const AttentionCore& core, const AttentionResult& result,
                                   bool step_known) {
  Context run = context(step_known);
  const Columns in = columns(qkv_), out = columns(dqkv_);
  const AttentionGradients gradients{out.q, out.k, out.v};
  core.backward(dy_, in.q, in.k, in.v, result, gradients, run);
  return gradients;
}

LayerRun Layer::run(const AttentionCore& core) {
  LayerRun run;
  const int64_t live = backend_.allocator().live_bytes();
  backend_.allocator().reset_peak();
  backend_.flops() = {};
  const AttentionResult result = forward(core);
  const AttentionGradients gradients = backward(core, result);
  run.peak_bytes = backend_.allocator().peak_bytes() - live;
  run.model_flops = backend_.flops().model;
  run.hardware_flops = backend_.flops().hardware;
  const std::pair<const char*, Tensor> results[] = {
      {"y", result.y}, {"lse", result.lse}, {"dq", gradients.dq}, {"dk", gradients.dk}, {"dv", gradients.dv}};
  for (const auto& [name, tensor] : results) run.results[name] = to_host_double(backend_, tensor);
  return run;
}

LayerRun run_whole(const SequenceCase& c, const Matrices& inputs) {
  const auto backend = make_cpu_backend(1);
  Layer layer(c, make_sequence_cut(c.length, 1, 0), *backend, inputs);
  return layer.run(LocalAttention(settings_of(c)));
}

std::string part_differs(const SequenceCase& c, const SequenceCut& cut, const Matrices& part,
                         const Matrices& whole, double bound) {
  for (const auto& [name, wanted] : whole) {
    const std::vector<double>& got = part.at(name);
    const int64_t width = columns_of(c, name);
    double size = 1e-300, worst = 0;
    for (const double value : wanted)
      if (std::isfinite(value)) size = std::max(size, std::abs(value));
    for (int64_t i = 0; i < c.rows * cut.local_length(); ++i) {
      const int64_t position = cut.position(i, c.rows), row = cut.row(i, c.rows);
      for (int64_t column = 0; column < width; ++column) {
        const double value = got[static_cast<size_t>(i * width + column)];
        const auto whole_place = static_cast<size_t>((row * c.length + position) * width + column);
        const double right = position < c.length ? wanted[whole_place]
                             : name == "lse"     ? -std::numeric_limits<double>::infinity()
                                                 : 0.0;
        if (value == right) continue;
        const double error = std::abs(value - right) / size;
        worst = std::max(worst, error);
        if (!(error <= (position < c.length ? bound : 0.0)))
          return fmt::format(
              "{} of row {} position {} column {} is {:.17g}, wanted {:.17g} (relative {:.3g})", name, row,
              position, column, value, right, error);
      }
    }
  }
  return "";
}

}  // namespace tessera::test
