// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/reduce_terms.h"

#include <type_traits>
#include <vector>

#include "framework/ops/memory.h"

namespace tessera {

namespace {

template <class T>
T added(T a, T b) {
  // Integer sums wrap, as on a device.
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  return a < b ? b : a;
}

// The order of 16-bit floats is that of their fp32 values, and converting there and back changes nothing.
template <class T>
void maximum_of_narrow(std::span<T> into, std::span<const T> term) {
  for (size_t i = 0; i < into.size(); ++i)
    into[i] = T(larger(static_cast<float>(into[i]), static_cast<float>(term[i])));
}

template <class T>
void reduce_on_host(Backend& backend, std::span<const Tensor> terms, const Tensor& out, Reduce op) {
  std::vector<T> result = to_host<T>(backend, terms[0]);
  for (size_t i = 1; i < terms.size(); ++i) {
    const std::vector<T> term = to_host<T>(backend, terms[i]);
    if constexpr (std::is_arithmetic_v<T>)
      reduce_into<T>(result, term, op);
    else
      maximum_of_narrow<T>(result, term);
  }
  backend.upload(std::as_bytes(std::span<const T>(result)), out);
}

}  // namespace

template <class T>
void reduce_into(std::span<T> into, std::span<const T> term, Reduce op) {
  for (size_t i = 0; i < into.size(); ++i)
    into[i] = op == Reduce::Sum ? added(into[i], term[i]) : larger(into[i], term[i]);
}
template void reduce_into(std::span<double>, std::span<const double>, Reduce);
template void reduce_into(std::span<int64_t>, std::span<const int64_t>, Reduce);

void reduce_terms(Backend& backend, std::span<const Tensor> terms, const Tensor& out, Reduce op) {
  if (op == Reduce::Sum && is_float(out.dtype())) return backend.sum(terms, out);
  switch (out.dtype()) {
    case DType::F64:
      return reduce_on_host<double>(backend, terms, out, op);
    case DType::F32:
      return reduce_on_host<float>(backend, terms, out, op);
    case DType::BF16:
      return reduce_on_host<BFloat16>(backend, terms, out, op);
    case DType::F16:
      return reduce_on_host<Float16>(backend, terms, out, op);
    case DType::I64:
      return reduce_on_host<int64_t>(backend, terms, out, op);
    case DType::I32:
      return reduce_on_host<int32_t>(backend, terms, out, op);
    case DType::U8:
      return reduce_on_host<uint8_t>(backend, terms, out, op);
  }
}

}  // namespace tessera
