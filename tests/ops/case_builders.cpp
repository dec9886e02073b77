// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/case_builders.h"

#include <cmath>

namespace tessera::test {
namespace {
using enum ElementKind;
using enum Use;

double as_number(int64_t value) {
  return static_cast<double>(value);
}

std::vector<double> counting(int64_t count, int64_t first, int64_t step) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(as_number(first + i * step));
  return values;
}

// Indices in [-1, limit], in an order without pattern; with repeats when count > limit.
std::vector<double> scattered(int64_t count, int64_t low, int64_t limit) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(as_number(low + i * i * 7 % (limit - low)));
  return values;
}
}  // namespace

OpCase layer_norm_case(int64_t rows, int64_t width, bool bias, int64_t gap) {
  OpCase c{.op = "layer_norm",
           .numbers = {{"rows", as_number(rows)}, {"width", as_number(width)}, {"epsilon", 1e-5}},
           .sum_length = width};
  c.tensors = {{.name = "x", .shape = {rows, width}, .mean = 0.5, .row_gap = gap},
               {.name = "gain", .shape = {width}, .mean = 1},
               {.name = "y", .shape = {rows, width}, .use = Output, .row_gap = gap},
               {.name = "mean", .shape = {rows}, .kind = Wide, .use = Output},
               {.name = "inv_std", .shape = {rows}, .kind = Wide, .use = Output}};
  if (bias) c.tensors.push_back({.name = "bias", .shape = {width}});
  if (!bias) c.numbers["no_bias"] = 1;
  return c;
}

OpCase layer_norm_backward_case(int64_t rows, int64_t width, bool frozen, int64_t gap) {
  OpCase c{.op = "layer_norm_backward",
           .numbers = {{"rows", as_number(rows)}, {"width", as_number(width)}, {"epsilon", 1e-5}},
           .sum_length = std::max(rows, width)};
  c.tensors = {{.name = "dy", .shape = {rows, width}, .row_gap = gap},
               {.name = "x", .shape = {rows, width}, .mean = 0.5, .row_gap = gap},
               {.name = "gain", .shape = {width}, .mean = 1},
               {.name = "bias", .shape = {width}, .use = Forward},
               {.name = "y", .shape = {rows, width}, .use = Forward},
               {.name = "mean", .shape = {rows}, .kind = Wide, .derived = true},
               {.name = "inv_std", .shape = {rows}, .kind = Wide, .derived = true},
               {.name = "dx", .shape = {rows, width}, .use = Output, .row_gap = gap}};
  if (frozen) {
    c.numbers["frozen"] = 1;
  } else {
    c.tensors.push_back({.name = "dgain", .shape = {width}, .kind = Wide, .use = InOut});
    c.tensors.push_back({.name = "dbias", .shape = {width}, .kind = Compute, .use = InOut});
  }
  return c;
}

OpCase rms_norm_case(int64_t rows, int64_t width, int64_t groups, int64_t gap, bool in_place) {
  OpCase c{.op = "rms_norm",
           .numbers = {{"rows", as_number(rows)},
                       {"width", as_number(width)},
                       {"groups", as_number(groups)},
                       {"epsilon", 1e-6}},
           .sum_length = width};
  c.tensors = {{.name = "x", .shape = {rows, groups * width}, .mean = 0.5, .row_gap = gap},
               {.name = "gain", .shape = {width}, .mean = 1},
               {.name = "y", .shape = {rows, groups * width}, .use = Output, .row_gap = gap},
               {.name = "inv_rms", .shape = {rows, groups}, .kind = Wide, .use = Output}};
  if (in_place) c.tensors[2].alias = "x";
  return c;
}

OpCase rms_norm_backward_case(int64_t rows, int64_t width, int64_t groups, bool frozen, int64_t gap,
                              bool in_place) {
  OpCase c{.op = "rms_norm_backward",
           .numbers = {{"rows", as_number(rows)},
                       {"width", as_number(width)},
                       {"groups", as_number(groups)},
                       // Without it the gradient of one column is a difference of equal numbers.
                       {"epsilon", width == 1 ? 0.1 : 1e-6}},
           .sum_length = std::max(rows * groups, width)};
  c.tensors = {{.name = "dy", .shape = {rows, groups * width}, .row_gap = gap},
               {.name = "x", .shape = {rows, groups * width}, .mean = 0.5, .row_gap = gap},
               {.name = "gain", .shape = {width}, .mean = 1},
               {.name = "y", .shape = {rows, groups * width}, .use = Forward},
               {.name = "inv_rms", .shape = {rows, groups}, .kind = Wide, .derived = true},
               {.name = "dx", .shape = {rows, groups * width}, .use = Output, .row_gap = gap}};
  if (in_place) c.tensors[5].alias = "dy";
  if (frozen)
    c.numbers["frozen"] = 1;
  else
    c.tensors.push_back({.name = "dgain", .shape = {width}, .kind = Wide, .use = InOut});
  return c;
}

