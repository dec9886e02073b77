// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/reference.h"

#include <algorithm>
#include <cmath>

#include "framework/base/random.h"
#include "tests/ops/reference_operands.h"

namespace tessera::test {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double activate(Activation kind, double x) {
  switch (kind) {
    case Activation::None:
      return x;
    case Activation::Gelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::GeluTanh:
      return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3)));
    case Activation::Silu:
      return x * sigmoid(x);
    case Activation::Relu:
      return x > 0 ? x : 0;
  }
  return 0;
}

double activation_slope(Activation kind, double x) {
  switch (kind) {
    case Activation::None:
      return 1;
    case Activation::Gelu:
      return std::erfc(-x / std::sqrt(2.0)) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case Activation::GeluTanh: {
      const double scale = 2 * std::sqrt(2 / M_PI);
      const double z = scale * (x + 0.044715 * std::pow(x, 3));
      return sigmoid(z) + x * sigmoid(z) * sigmoid(-z) * scale * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::Silu:
      return sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
    case Activation::Relu:
      return x > 0 ? 1 : 0;
  }
  return 0;
}

Activation kind_of(const Operands& o) {
  return static_cast<Activation>(o.integer("kind"));
}

void matmul(const Operands& o) {
  Matrix a = o.matrix("a"), b = o.matrix("b"), c = o.matrix("c");
  const int64_t n = o.integer("n");
  const int64_t m = o.integer("m"), k = o.integer("k");
  const bool transpose_a = o.number("transpose_a") != 0, transpose_b = o.number("transpose_b") != 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += (transpose_a ? a(p, i) : a(i, p)) * (transpose_b ? b(j, p) : b(p, j));
      double value = o.number("alpha") * sum;
      if (o.number("beta") != 0) value += o.number("beta") * c(i, j);
      if (o.has("bias")) value += o["bias"][static_cast<size_t>(j)];
      if (o.has("derivative")) o.matrix("derivative")(i, j) = activation_slope(kind_of(o), value);
      value = activate(kind_of(o), value);
      if (o.has("multiply")) value *= o.matrix("multiply")(i, j);
      c(i, j) = value;
    }
}

struct Moments {
  double mean, inv_std;
};
Moments moments(Matrix x, int64_t row, double epsilon) {
  double mean = 0, variance = 0;
  for (int64_t j = 0; j < x.columns; ++j) mean += x(row, j) / static_cast<double>(x.columns);
  for (int64_t j = 0; j < x.columns; ++j)
    variance += std::pow(x(row, j) - mean, 2) / static_cast<double>(x.columns);
  return {mean, 1 / std::sqrt(variance + epsilon)};
}

void layer_norm(const Operands& o) {
  Matrix x = o.matrix("x"), y = o.matrix("y");
  for (int64_t i = 0; i < o.integer("rows"); ++i) {
    const Moments m = moments(x, i, o.number("epsilon"));
    o["mean"][static_cast<size_t>(i)] = m.mean;
    o["inv_std"][static_cast<size_t>(i)] = m.inv_std;
    for (int64_t j = 0; j < x.columns; ++j)
      y(i, j) = (x(i, j) - m.mean) * m.inv_std * o["gain"][static_cast<size_t>(j)] +
                (o.has("bias") ? o["bias"][static_cast<size_t>(j)] : 0);
  }
}

// The gradient through the full Jacobian of one normalised row, d normal_j / d x_k.
void layer_norm_backward(const Operands& o) {
  Matrix x = o.matrix("x"), dy = o.matrix("dy"), dx = o.matrix("dx");
  const double n = static_cast<double>(x.columns);
  for (int64_t i = 0; i < o.integer("rows"); ++i) {
    const Moments m = moments(x, i, o.number("epsilon"));
    double sum = 0, sum_normal = 0;
    for (int64_t j = 0; j < x.columns; ++j) {
      const double g = dy(i, j) * o["gain"][static_cast<size_t>(j)];
      sum += g;
      sum_normal += g * (x(i, j) - m.mean) * m.inv_std;
    }
    for (int64_t j = 0; j < x.columns; ++j) {
      const double normal = (x(i, j) - m.mean) * m.inv_std;
      const double g = dy(i, j) * o["gain"][static_cast<size_t>(j)];
      if (o.has("dgain")) o["dgain"][static_cast<size_t>(j)] += dy(i, j) * normal;
      if (o.has("dbias")) o["dbias"][static_cast<size_t>(j)] += dy(i, j);
      dx(i, j) = m.inv_std * (g - sum / n - normal * sum_normal / n);
    }
  }
}

