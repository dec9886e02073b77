// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/pieces.h"
#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {
namespace {

// Calls body(master type M, gradient type G, value type V).
template <class F>
void visit_update(const Tensor& master, const Tensor& gradient, const Tensor& value, F&& body) {
  if (master.dtype() == DType::F64) return body.template operator()<double, double, double>();
  visit_float(gradient.dtype(), [&]<class G>() {
    visit_float(value.dtype(), [&]<class V>() {
      if constexpr (!std::is_same_v<G, double> && !std::is_same_v<V, double>)
        body.template operator()<float, G, V>();
    });
  });
}

template <class M>
AdamwFactors<M> adamw_factors(const AdamwArgs& args) {
  const double* scalars = args.scalars.data<double>();
  const double rate = scalars[0] * args.learning_rate_factor;
  return {.gradient_factor = static_cast<M>(scalars[3]),
          .beta1 = static_cast<M>(args.beta1),
          .one_minus_beta1 = static_cast<M>(1 - args.beta1),
          .beta2 = static_cast<M>(args.beta2),
          .one_minus_beta2 = static_cast<M>(1 - args.beta2),
          .step_size = static_cast<M>(rate / scalars[1]),
          .inv_sqrt_correction2 = static_cast<M>(1 / std::sqrt(scalars[2])),
          .epsilon = static_cast<M>(args.epsilon),
          .decay_factor = static_cast<M>(1 - rate * args.weight_decay)};
}

// value = rounded master, unless it is the master.
template <class M, class V>
void store_value([[maybe_unused]] const M* master, V* value, int64_t count) {
  if constexpr (std::is_same_v<M, V>) {
    if (value != master) std::copy_n(master, count, value);
  } else {
    narrow(master, value, count);
  }
}

}  // namespace

void CpuBackend::adamw(const AdamwArgs& args) {
  visit_update(args.master, args.gradient, args.value, [&]<class M, class G, class V>() {
    const AdamwFactors<M> factors = adamw_factors<M>(args);
    for_pieces(threads(), {&args.master}, [&](int64_t, int64_t begin, int64_t count) {
      std::array<M, kPiece> buffer;
      M* master = args.master.data<M>() + begin;
      adamw_row(master, args.m.data<M>() + begin, args.v.data<M>() + begin,
                read<G>(args.gradient.data<G>() + begin, buffer.data(), count), count, factors);
      store_value(master, args.value.data<V>() + begin, count);
    });
  });
}

void CpuBackend::sgd(const SgdArgs& args) {
  visit_update(args.master, args.gradient, args.value, [&]<class M, class G, class V>() {
    const double* scalars = args.scalars.data<double>();
    const double learning_rate = scalars[0] * args.learning_rate_factor;
    const SgdFactors<M> factors{.gradient_factor = static_cast<M>(scalars[3]),
                                .momentum = static_cast<M>(args.momentum),
                                .rate = static_cast<M>(learning_rate),
                                .decay_factor = static_cast<M>(1 - learning_rate * args.weight_decay)};
    for_pieces(threads(), {&args.master}, [&](int64_t, int64_t begin, int64_t count) {
      std::array<M, kPiece> buffer;
      M* master = args.master.data<M>() + begin;
      sgd_row(master, args.velocity.defined() ? args.velocity.data<M>() + begin : nullptr,
              read<G>(args.gradient.data<G>() + begin, buffer.data(), count), count, factors);
      store_value(master, args.value.data<V>() + begin, count);
    });
  });
}

}  // namespace tessera::cpu