OpCase activation_case(Activation kind, int64_t rows, int64_t width, int64_t gap, bool in_place) {
  OpCase c{.op = "activation",
           .numbers = {
               {"kind", static_cast<double>(kind)}, {"rows", as_number(rows)}, {"width", as_number(width)}}};
  c.tensors = {{.name = "x", .shape = {rows, width}, .deviation = 2, .row_gap = gap},
               {.name = "y", .shape = {rows, width}, .use = Output, .row_gap = gap}};
  if (in_place) c.tensors[1].alias = "x";
  return c;
}

OpCase activation_backward_case(Activation kind, int64_t rows, int64_t width, int64_t gap, bool in_place) {
  OpCase c = activation_case(kind, rows, width, gap, false);
  c.op = "activation_backward";
  c.tensors[1].use = Forward;
  c.tensors.push_back({.name = "dy", .shape = {rows, width}, .row_gap = gap});
  c.tensors.push_back({.name = "dx", .shape = {rows, width}, .use = Output, .row_gap = gap});
  if (in_place) c.tensors[3].alias = "dy";
  return c;
}

OpCase gated_case(Activation kind, int64_t rows, int64_t width, int64_t gap) {
  OpCase c{.op = "gated_activation",
           .numbers = {
               {"kind", static_cast<double>(kind)}, {"rows", as_number(rows)}, {"width", as_number(width)}}};
  c.tensors = {{.name = "gate_up", .shape = {rows, 2 * width}, .deviation = 2, .row_gap = gap},
               {.name = "y", .shape = {rows, width}, .use = Output, .row_gap = gap}};
  return c;
}

OpCase gated_backward_case(Activation kind, int64_t rows, int64_t width, int64_t gap, bool in_place) {
  OpCase c = gated_case(kind, rows, width, gap);
  c.op = "gated_activation_backward";
  c.tensors[1].use = Forward;
  c.tensors.push_back({.name = "dy", .shape = {rows, width}, .row_gap = gap});
  c.tensors.push_back({.name = "dgate_up", .shape = {rows, 2 * width}, .use = Output, .row_gap = gap});
  if (in_place) c.tensors[3].alias = "gate_up";
  return c;
}

OpCase matmul_case(const MatmulCase& o) {
  OpCase c{.op = "matmul",
           .numbers = {{"m", as_number(o.m)},
                       {"n", as_number(o.n)},
                       {"k", as_number(o.k)},
                       {"transpose_a", as_number(o.transpose_a)},
                       {"transpose_b", as_number(o.transpose_b)},
                       {"alpha", o.accumulate ? 0.5 : 1},
                       {"beta", o.accumulate ? 1.0 : 0},
                       {"kind", static_cast<double>(o.kind)}},
           .sum_length = std::max<int64_t>(o.k, 1),
           .operations = 2.0 * as_number(o.m) * as_number(o.n) * as_number(o.k)};
  c.tensors = {{.name = "a", .shape = o.transpose_a ? Shape{o.k, o.m} : Shape{o.m, o.k}, .row_gap = o.gap},
               {.name = "b", .shape = o.transpose_b ? Shape{o.n, o.k} : Shape{o.k, o.n}, .row_gap = o.gap},
               {.name = "c",
                .shape = {o.m, o.n},
                .kind = o.wide_result ? Wide : Compute,
                .use = o.accumulate ? InOut : Output,
                .row_gap = o.gap}};
  // Products of length k have deviation 1.
  c.tensors[0].deviation = o.k > 0 ? 1 / std::sqrt(as_number(o.k)) : 1;
  if (o.wide_result) c.numbers["wide_result"] = 1;
  if (o.bias) {
    c.numbers["bias"] = 1;
    c.tensors.push_back({.name = "bias", .shape = {o.n}});
  }
  if (o.derivative)
    c.tensors.push_back({.name = "derivative",
                         .shape = {o.m, o.n},
                         .kind = o.wide_result ? Wide : Compute,
                         .use = Output,
                         .row_gap = o.gap});
  if (o.derivative) c.numbers["derivative"] = 1;
  if (o.multiply) {
    c.numbers["multiply"] = 1;
    c.tensors.push_back({.name = "multiply", .shape = {o.m, o.n}, .row_gap = o.gap});
  }
  return c;
}

