// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/case_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "framework/base/random.h"
#include "tests/support/rounding.h"

namespace tessera::test {
namespace {

constexpr int64_t kGuard = 256;

double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::F32:
      return static_cast<double>(static_cast<float>(value));
    case DType::BF16:
      return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(value))));
    case DType::F16:
      return static_cast<double>(static_cast<float>(Float16(static_cast<float>(value))));
    default:
      return value;
  }
}

// Calls f with a pointer to the element type.
template <class F>
void visit_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::I64:
      return f.template operator()<int64_t>();
    case DType::I32:
      return f.template operator()<int32_t>();
    case DType::U8:
      return f.template operator()<uint8_t>();
    default:
      return visit_float(dtype, f);
  }
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}
template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}

std::vector<double> make_values(const OpCase& c, const TensorSpec& spec, DType dtype) {
  std::vector<double> values(static_cast<size_t>(spec.shape.elements()));
  if (spec.use == Use::Output) return values;
  const RandomKey key = random_key(1, c.name() + "/" + spec.name);
  for (size_t i = 0; i < values.size(); ++i) {
    const double random = static_cast<double>(normal_from_bits(philox(key, i / 4)[i % 4]));
    const double value =
        spec.values.empty() ? spec.mean + spec.deviation * random : spec.values[i % spec.values.size()];
    values[i] = rounded_to(dtype, value);
  }
  return values;
}

}  // namespace

HostTensors make_host_tensors(const OpCase& c, DType compute) {
  HostTensors host;
  bool derive = false;
  for (const TensorSpec& spec : c.tensors) {
    host[spec.name] = make_values(c, spec, dtype_of_spec(spec, compute));
    derive = derive || spec.derived;
  }
  if (!derive) return host;
  HostTensors forward = host;
  reference(gradient_spec(c).forward, c, forward);
  for (const TensorSpec& spec : c.tensors) {
    if (!spec.derived) continue;
    host[spec.name] = forward[spec.name];
    for (double& value : host[spec.name]) value = rounded_to(dtype_of_spec(spec, compute), value);
  }
  return host;
}

GuardedTensor::GuardedTensor(const TensorSpec& spec, DType compute) {
  const DType dtype = dtype_of_spec(spec, compute);
  const Shape& shape = spec.shape;
  const int64_t rows = shape.rows(), columns = shape.row_elements() + spec.row_gap;
  row_bytes_ = shape.row_elements() * size_of(dtype);
  const int64_t bytes = rows * columns * size_of(dtype);
  memory_.assign(static_cast<size_t>(bytes + 2 * kGuard), std::byte{0xff});
  // The storage ends at the last element: the rest is out of bounds.
  auto storage = std::make_shared<Storage>(memory_.data() + kGuard, bytes, Device{}, nullptr);
  if (spec.row_gap > 0)
    tensor_ = Tensor(storage, dtype, {rows, columns}).columns(0, shape.row_elements());
  else
    tensor_ = Tensor(storage, dtype, shape);
}

std::byte* GuardedTensor::row(int64_t i) const {
  return static_cast<std::byte*>(tensor_.address()) + i * tensor_.row_stride() * size_of(tensor_.dtype());
}

void GuardedTensor::write(const std::vector<double>& values) {
  const int64_t columns = tensor_.shape().row_elements();
  visit_element(tensor_.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < tensor_.elements(); ++i) {
      const T value = from_double<T>(values[static_cast<size_t>(i)]);
      std::memcpy(row(i / columns) + i % columns * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
  });
}

std::vector<double> GuardedTensor::read() const {
  const int64_t columns = tensor_.shape().row_elements();
  std::vector<double> values(static_cast<size_t>(tensor_.elements()));
  visit_element(tensor_.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < tensor_.elements(); ++i) {
      T value;
      std::memcpy(&value, row(i / columns) + i % columns * static_cast<int64_t>(sizeof(T)), sizeof(T));
      values[static_cast<size_t>(i)] = to_double(value);
    }
  });
  return values;
}

