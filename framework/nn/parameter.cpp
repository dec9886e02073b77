// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/parameter.h"

#include "framework/base/check.h"

namespace tessera {
namespace {

Shape shape_of(const Box& box) {
  return Shape(std::span<const int64_t>(box.extent));
}

// One tensor over consecutive views that lie side by side; undefined when none is defined.
Tensor spanned(std::span<const Parameter> parts, Tensor Parameter::*member, std::string_view name) {
  const Tensor& first = parts.front().*member;
  int64_t rows = 0, bytes = 0;
  for (const Parameter& part : parts) {
    const Tensor& tensor = part.*member;
    CHECK(tensor.defined() == first.defined(), "weight {}: {} is bound and {} is not", name,
          (first.defined() ? parts.front() : part).spec.name,
          (first.defined() ? part : parts.front()).spec.name);
    if (!first.defined()) continue;
    CHECK(tensor.storage() == first.storage() && tensor.dtype() == first.dtype() && tensor.packed() &&
              tensor.byte_offset() == first.byte_offset() + bytes,
          "weight {}: {} does not lie right behind the parts before it", name, part.spec.name);
    rows += tensor.size(0);
    bytes += tensor.bytes();
  }
  if (!first.defined() || parts.size() == 1) return first;
  const Shape shape = first.shape().rank() == 1 ? Shape{rows} : Shape{rows, first.size(1)};
  return Tensor(first.storage(), first.dtype(), shape, first.byte_offset());
}

}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
    case Role::Matrix:
      return "matrix";
    case Role::Embedding:
      return "embedding";
    case Role::Norm:
      return "norm";
    case Role::Bias:
      return "bias";
    case Role::Buffer:
      break;
  }
  return "buffer";
}

ParameterStore::ParameterStore(std::vector<ParameterSpec> specs, const Mesh& mesh, int rank) {
  parameters_.reserve(specs.size());
  for (ParameterSpec& spec : specs) {
    const size_t index = parameters_.size();
    Box box = local_box(spec.shape, spec.shard, mesh, rank);
    parameters_.push_back({.spec = std::move(spec), .box = std::move(box)});
    const ParameterSpec& added = parameters_.back().spec;
    CHECK(index_.emplace(added.name, index).second, "parameter {} is declared twice", added.name);
    CHECK(weights_.emplace(added.name, Group{index, 1, {.trainable = added.trainable}}).second,
          "parameter {} has the name of a fused group", added.name);
    if (!added.fused.empty()) add_group(added.fused, index);
  }
}

// Opens the group of a mark, or adds the parameter `index` to it.
void ParameterStore::add_group(const std::string& mark, size_t index) {
  const Parameter& part = parameters_[index];
  const auto [found, opened] = weights_.emplace(mark, Group{index, 1, {.trainable = part.spec.trainable}});
  if (opened) return;
  Group& group = found->second;
  const Parameter& first = parameters_[group.first];
  CHECK(first.spec.fused == mark && group.first + group.count == index,
        "{} has the mark {}, which is not that of the parameters right before it", part.spec.name, mark);
  CHECK(part.spec.shape.rank() == first.spec.shape.rank() && part.spec.shape.rank() <= 2 &&
            (part.spec.shape.rank() < 2 || part.box.extent[1] == first.box.extent[1]),
        "{} {} cannot lie side by side with {} {}", part.spec.name, shape_of(part.box).to_string(),
        first.spec.name, shape_of(first.box).to_string());
  CHECK(part.spec.trainable == first.spec.trainable, "{} and {} are fused, but only one is trainable",
        part.spec.name, first.spec.name);
  ++group.count;
}

Parameter& ParameterStore::at(std::string_view name) {
  return const_cast<Parameter&>(std::as_const(*this).at(name));
}

const Parameter& ParameterStore::at(std::string_view name) const {
  const auto found = index_.find(name);
  CHECK(found != index_.end(), "there is no parameter {}", name);
  return parameters_[found->second];
}

const Weight& ParameterStore::weight(std::string_view name_or_mark) const {
  const auto found = weights_.find(name_or_mark);
  CHECK(found != weights_.end(), "there is no parameter or fused group {}", name_or_mark);
  return found->second.weight;
}

void ParameterStore::refresh_weights() {
  for (auto& [name, group] : weights_) {
    const auto parts = std::span<const Parameter>(parameters_).subspan(group.first, group.count);
    group.weight.value = spanned(parts, &Parameter::value, name);
    group.weight.gradient = spanned(parts, &Parameter::gradient, name);
  }
}

}  // namespace tessera