OpCase rope_case(int64_t rows, int64_t heads, int64_t head_dim, int64_t rotary_dim, int64_t gap,
                 bool backward) {
  const int64_t positions = 37;
  OpCase c{.op = backward ? "rope_backward" : "rope",
           .numbers = {{"rows", as_number(rows)},
                       {"heads", as_number(heads)},
                       {"head_dim", as_number(head_dim)},
                       {"rotary_dim", as_number(rotary_dim)}}};
  std::vector<double> table;
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < rotary_dim; ++i) {
      const double angle =
          as_number(p) * std::pow(10000.0, -2.0 * as_number(i % (rotary_dim / 2)) / as_number(rotary_dim));
      table.push_back(i < rotary_dim / 2 ? std::cos(angle) : std::sin(angle));
    }
  c.tensors = {{.name = "x", .shape = {rows, heads * head_dim}, .use = InOut, .row_gap = gap},
               {.name = "table", .shape = {positions, rotary_dim}, .kind = Wide, .values = table},
               {.name = "positions", .shape = {rows}, .kind = I32, .values = scattered(rows, 0, positions)}};
  return c;
}

OpCase embedding_case(int64_t rows, int64_t width, int64_t tokens, int64_t first_row, bool accumulate) {
  OpCase c{.op = "embedding",
           .numbers = {{"rows", as_number(rows)},
                       {"width", as_number(width)},
                       {"tokens", as_number(tokens)},
                       {"first_row", as_number(first_row)},
                       {"accumulate", as_number(accumulate)}}};
  // Some indices lie before the local rows and some behind them.
  c.tensors = {{.name = "table", .shape = {rows, width}},
               {.name = "indices",
                .shape = {tokens},
                .kind = I32,
                .values = scattered(tokens, std::max<int64_t>(0, first_row - 2), first_row + rows + 2)},
               {.name = "y", .shape = {tokens, width}, .use = accumulate ? InOut : Output}};
  return c;
}

OpCase embedding_backward_case(int64_t rows, int64_t width, int64_t tokens, int64_t first_row,
                               ElementKind accumulator) {
  OpCase c = embedding_case(rows, width, tokens, first_row, false);
  c.op = "embedding_backward";
  c.numbers["wide"] = accumulator == Wide;
  c.sum_length = tokens;
  c.tensors[0].use = Forward;
  c.tensors[2].use = Forward;
  c.tensors.push_back({.name = "dy", .shape = {tokens, width}});
  c.tensors.push_back({.name = "dtable", .shape = {rows, width}, .kind = accumulator, .use = InOut});
  return c;
}