void rms_norm(const Operands& o, bool backward) {
  Matrix x = o.matrix("x");
  const int64_t width = o.integer("width"), groups = o.integer("groups");
  for (int64_t i = 0; i < o.integer("rows"); ++i)
    for (int64_t g = 0; g < groups; ++g) {
      double squares = 0, product = 0;
      for (int64_t j = 0; j < width; ++j) squares += std::pow(x(i, g * width + j), 2);
      const double inv = 1 / std::sqrt(squares / static_cast<double>(width) + o.number("epsilon"));
      const auto gain = [&](int64_t j) { return o["gain"][static_cast<size_t>(j)]; };
      if (!backward) {
        o.matrix("inv_rms")(i, g) = inv;
        for (int64_t j = 0; j < width; ++j)
          o.matrix("y")(i, g * width + j) = x(i, g * width + j) * inv * gain(j);
        continue;
      }
      Matrix dy = o.matrix("dy"), dx = o.matrix("dx");
      for (int64_t j = 0; j < width; ++j) {
        const int64_t column = g * width + j;
        product += dy(i, column) * gain(j) * x(i, column);
        if (o.has("dgain")) o["dgain"][static_cast<size_t>(j)] += dy(i, column) * x(i, column) * inv;
      }
      for (int64_t j = 0; j < width; ++j) {
        const int64_t column = g * width + j;
        dx(i, column) = inv * dy(i, column) * gain(j) -
                        std::pow(inv, 3) * x(i, column) * product / static_cast<double>(width);
      }
    }
}

void activation(const Operands& o) {
  for (size_t i = 0; i < o["y"].size(); ++i) o["y"][i] = activate(kind_of(o), o["x"][i]);
}
void activation_backward(const Operands& o) {
  for (size_t i = 0; i < o["dx"].size(); ++i)
    o["dx"][i] = o["dy"][i] * activation_slope(kind_of(o), o["x"][i]);
}
void gated_activation(const Operands& o) {
  Matrix x = o.matrix("gate_up"), y = o.matrix("y");
  for (int64_t i = 0; i < o.integer("rows"); ++i)
    for (int64_t j = 0; j < y.columns; ++j) y(i, j) = activate(kind_of(o), x(i, j)) * x(i, y.columns + j);
}
void gated_activation_backward(const Operands& o) {
  Matrix x = o.matrix("gate_up"), dy = o.matrix("dy"), dx = o.matrix("dgate_up");
  for (int64_t i = 0; i < o.integer("rows"); ++i)
    for (int64_t j = 0; j < dy.columns; ++j) {
      const double gate = x(i, j), up = x(i, dy.columns + j);
      dx(i, j) = dy(i, j) * up * activation_slope(kind_of(o), gate);
      dx(i, dy.columns + j) = dy(i, j) * activate(kind_of(o), gate);
    }
}

// (a, b) is one complex number times cos + i sin.
void rope(const Operands& o, double sign) {
  Matrix x = o.matrix("x"), table = o.matrix("table");
  const int64_t half = o.integer("rotary_dim") / 2, dim = o.integer("head_dim");
  for (int64_t i = 0; i < o.integer("rows"); ++i) {
    const int64_t position = static_cast<int64_t>(o["positions"][static_cast<size_t>(i)]);
    for (int64_t head = 0; head < o.integer("heads"); ++head)
      for (int64_t c = 0; c < half; ++c) {
        double &a = x(i, head * dim + c), &b = x(i, head * dim + c + half);
        const double cosine = table(position, c), sine = sign * table(position, half + c);
        const double real = a * cosine - b * sine, imaginary = a * sine + b * cosine;
        a = real;
        b = imaginary;
      }
  }
}

void embedding(const Operands& o, bool backward) {
  Matrix table = o.matrix(backward ? "dtable" : "table"), y = o.matrix(backward ? "dy" : "y");
  for (int64_t i = 0; i < o.integer("tokens"); ++i) {
    const int64_t row = static_cast<int64_t>(o["indices"][static_cast<size_t>(i)]) - o.integer("first_row");
    const bool local = row >= 0 && row < o.integer("rows");
    for (int64_t c = 0; c < y.columns; ++c) {
      if (backward) {
        if (local) table(row, c) += y(i, c);
      } else {
        const double old = o.number("accumulate") != 0 ? y(i, c) : 0;
        y(i, c) = old + (local ? table(row, c) : 0);
      }
    }
  }
}

