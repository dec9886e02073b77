// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/data/flat_buffers.h"

#include "framework/ops/memory.h"

namespace tessera {
namespace {

Shape box_shape(const Box& box) {
  return Shape(std::span<const int64_t>(box.extent));
}

Tensor part(const Tensor& buffer, int64_t begin, int64_t count) {
  return buffer.narrow(begin, count);
}

// Buckets from the last unit down, each closed once it is large enough. Returns the bucket of each unit.
std::vector<size_t> assign_units(const std::vector<int64_t>& unit_elements, int64_t bucket_elements) {
  std::vector<size_t> bucket_of(unit_elements.size());
  size_t bucket = 0;
  int64_t filled = 0;
  for (size_t i = unit_elements.size(); i-- > 0;) {
    if (filled > 0 && filled + unit_elements[i] > bucket_elements) {
      ++bucket;
      filled = 0;
    }
    bucket_of[i] = bucket;
    filled += unit_elements[i];
  }
  return bucket_of;
}

}  // namespace

FlatBuffers::FlatBuffers(ParameterStore& store, Backend& backend, const FlatBufferOptions& options)
    : backend_(backend) {
  int units = 0;
  for (const Parameter& parameter : store.parameters()) units = std::max(units, parameter.spec.unit + 1);
  std::vector<int64_t> unit_elements(static_cast<size_t>(units));
  for (const Parameter& parameter : store.parameters())
    unit_elements[static_cast<size_t>(parameter.spec.unit)] += parameter.box.elements();

  const std::vector<size_t> bucket_of =
      assign_units(unit_elements, std::max<int64_t>(1, options.bucket_bytes / size_of(options.gradient)));
  buckets_.resize(bucket_of.empty() ? 0 : bucket_of.front() + 1);
  for (size_t unit = bucket_of.size(); unit-- > 0;) {
    buckets_[bucket_of[unit]].elements += unit_elements[unit];
    buckets_[bucket_of[unit]].first_unit = static_cast<int>(unit);
  }

  const DType master = statistics_type(options.compute);
  for (Bucket& bucket : buckets_) {
    bucket.values = empty(backend, options.compute, {bucket.elements});
    if (!options.gradients) continue;
    bucket.masters = options.compute == master ? bucket.values : empty(backend, master, {bucket.elements});
    bucket.gradients = zeros(backend, options.gradient, {bucket.elements});
  }
  bind(store, bucket_of);
}

void FlatBuffers::bind(ParameterStore& store, const std::vector<size_t>& bucket_of) {
  std::vector<int64_t> filled(buckets_.size());
  for (Parameter& parameter : store.parameters()) {
    const size_t index = bucket_of[static_cast<size_t>(parameter.spec.unit)];
    const Bucket& bucket = buckets_[index];
    const int64_t begin = filled[index], count = parameter.box.elements();
    filled[index] += count;
    const Shape shape = box_shape(parameter.box);
    const Tensor value = part(bucket.values, begin, count);
    parameter.value = value.reshape(shape);
    if (!bucket.masters.defined()) continue;
    const Tensor master = part(bucket.masters, begin, count);
    parameter.master = master.reshape(shape);
    if (!parameter.spec.trainable || parameter.spec.role == Role::Buffer) continue;
    const Tensor gradient = part(bucket.gradients, begin, count);
    parameter.gradient = gradient.reshape(shape);
    shards_.push_back({.parameter = &parameter, .value = value, .master = master, .gradient = gradient});
  }
  store.refresh_weights();
}

void FlatBuffers::clear_gradients() {
  for (Bucket& bucket : buckets_) backend_.fill(bucket.gradients, 0);
}

void FlatBuffers::refresh_values() {
  for (Bucket& bucket : buckets_)
    if (bucket.values.dtype() != bucket.masters.dtype()) backend_.copy(bucket.masters, bucket.values);
}

namespace {

void initialise_one(Parameter& parameter, Backend& backend, uint64_t seed) {
  const Tensor& master = parameter.master;
  switch (parameter.spec.init.kind) {
    case Init::Kind::Zeros:
      backend.fill(master, 0);
      return;
    case Init::Kind::Ones:
      backend.fill(master, 1);
      return;
    case Init::Kind::Normal:
      break;
  }
  // A box of a matrix, or a vector as one row: logical rows are row_pitch apart.
  const Shape& global = parameter.spec.shape;
  CHECK(global.rank() <= 2, "{}: initialisation of a tensor with {} dimensions", parameter.spec.name,
        global.rank());
  const bool vector = global.rank() < 2;
  const int64_t pitch = vector ? global.elements() : global[1];
  const auto& offset = parameter.box.offset;
  const int64_t first = vector ? (offset.empty() ? 0 : offset[0]) : offset[0] * pitch + offset[1];
  const Tensor matrix = vector ? master.reshape({1, master.elements()}) : master;
  backend.init_normal({.value = matrix,
                       .key = random_key(seed, parameter.spec.name),
                       .std = parameter.spec.init.std,
                       .first_index = first,
                       .row_pitch = pitch});
}

}  // namespace

void initialise(ParameterStore& store, FlatBuffers& buffers, Backend& backend, uint64_t seed) {
  for (Parameter& parameter : store.parameters()) initialise_one(parameter, backend, seed);
  buffers.refresh_values();
}

}  // namespace tessera