// op: cross_entropy_stats, _rescale, _loss or _backward.
OpCase cross_entropy_case(const std::string& op, int64_t rows, int64_t classes, int64_t first_class,
                          int64_t local_classes, double smoothing) {
  OpCase c{.op = op,
           .numbers = {{"rows", as_number(rows)},
                       {"classes", as_number(classes)},
                       {"first_class", as_number(first_class)},
                       {"local_classes", as_number(local_classes)},
                       {"label_smoothing", smoothing}},
           .sum_length = local_classes};
  std::vector<double> targets, weights;
  for (int64_t i = 0; i < rows; ++i) {
    targets.push_back(i % 5 == 4 ? -1 : as_number((i * i * 31 + 3) % classes));
    weights.push_back(i % 5 == 4 || i % 7 == 1 ? 0 : 0.5 + as_number(i % 3));
  }
  TensorSpec logits{.name = "logits", .shape = {rows, local_classes}, .deviation = 2};
  TensorSpec stats{.name = "stats", .shape = {rows, 4}, .kind = Wide};
  TensorSpec loss{.name = "loss", .shape = {rows}, .kind = Wide, .use = Output};
  TensorSpec total{.name = "total", .shape = {1}, .kind = F64, .use = InOut};
  if (op == "cross_entropy_stats") {
    stats.use = Output;
    c.tensors = {logits, stats};
  } else if (op == "cross_entropy_rescale") {
    stats.values = {1.5, 3.25, 0.75, -2.5, -4, 1, -4, 10, 30, 2.5, 28, 12};
    stats.use = InOut;
    c.tensors = {stats, {.name = "maximum", .shape = {rows}, .kind = Wide, .values = {2.75, -4, 31}}};
    return c;
  } else if (op == "cross_entropy_loss") {
    stats.values = {1.5, 3.25, 0.75, -2.5, -4, 1, -4, 10, 30, 2.5, 28, 12};
    c.tensors = {stats, loss, total};
  } else {
    logits.use = InOut;
    stats.derived = true;
    loss.use = Forward;
    total.use = Forward;
    c.tensors = {logits, stats, loss, total, {.name = "scale", .shape = {1}, .kind = F64, .values = {0.75}}};
  }
  c.tensors.push_back({.name = "targets", .shape = {rows}, .kind = I32, .values = targets});
  if (op != "cross_entropy_stats")
    c.tensors.push_back({.name = "weights", .shape = {rows}, .kind = F32, .values = weights});
  return c;
}

OpCase dropout_case(int64_t rows, int64_t width, double probability, bool residual, int64_t column_offset,
                    bool in_place) {
  OpCase c{.op = "dropout",
           .numbers = {{"rows", as_number(rows)},
                       {"width", as_number(width)},
                       {"probability", probability},
                       {"key", 41},
                       {"residual", as_number(residual)},
                       {"column_offset", as_number(column_offset)}}};
  c.tensors = {{.name = "x", .shape = {rows, width}},
               {.name = "y", .shape = {rows, width}, .use = Output},
               {.name = "step", .shape = {1}, .kind = I64, .values = {17}},
               {.name = "row_index", .shape = {rows}, .kind = I64, .values = counting(rows, 1000003, 13)}};
  if (residual) c.tensors.push_back({.name = "residual", .shape = {rows, width}});
  if (in_place) c.tensors[1].alias = "x";
  return c;
}

OpCase add_case(int64_t rows, int64_t width, int64_t gap, const std::string& alias) {
  OpCase c{.op = "add", .numbers = {{"rows", as_number(rows)}, {"width", as_number(width)}}};
  c.tensors = {{.name = "a", .shape = {rows, width}, .row_gap = gap},
               {.name = "b", .shape = {rows, width}},
               {.name = "y", .shape = {rows, width}, .use = Output, .alias = alias}};
  if (alias == "a") c.tensors[2].row_gap = gap;
  return c;
}

OpCase scale_case(int64_t rows, int64_t width, int64_t gap) {
  OpCase c{.op = "scale",
           .numbers = {{"rows", as_number(rows)}, {"width", as_number(width)}, {"factor", -1.75}}};
  c.tensors = {{.name = "x", .shape = {rows, width}, .use = InOut, .row_gap = gap}};
  return c;
}

OpCase copy_case(int64_t rows, int64_t width, ElementKind from, ElementKind to, int64_t gap) {
  OpCase c{.op = "copy",
           .numbers = {{"rows", as_number(rows)},
                       {"width", as_number(width)},
                       {"from", static_cast<double>(from)},
                       {"to", static_cast<double>(to)}}};
  c.tensors = {{.name = "from", .shape = {rows, width}, .kind = from, .row_gap = gap},
               {.name = "to", .shape = {rows, width}, .kind = to, .use = Output, .row_gap = gap / 2}};
  return c;
}

OpCase column_sum_case(int64_t rows, int64_t width, ElementKind accumulator, int64_t gap) {
  OpCase c{.op = "column_sum",
           .numbers = {{"rows", as_number(rows)},
                       {"width", as_number(width)},
                       {"wide", as_number(accumulator == Wide)}},
           .sum_length = rows};
  c.tensors = {{.name = "x", .shape = {rows, width}, .row_gap = gap},
               {.name = "out", .shape = {width}, .kind = accumulator, .use = InOut}};
  return c;
}

