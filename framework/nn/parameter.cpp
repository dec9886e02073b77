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
    weights_.push_back({.trainable = added.trainable});
    group_of_.emplace_back();
    if (!added.fused.empty()) add_to_group(index);
  }
  for (const Group& group : groups_)
    CHECK(!contains(group.mark), "parameter {} has the name of a fused group", group.mark);
}

// Opens the group of the parameter's mark where it is not open.
void ParameterStore::add_to_group(size_t index) {
  const Parameter& part = parameters_[index];
  const std::string& mark = part.spec.fused;
  const auto [found, opened] = index_of_mark_.emplace(mark, groups_.size());
  group_of_[index] = found->second;
  if (opened) {
    groups_.push_back({mark, index, 1, {.trainable = part.spec.trainable}});
    return;
  }
  Group& group = groups_[found->second];
  const Parameter& first = parameters_[group.first];
  CHECK(group.first + group.count == index,
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
  if (const auto found = index_.find(name_or_mark); found != index_.end()) return weights_[found->second];
  const auto found = index_of_mark_.find(name_or_mark);
  CHECK(found != index_of_mark_.end(), "there is no parameter or fused group {}", name_or_mark);
  return groups_[found->second].weight;
}

void ParameterStore::refresh_weights(std::span<const size_t> parameters) {
  const Group* last = nullptr;
  for (const size_t index : parameters) {
    weights_[index].value = parameters_[index].value;
    weights_[index].gradient = parameters_[index].gradient;
    if (!group_of_[index]) continue;
    Group& group = groups_[*group_of_[index]];
    if (std::exchange(last, &group) == &group) continue;  // with the part before
    const auto parts = std::span<const Parameter>(parameters_).subspan(group.first, group.count);
    group.weight.value = spanned(parts, &Parameter::value, group.mark);
    group.weight.gradient = spanned(parts, &Parameter::gradient, group.mark);
  }
}

}  // namespace tessera
