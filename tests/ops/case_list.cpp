// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/case_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/ops/case_builders.h"

namespace tessera::test {

double OpCase::number(std::string_view key) const {
  const auto found = numbers.find(key);
  return found == numbers.end() ? 0 : found->second;
}

const TensorSpec* OpCase::find(std::string_view tensor) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorSpec& spec) { return spec.name == tensor; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string OpCase::name() const {
  std::string text = op;
  for (const auto& [key, value] : numbers) text += fmt::format(" {}={:g}", key, value);
  for (const TensorSpec& spec : tensors) {
    if (spec.row_gap > 0) text += fmt::format(" {}:slice", spec.name);
    if (!spec.alias.empty()) text += fmt::format(" {}:is_{}", spec.name, spec.alias);
  }
  return text;
}

DType dtype_of_spec(const TensorSpec& spec, DType compute) {
  switch (spec.kind) {
    case ElementKind::Compute:
      return compute;
    case ElementKind::Wide:
      return statistics_type(compute);
    case ElementKind::F32:
      return DType::F32;
    case ElementKind::F64:
      return DType::F64;
    case ElementKind::I32:
      return DType::I32;
    case ElementKind::I64:
      break;
  }
  return DType::I64;
}

double OpCase::bytes(DType compute) const {
  double sum = 0;
  for (const TensorSpec& spec : tensors) {
    if (spec.use == Use::Forward) continue;
    // A table of which single rows are read counts by its result.
    if (spec.name == "table" || spec.name == "dtable") continue;
    const double once = static_cast<double>(spec.shape.elements() * size_of(dtype_of_spec(spec, compute)));
    sum += spec.use == Use::InOut ? 2 * once : once;
  }
  return sum;
}

GradientSpec gradient_spec(const OpCase& c) {
  if (c.op == "layer_norm_backward")
    return {"layer_norm", "y", "dy", {{"x", "dx"}, {"gain", "dgain"}, {"bias", "dbias"}}};
  if (c.op == "rms_norm_backward") return {"rms_norm", "y", "dy", {{"x", "dx"}, {"gain", "dgain"}}};
  if (c.op == "activation_backward") return {"activation", "y", "dy", {{"x", "dx"}}};
  if (c.op == "gated_activation_backward") return {"gated_activation", "y", "dy", {{"gate_up", "dgate_up"}}};
  if (c.op == "attention_backward" || c.op == "attention_backward_add")
    return {"attention", "y", "dy", {{"q", "dq"}, {"k", "dk"}, {"v", "dv"}}};
  if (c.op == "embedding_backward") return {"embedding", "y", "dy", {{"table", "dtable"}}};
  if (c.op == "cross_entropy_backward") return {"cross_entropy", "total", "scale", {{"logits", "logits"}}};
  return {};
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_matmul_cases(cases);
  add_norm_cases(cases);
  add_activation_cases(cases);
  add_attention_cases(cases);
  add_embedding_cases(cases);
  add_cross_entropy_cases(cases);
  add_elementwise_cases(cases);
  add_update_cases(cases);
  return cases;
}

}  // namespace tessera::test