std::vector<std::byte> GuardedTensor::bytes() const {
  std::vector<std::byte> result;
  for (int64_t i = 0; i < tensor_.shape().rows(); ++i)
    result.insert(result.end(), row(i), row(i) + row_bytes_);
  return result;
}

bool GuardedTensor::guards_intact() const {
  const auto poisoned = [](const std::byte* begin, const std::byte* end) {
    return std::all_of(begin, end, [](std::byte b) { return b == std::byte{0xff}; });
  };
  const std::byte* end = memory_.data();
  for (int64_t i = 0; i < tensor_.shape().rows(); ++i) {
    if (!poisoned(end, row(i))) return false;
    end = row(i) + row_bytes_;
  }
  return poisoned(end, memory_.data() + memory_.size());
}

CaseTensors::CaseTensors(const OpCase& c, DType compute, const HostTensors& values) {
  for (const TensorSpec& spec : c.tensors) {
    names_[spec.name] = spec.alias.empty() ? spec.name : spec.alias;
    if (!spec.alias.empty()) continue;
    auto& tensor = memory_[spec.name] = std::make_unique<GuardedTensor>(spec, compute);
    if (spec.use != Use::Output) tensor->write(values.at(spec.name));
  }
}

Tensors CaseTensors::tensors() const {
  Tensors result;
  for (const auto& [name, memory] : names_) result[name] = memory_.at(memory)->tensor();
  return result;
}

GuardedTensor& CaseTensors::operator[](const std::string& name) {
  return *memory_.at(names_.at(name));
}

std::optional<std::string> CaseTensors::damaged() const {
  for (const auto& [name, memory] : memory_)
    if (!memory->guards_intact()) return name;
  return std::nullopt;
}

// Rounding of inputs that the forward left and of the result: a few units of the storage type. Rounding
// errors of a sum grow with the square root of its length when they are independent; a few times that
// covers cancellation between terms, whose size the tensor's own size stands for.
double tolerance(DType compute, DType result, int64_t sum_length) {
  // Of bf16 half a unit a rounding is enough.
  const auto rounding = [](DType type) { return unit_roundoff(type) / (type == DType::BF16 ? 2 : 1); };
  const double storage = std::max(rounding(compute), rounding(result));
  const double arithmetic = unit_roundoff(compute == DType::F64 ? DType::F64 : DType::F32);
  return 4 * storage + 8 * arithmetic * std::sqrt(static_cast<double>(sum_length));
}

std::string difference(const std::vector<double>& got, const std::vector<double>& wanted, double bound) {
  if (got.size() != wanted.size()) return fmt::format("{} elements, wanted {}", got.size(), wanted.size());
  double error = 0, size = 0, worst = -1;
  size_t worst_at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(wanted[i]) || !std::isfinite(got[i])) {
      const bool same = std::isnan(wanted[i]) ? std::isnan(got[i]) : got[i] == wanted[i];
      if (!same) return fmt::format("element {} is {}, wanted {}", i, got[i], wanted[i]);
      continue;
    }
    error += std::pow(got[i] - wanted[i], 2);
    size += std::pow(wanted[i], 2);
  }
  const double count = static_cast<double>(std::max<size_t>(got.size(), 1));
  const double mean_size = std::sqrt(size / count);
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(wanted[i])) continue;
    const double relative = std::abs(got[i] - wanted[i]) / std::max({std::abs(wanted[i]), mean_size, 1e-300});
    if (relative > worst) {
      worst = relative;
      worst_at = i;
    }
  }
  const double rms_error = size > 0 ? std::sqrt(error / size) : std::sqrt(error);
  // One element may err by more than the mean does.
  if (rms_error <= bound && worst <= 8 * bound) return "";
  return fmt::format("relative error {:.3g} (rms), bound {:.3g}; worst element {}: {:.9g}, wanted {:.9g}",
                     rms_error, bound, worst_at, got[worst_at], wanted[worst_at]);
}

}  // namespace tessera::test
