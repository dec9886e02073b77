// SPDX-License-Identifier: Apache-2.0
// How much one rounding to a type changes a number.
#pragma once
#include "framework/tensor/dtype.h"

namespace tessera::test {

// The largest relative error of one rounding to nearest: half of what separates neighbours near 1.
inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 0x1p-53;
    case DType::BF16:
      return 0x1p-8;
    case DType::F16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

}  // namespace tessera::test
