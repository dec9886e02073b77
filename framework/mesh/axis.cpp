// SPDX-License-Identifier: Apache-2.0
#include "framework/mesh/axis.h"

#include "framework/base/check.h"

namespace tessera {

std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::Tensor:
      return "tp";
    case Axis::Sequence:
      return "sp";
    case Axis::Data:
      return "dp";
    case Axis::Pipeline:
      return "pp";
    case Axis::ExpertTensor:
      return "etp";
    case Axis::Expert:
      return "ep";
    case Axis::ExpertData:
      return "edp";
  }
  fail(ExitCode::Communication, "no mesh axis has the number {}", static_cast<int>(axis));
}

}  // namespace tessera