OpCase sum_case(int64_t terms, int64_t count) {
  OpCase c{.op = "sum",
           .numbers = {{"terms", as_number(terms)}, {"count", as_number(count)}},
           .sum_length = terms};
  for (int64_t i = 0; i < terms; ++i)
    c.tensors.push_back({.name = "term" + std::to_string(i), .shape = {count}});
  c.tensors.push_back({.name = "out", .shape = {count}, .use = Output});
  return c;
}

OpCase sum_squares_case(int64_t rows, int64_t width, ElementKind kind, int64_t gap) {
  OpCase c{
      .op = "sum_squares",
      .numbers = {{"rows", as_number(rows)}, {"width", as_number(width)}, {"wide", as_number(kind == Wide)}},
      .sum_length = rows * width};
  c.tensors = {{.name = "x", .shape = {rows, width}, .kind = kind, .row_gap = gap},
               {.name = "out", .shape = {1}, .kind = F64, .use = InOut}};
  return c;
}

OpCase sum_squared_differences_case(int64_t count) {
  OpCase c{.op = "sum_squared_differences", .numbers = {{"count", as_number(count)}}, .sum_length = count};
  c.tensors = {{.name = "x", .shape = {count}, .mean = 1},
               {.name = "y", .shape = {count}},
               {.name = "out", .shape = {1}, .kind = F64, .use = InOut}};
  return c;
}

OpCase histogram_case(int64_t count, double deviation) {
  OpCase c{.op = "histogram",
           .numbers = {{"count", as_number(count)}, {"deviation", deviation}},
           .sum_length = count};
  c.tensors = {
      {.name = "x", .shape = {count}, .deviation = deviation},
      {.name = "counts", .shape = {HistogramBuckets::kCount}, .kind = I64, .use = InOut, .values = {0, 2}},
      {.name = "sum", .shape = {1}, .kind = F64, .use = InOut}};
  return c;
}

OpCase init_normal_case(int64_t rows, int64_t width, int64_t first_index, int64_t row_pitch) {
  OpCase c{.op = "init_normal",
           .numbers = {{"rows", as_number(rows)},
                       {"width", as_number(width)},
                       {"first_index", as_number(first_index)},
                       {"row_pitch", as_number(row_pitch)},
                       {"key", 7},
                       {"std", 0.02}}};
  c.tensors = {{.name = "value", .shape = {rows, width}, .kind = Wide, .use = Output}};
  return c;
}

OpCase adamw_case(int64_t count, ElementKind gradient, ElementKind value, double weight_decay) {
  OpCase c{.op = "adamw",
           .numbers = {{"count", as_number(count)},
                       {"wide_gradient", as_number(gradient == Wide)},
                       {"wide_value", as_number(value == Wide)},
                       {"beta1", 0.9},
                       {"beta2", 0.95},
                       {"epsilon", 1e-8},
                       {"weight_decay", weight_decay},
                       {"learning_rate_factor", 0.5}}};
  c.tensors = {
      {.name = "master", .shape = {count}, .kind = Wide, .use = InOut, .deviation = 0.1},
      {.name = "m", .shape = {count}, .kind = Wide, .use = InOut, .deviation = 0.1},
      {.name = "v", .shape = {count}, .kind = Wide, .use = InOut, .values = {0.01, 0.5, 0, 1e-4, 0.02}},
      {.name = "gradient", .shape = {count}, .kind = gradient},
      {.name = "value", .shape = {count}, .kind = value, .use = Output},
      {.name = "scalars", .shape = {4}, .kind = F64, .values = {1e-2, 0.271, 0.142625, 0.3}}};
  if (value == Wide) c.tensors[4].alias = "master";
  return c;
}

OpCase sgd_case(int64_t count, double momentum, double weight_decay) {
  OpCase c{.op = "sgd",
           .numbers = {{"count", as_number(count)},
                       {"momentum", momentum},
                       {"weight_decay", weight_decay},
                       {"learning_rate_factor", 2}}};
  c.tensors = {{.name = "master", .shape = {count}, .kind = Wide, .use = InOut, .deviation = 0.1},
               {.name = "gradient", .shape = {count}, .kind = Wide},
               {.name = "value", .shape = {count}, .use = Output},
               {.name = "scalars", .shape = {4}, .kind = F64, .values = {1e-2, 1, 1, 0.3}}};
  if (momentum != 0) c.tensors.push_back({.name = "velocity", .shape = {count}, .kind = Wide, .use = InOut});
  return c;
}

}  // namespace tessera::test