void cross_entropy_stats(const Operands& o) {
  Matrix x = o.matrix("logits"), stats = o.matrix("stats");
  for (int64_t i = 0; i < o.integer("rows"); ++i) {
    double maximum = -kInfinity, sum_exp = 0, sum = 0, target = 0;
    for (int64_t j = 0; j < x.columns; ++j) maximum = std::max(maximum, x(i, j));
    for (int64_t j = 0; j < x.columns; ++j) {
      sum_exp += std::exp(x(i, j) - maximum);
      sum += x(i, j);
      if (static_cast<double>(o.integer("first_class") + j) == o["targets"][static_cast<size_t>(i)])
        target = x(i, j);
    }
    stats(i, 0) = maximum;
    stats(i, 1) = sum_exp;
    stats(i, 2) = target;
    stats(i, 3) = sum;
  }
}

void cross_entropy_rescale(const Operands& o) {
  Matrix stats = o.matrix("stats");
  for (int64_t i = 0; i < o.integer("rows"); ++i) {
    const double maximum = o["maximum"][static_cast<size_t>(i)];
    stats(i, 1) *= std::exp(stats(i, 0) - maximum);
    stats(i, 0) = maximum;
  }
}

bool trained(const Operands& o, int64_t i) {
  return o["weights"][static_cast<size_t>(i)] != 0 && o["targets"][static_cast<size_t>(i)] >= 0;
}

void cross_entropy_loss(const Operands& o) {
  Matrix stats = o.matrix("stats");
  const double s = o.number("label_smoothing");
  for (int64_t i = 0; i < o.integer("rows"); ++i) {
    double& loss = o["loss"][static_cast<size_t>(i)];
    loss = 0;
    if (!trained(o, i)) continue;
    const double lse = stats(i, 0) + std::log(stats(i, 1));
    loss = lse - (1 - s) * stats(i, 2) - s * stats(i, 3) / o.number("classes");
    o["total"][0] += loss * o["weights"][static_cast<size_t>(i)];
  }
}

void cross_entropy_backward(const Operands& o) {
  Matrix x = o.matrix("logits");
  const double s = o.number("label_smoothing");
  for (int64_t i = 0; i < o.integer("rows"); ++i) {
    double maximum = -kInfinity, sum = 0;
    for (int64_t j = 0; j < x.columns; ++j) maximum = std::max(maximum, x(i, j));
    for (int64_t j = 0; j < x.columns; ++j) sum += std::exp(x(i, j) - maximum);
    for (int64_t j = 0; j < x.columns; ++j) {
      const bool is_target = static_cast<double>(j) == o["targets"][static_cast<size_t>(i)];
      const double slope =
          std::exp(x(i, j) - maximum) / sum - (1 - s) * (is_target ? 1 : 0) - s / o.number("classes");
      x(i, j) = trained(o, i) ? o["scale"][0] * o["weights"][static_cast<size_t>(i)] * slope : 0;
    }
  }
}

void dropout(const Operands& o) {
  Matrix x = o.matrix("x"), y = o.matrix("y");
  const double p = o.number("probability");
  const RandomKey base{static_cast<uint64_t>(o.integer("key")) * 0x9e3779b97f4a7c15u};
  const RandomKey key = mixed(base, static_cast<uint64_t>(o["step"][0]));
  for (int64_t i = 0; i < o.integer("rows"); ++i)
    for (int64_t c = 0; c < x.columns; ++c) {
      const uint64_t column = static_cast<uint64_t>(o.integer("column_offset") + c);
      const uint64_t row = static_cast<uint64_t>(o["row_index"][static_cast<size_t>(i)]);
      const bool keep = philox(key, row, column / 4)[column % 4] < std::llround((1 - p) * 4294967296.0);
      y(i, c) = (o.has("residual") ? o.matrix("residual")(i, c) : 0) + (keep ? x(i, c) / (1 - p) : 0);
    }
}

void init_normal(const Operands& o) {
  Matrix value = o.matrix("value");
  const RandomKey key{static_cast<uint64_t>(o.integer("key")) * 0x9e3779b97f4a7c15u};
  for (int64_t i = 0; i < o.integer("rows"); ++i)
    for (int64_t c = 0; c < value.columns; ++c) {
      const uint64_t index = static_cast<uint64_t>(o.integer("first_index") + i * o.integer("row_pitch") + c);
      value(i, c) =
          o.number("std") * static_cast<double>(normal_from_bits(philox(key, index / 4)[index % 4]));
    }
}

void adamw(const Operands& o) {
  const Vector& scalars = o["scalars"];
  const double rate = scalars[0] * o.number("learning_rate_factor");
  for (size_t i = 0; i < o["master"].size(); ++i) {
    double &w = o["master"][i], &m = o["m"][i], &v = o["v"][i];
    const double g = o["gradient"][i] * scalars[3];
    m = o.number("beta1") * m + (1 - o.number("beta1")) * g;
    v = o.number("beta2") * v + (1 - o.number("beta2")) * g * g;
    const double update = m / scalars[1] / (std::sqrt(v / scalars[2]) + o.number("epsilon"));
    w -= rate * (update + o.number("weight_decay") * w);
    o["value"][i] = w;
  }
}

