// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/data/flat_buffers.h"

#include <algorithm>

#include "framework/ops/memory.h"

namespace tessera {
namespace {

Shape box_shape(const Box& box) {
  return Shape(std::span<const int64_t>(box.extent));
}

}  // namespace

bool is_trained(const ParameterSpec& spec) {
  return spec.trainable && spec.role != Role::Buffer;
}

FlatBuffers::FlatBuffers(ParameterStore& store, Backend& backend, const FlatBufferOptions& options)
    : store_(store), backend_(backend), options_(options) {
  lay_out();
  for (Bucket& bucket : buckets_) allocate(bucket);
  for (size_t i = 0; i < places_.size(); ++i)
    add_range(store.parameters()[i], places_[i].bucket, places_[i].begin);
  for (int bucket = 0; bucket < static_cast<int>(buckets_.size()); ++bucket) bind(bucket);
}

// Buckets from the last unit down, each closed once it is large enough or its stage ends; a tensor that two
// stages use has its own. Returns the bucket of each unit, -1 where the unit has nothing here.
std::vector<int> FlatBuffers::assign_units() {
  std::vector<int64_t> elements(stage_of_unit_.size());
  for (const Parameter& parameter : store_.parameters())
    if (!crosses_stages(parameter.spec))
      elements[static_cast<size_t>(parameter.spec.unit)] += parameter.box.elements();
  // Parameters that come and go do so unit by unit.
  const int64_t bytes = options_.stage == ZeroStage::Parameters ? 1 : options_.bucket_bytes;
  const int64_t most = std::max<int64_t>(1, bytes / size_of(options_.gradient));
  std::vector<int> bucket_of(elements.size(), -1);
  int64_t filled = 0;
  for (size_t unit = elements.size(); unit-- > 0;) {
    if (elements[unit] == 0) continue;
    const int stage = stage_of_unit_[unit];
    if (buckets_.empty() || buckets_.back().stage != stage || filled + elements[unit] > most) {
      buckets_.push_back({.stage = stage});
      filled = 0;
    }
    filled += elements[unit];
    bucket_of[unit] = static_cast<int>(buckets_.size()) - 1;
    buckets_.back().first_unit = static_cast<int>(unit);
  }
  return bucket_of;
}

bool FlatBuffers::crosses_stages(const ParameterSpec& spec) const {
  return spec.second_unit && stage_of_unit_[static_cast<size_t>(spec.unit)] !=
                                 stage_of_unit_[static_cast<size_t>(*spec.second_unit)];
}

// Which bucket, and where in it, each parameter lies; how large the buckets are.
void FlatBuffers::lay_out() {
  stage_of_unit_ = options_.stage_of_unit;
  if (stage_of_unit_.empty())
    for (const Parameter& parameter : store_.parameters()) {
      const auto units =
          static_cast<size_t>(std::max(parameter.spec.unit, parameter.spec.second_unit.value_or(0)));
      stage_of_unit_.resize(std::max(stage_of_unit_.size(), units + 1));
    }
  const std::vector<int> bucket_of = assign_units();
  of_unit_.resize(stage_of_unit_.size());
  const auto add_user = [&](int unit, int bucket) {
    std::vector<int>& users = of_unit_[static_cast<size_t>(unit)];
    if (std::find(users.begin(), users.end(), bucket) == users.end()) users.push_back(bucket);
  };
  for (const Parameter& parameter : store_.parameters()) {
    const ParameterSpec& spec = parameter.spec;
    int index = bucket_of[static_cast<size_t>(spec.unit)];
    if (crosses_stages(spec)) {
      index = static_cast<int>(buckets_.size());
      buckets_.push_back(
          {.stage = stage_of_unit_[static_cast<size_t>(spec.unit)], .first_unit = spec.unit, .tied = true});
    }
    if (index < 0) index = 0;  // a parameter without elements
    Bucket& bucket = buckets_.at(static_cast<size_t>(index));
    parameters_of_.resize(buckets_.size());
    parameters_of_[static_cast<size_t>(index)].push_back(places_.size());
    places_.push_back({index, bucket.used});
    bucket.used += parameter.box.elements();
    add_user(spec.unit, index);
    if (spec.second_unit) add_user(*spec.second_unit, index);
  }
  for (Bucket& bucket : buckets_) {
    const int64_t each = (bucket.used + options_.shards - 1) / options_.shards;
    bucket.elements = each * options_.shards;
    bucket.shard = {options_.shard * each, (options_.shard + 1) * each};
  }
}

void FlatBuffers::allocate(Bucket& bucket) {
  const auto part = [&](const Tensor& whole) {
    return whole.narrow(bucket.shard.begin, bucket.shard.size());
  };
  // Padding is read by sums and written by nobody, so buffers that have it start at zero.
  const auto buffer = [&](DType dtype, int64_t elements) {
    return options_.shards > 1 ? zeros(backend_, dtype, {elements}) : empty(backend_, dtype, {elements});
  };
  if (options_.stage == ZeroStage::Parameters) {
    bucket.value_shard = buffer(options_.compute, bucket.shard.size());
  } else {
    bucket.values = buffer(options_.compute, bucket.elements);
    bucket.value_shard = part(bucket.values);
  }
  if (!options_.gradients) return;
  const DType master = statistics_type(options_.compute);
  bucket.masters = options_.compute == master ? bucket.value_shard : buffer(master, bucket.shard.size());
  if (options_.gradients_leave) {
    bucket.gradient_shard = zeros(backend_, options_.gradient, {bucket.shard.size()});
  } else {
    bucket.gradients = zeros(backend_, options_.gradient, {bucket.elements});
    bucket.gradient_shard = part(bucket.gradients);
  }
}

// The part of a parameter, at `begin` of its bucket, that lies in this rank's shard.
void FlatBuffers::add_range(const Parameter& parameter, int index, int64_t begin) {
  const Bucket& bucket = buckets_[static_cast<size_t>(index)];
  const Range shard = bucket.shard;
  const int64_t first = std::max(begin, shard.begin);
  const int64_t last = std::min(begin + parameter.box.elements(), shard.end);
  if (first >= last) return;
  const auto part = [&](const Tensor& of_shard) {
    return of_shard.defined() ? of_shard.narrow(first - shard.begin, last - first) : Tensor();
  };
  ParameterShard range{.parameter = &parameter,
                       .value = part(bucket.value_shard),
                       .master = part(bucket.masters),
                       .gradient = {},
                       .begin = first - begin};
  if (is_trained(parameter.spec) && options_.gradients) {
    range.gradient = part(bucket.gradient_shard);
    shards_.push_back(range);
  }
  ranges_.push_back(range);
}

// Points the bucket's parameters, and the weights made of them, at what the bucket holds.
void FlatBuffers::bind(int index) {
  const Bucket& bucket = buckets_[static_cast<size_t>(index)];
  const std::vector<size_t>& parameters = parameters_of_[static_cast<size_t>(index)];
  const bool whole_masters = bucket.shard.size() == bucket.elements;
  for (const size_t i : parameters) {
    Parameter& parameter = store_.parameters()[i];
    const Shape shape = box_shape(parameter.box);
    const auto view = [&](const Tensor& whole) {
      return whole.defined() ? whole.narrow(places_[i].begin, shape.elements()).reshape(shape) : Tensor();
    };
    parameter.value = view(bucket.values);
    parameter.master = whole_masters ? view(bucket.masters) : Tensor();
    parameter.gradient = is_trained(parameter.spec) ? view(bucket.gradients) : Tensor();
  }
  store_.refresh_weights(parameters);
}

void FlatBuffers::clear_gradients() {
  for (Bucket& bucket : buckets_)
    backend_.fill(options_.gradients_leave ? bucket.gradient_shard : bucket.gradients, 0);
}

void FlatBuffers::hold_gradients(int index) {
  Bucket& bucket = buckets_[static_cast<size_t>(index)];
  if (bucket.gradients.defined()) return;
  bucket.gradients = zeros(backend_, options_.gradient, {bucket.elements});
  bind(index);
}

Tensor FlatBuffers::take_gradients(int index) {
  Bucket& bucket = buckets_[static_cast<size_t>(index)];
  const Tensor whole = std::exchange(bucket.gradients, {});
  bind(index);
  return whole;
}

void FlatBuffers::set_values(int index, const Tensor& whole) {
  buckets_[static_cast<size_t>(index)].values = whole;
  bind(index);
}

void FlatBuffers::refresh_values() {
  for (Bucket& bucket : buckets_)
    if (bucket.value_shard.dtype() != bucket.masters.dtype())
      backend_.copy(bucket.masters, bucket.value_shard);
}

namespace {

// A box of a logical matrix, or of a vector as one row: logical rows are `pitch` apart.
void initialise_box(const ParameterSpec& spec, const Box& box, const Tensor& flat, Backend& backend,
                    uint64_t seed) {
  const bool vector = spec.shape.rank() < 2;
  const int64_t pitch = vector ? spec.shape.elements() : spec.shape[1];
  const int64_t columns = vector ? flat.elements() : box.extent[1];
  const int64_t first =
      vector ? (box.offset.empty() ? 0 : box.offset[0]) : box.offset[0] * pitch + box.offset[1];
  backend.init_normal({.value = flat.reshape({flat.elements() / columns, columns}),
                       .key = random_key(seed, spec.name),
                       .std = spec.init.std,
                       .first_index = first,
                       .row_pitch = pitch});
}

void initialise_range(const ParameterShard& range, Backend& backend, uint64_t seed) {
  const Parameter& parameter = *range.parameter;
  switch (parameter.spec.init.kind) {
    case Init::Kind::Zeros:
      backend.fill(range.master, 0);
      return;
    case Init::Kind::Ones:
      backend.fill(range.master, 1);
      return;
    case Init::Kind::Normal:
      break;
  }
  CHECK(parameter.spec.shape.rank() <= 2, "{}: initialisation of a tensor with {} dimensions",
        parameter.spec.name, parameter.spec.shape.rank());
  int64_t done = 0;
  for (Box box :
       boxes_of_flat_range(box_shape(parameter.box), range.begin, range.begin + range.master.elements())) {
    for (size_t d = 0; d < box.offset.size(); ++d) box.offset[d] += parameter.box.offset[d];
    initialise_box(parameter.spec, box, range.master.narrow(done, box.elements()), backend, seed);
    done += box.elements();
  }
}

}  // namespace

void initialise(FlatBuffers& buffers, Backend& backend, uint64_t seed) {
  for (const ParameterShard& range : buffers.ranges()) initialise_range(range, backend, seed);
  buffers.refresh_values();
}

}  // namespace tessera
