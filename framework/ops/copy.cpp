// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/copy.h"

namespace tessera {

void copy(Backend& backend, const Tensor& from, const Tensor& to) {
  CHECK(from.defined() && to.defined() && from.shape() == to.shape() &&
            (from.dtype() == to.dtype() || (is_float(from.dtype()) && is_float(to.dtype()))),
        "copy: {} to {}", from.defined() ? from.describe() : "no tensor",
        to.defined() ? to.describe() : "no tensor");
  backend.copy(from, to);
}

}  // namespace tessera