void sgd(const Operands& o) {
  const Vector& scalars = o["scalars"];
  const double rate = scalars[0] * o.number("learning_rate_factor");
  for (size_t i = 0; i < o["master"].size(); ++i) {
    double& w = o["master"][i];
    double step = o["gradient"][i] * scalars[3];
    if (o.number("momentum") != 0) {
      o["velocity"][i] = o.number("momentum") * o["velocity"][i] + step;
      step = o["velocity"][i];
    }
    w -= rate * step + rate * o.number("weight_decay") * w;
    o["value"][i] = w;
  }
}

void column_sum(const Operands& o) {
  Matrix x = o.matrix("x");
  for (int64_t i = 0; i < o.integer("rows"); ++i)
    for (int64_t c = 0; c < x.columns; ++c) o["out"][static_cast<size_t>(c)] += x(i, c);
}

void sum(const Operands& o) {
  for (size_t i = 0; i < o["out"].size(); ++i) {
    o["out"][i] = 0;
    for (int64_t k = 0; k < o.integer("terms"); ++k) o["out"][i] += o.t["term" + std::to_string(k)][i];
  }
}

void histogram(const Operands& o) {
  for (const double x : o["x"]) {
    int place = 0;  // from the middle
    if (std::abs(x) >= std::ldexp(1, HistogramBuckets::kFirst)) {
      const int octave = std::ilogb(x);
      place = 1 + 4 * (octave - HistogramBuckets::kFirst) +
              static_cast<int>(4 * (std::abs(x) / std::ldexp(1, octave) - 1));
    }
    place = std::min(place, HistogramBuckets::kEachSide);
    ++o["counts"][static_cast<size_t>(HistogramBuckets::kEachSide + (x < 0 ? -place : place))];
    o["sum"][0] += x;
  }
}

bool elementwise(const std::string& op, const Operands& o) {
  if (op == "fill") {
    o["x"].assign(o["x"].size(), o.number("value"));
  } else if (op == "copy") {
    o["to"] = o["from"];
  } else if (op == "add") {
    for (size_t i = 0; i < o["y"].size(); ++i) o["y"][i] = o["a"][i] + o["b"][i];
  } else if (op == "scale") {
    for (double& x : o["x"]) x *= o.number("factor");
  } else if (op == "sum_squares") {
    for (const double x : o["x"]) o["out"][0] += x * x;
  } else if (op == "sum_squared_differences") {
    for (size_t i = 0; i < o["x"].size(); ++i) o["out"][0] += std::pow(o["x"][i] - o["y"][i], 2);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void reference(const std::string& op, const OpCase& c, HostTensors& tensors) {
  const Operands o{c, tensors};
  if (op == "matmul") return matmul(o);
  if (op == "layer_norm") return layer_norm(o);
  if (op == "layer_norm_backward") return layer_norm_backward(o);
  if (op == "rms_norm") return rms_norm(o, false);
  if (op == "rms_norm_backward") return rms_norm(o, true);
  if (op == "activation") return activation(o);
  if (op == "activation_backward") return activation_backward(o);
  if (op == "gated_activation") return gated_activation(o);
  if (op == "gated_activation_backward") return gated_activation_backward(o);
  if (op == "attention") return reference_attention(o, false);
  if (op == "attention_add") return reference_attention(o, true);
  if (op == "attention_backward") return reference_attention_backward(o, false);
  if (op == "attention_backward_add") return reference_attention_backward(o, true);
  if (op == "rope") return rope(o, 1);
  if (op == "rope_backward") return rope(o, -1);
  if (op == "embedding") return embedding(o, false);
  if (op == "embedding_backward") return embedding(o, true);
  if (op == "cross_entropy_stats") return cross_entropy_stats(o);
  if (op == "cross_entropy_rescale") return cross_entropy_rescale(o);
  if (op == "cross_entropy_loss") return cross_entropy_loss(o);
  if (op == "cross_entropy") {
    cross_entropy_stats(o);
    return cross_entropy_loss(o);
  }
  if (op == "cross_entropy_backward") return cross_entropy_backward(o);
  if (op == "dropout") return dropout(o);
  if (op == "init_normal") return init_normal(o);
  if (op == "adamw") return adamw(o);
  if (op == "sgd") return sgd(o);
  if (op == "column_sum") return column_sum(o);
  if (op == "sum") return sum(o);
  if (op == "histogram") return histogram(o);
  CHECK(elementwise(op, o), "no reference for the operation '{}'", op);
}

}  // namespace tessera::test
