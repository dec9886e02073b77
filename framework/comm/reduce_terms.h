// SPDX-License-Identifier: Apache-2.0
// The one reduction that every transport uses, so that they give the same bits: terms in rank order.
#pragma once
#include <span>

#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

// out = the reduction of packed terms of one type and size; out may be one of them. Sums of floating-point
// tensors are the backend's (fp32, rounded once). Maxima and integers, which occur for small tensors only,
// are computed on the host: integers exactly, a maximum over a NaN is NaN.
void reduce_terms(Backend& backend, std::span<const Tensor> terms, const Tensor& out, Reduce op);

// The same for values that are on the host already: into = reduction of into and term.
template <class T>
void reduce_into(std::span<T> into, std::span<const T> term, Reduce op);

}  // namespace tessera
