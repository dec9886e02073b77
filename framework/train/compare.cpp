// SPDX-License-Identifier: Apache-2.0
#include "framework/train/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "framework/config/resolve.h"
#include "framework/ops/memory.h"
#include "framework/optim/gradient_norm.h"

namespace tessera {
namespace {

// One pair of runs is a sample of what rounding does.
constexpr double kGrowthMargin = 2;
// Host bytes a parameter: the reference's step and its largest gradients; a layout's allowance.
constexpr int64_t kReferenceBytes = 16, kLayoutBytes = 8;

double relative(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::abs(a - b) / std::abs(b);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

// What the reference's last step left.
struct ReferenceStep {
  struct Tensors {
    std::vector<float> gradient, weight;
    std::vector<float> largest;  // clipped gradient of each element so far
  };
  StepNumbers numbers;
  double clip = 1;
  int64_t updates = 0;
  std::vector<Tensors> tensors;
};

class Reference {
 public:
  Reference(const CompareRequest& request, const ModelDefinition& model)
      : clip_(request.layouts[0].config.train.grad_clip),
        run_(request.layouts[0].config, model, hooks(request)) {
    step_.tensors.resize(model.parameters.size());
  }

  void advance() {
    bool first = true;
    step_.numbers = run_.show([&](const StepNumbers& numbers, LogicalTensor& tensor) {
      if (std::exchange(first, false)) begin(numbers, !tensor.gradient.empty());
      ReferenceStep::Tensors& kept = step_.tensors[tensor.index];
      CHECK_AS(ExitCode::Numeric, tensor.disagreement.empty(),
               "the reference layout is at odds with itself: {}: {}", tensor.spec->name, tensor.disagreement);
      kept.gradient = std::move(tensor.gradient);
      kept.weight = std::move(tensor.weight);
      kept.largest.resize(kept.gradient.size());
      for (size_t i = 0; i < kept.gradient.size(); ++i)
        kept.largest[i] =
            std::max(kept.largest[i], static_cast<float>(std::abs(kept.gradient[i] * step_.clip)));
    });
  }
  const ReferenceStep& step() const { return step_; }

 private:
  static CompareHooks hooks(const CompareRequest& request) {
    CompareHooks hooks{.prepare = {}, .edit = request.edit};
    if (request.prepare) hooks.prepare = [&request](Rank& rank) { request.prepare(0, rank); };
    return hooks;
  }
  void begin(const StepNumbers& numbers, bool stepped) {
    step_.clip = clip_factor(numbers.grad_norm, clip_);
    if (stepped && numbers.updated) ++step_.updates;
  }

  double clip_;
  ReferenceStep step_;
  SteppedRun run_;
};

// Changes every weight by one unit in the last place of the compute type, up or down. The direction is a
// function of name and value, so copies stay copies.
void shake(Rank& rank, FloatType compute) {
  const double unit = 2 * unit_roundoff(compute);
  for (const Parameter& parameter : rank.store().parameters()) {
    const RandomKey key = random_key(0, parameter.spec.name);
    std::vector<float> values = to_host<float>(rank.backend(), parameter.master);
    for (float& value : values) {
      const bool up = (philox(key, std::bit_cast<uint32_t>(value))[0] & 1) != 0;
      value = static_cast<float>(value * (up ? 1 + unit : 1 - unit));
    }
    rank.backend().upload(std::as_bytes(std::span(values)), parameter.master);
  }
  rank.buffers().refresh_values();
}

// The reference once more with its weights shaken: how much farther apart rounding takes two runs in each
// step than in the first.
class Twin {
 public:
  Twin(const CompareRequest& request, const ModelDefinition& model)
      : run_(request.layouts[0].config, model,
             {.prepare =
                  [&request](Rank& rank) {
                    if (request.prepare) request.prepare(0, rank);
                    shake(rank, request.layouts[0].config.precision.compute);
                  },
              .edit = request.edit}) {}

  // Not below that of an earlier step.
  double growth(const ReferenceStep& reference) {
    double distance = 0;
    run_.show([&](const StepNumbers&, LogicalTensor& tensor) {
      if (tensor.gradient.empty()) return;
      const Difference d = difference(tensor.gradient, reference.tensors[tensor.index].gradient);
      const double scale = comparison_scale(d.size, reference.numbers.grad_norm);
      if (scale > 0 && std::isfinite(d.distance)) distance = std::max(distance, d.distance / scale);
    });
    if (first_ == 0) first_ = distance;
    if (first_ > 0) growth_ = std::max(growth_, distance / first_);
    return growth_;
  }

 private:
  double first_ = 0, growth_ = 1;
  SteppedRun run_;
};

class Candidate {
 public:
  Candidate(const CompareRequest& request, size_t number, const ModelDefinition& model,
            const std::vector<double>& growth)
      : layout_(request.layouts[number]),
        growth_(growth),
        base_(first_step_tolerance(
            narrower(layout_.config.precision.compute, request.layouts[0].config.precision.compute),
            layout_.config.model.num_hidden_layers)),
        allowance_(layout_.config.optimizer, model.parameters.size()),
        run_(layout_.config, model, hooks(request, number)) {
    result_.name = layout_.name;
    result_.ranks = mesh_ranks(layout_.config);
  }

  void advance(int step, const ReferenceStep& reference) {
    fault_ = {.step = step};
    now_ = {.tolerance = tolerance(step)};
    const StepNumbers numbers = run_.show(
        [&](const StepNumbers& made, LogicalTensor& tensor) { compare(step, made, tensor, reference); });
    if (step > 0) compare_numbers(numbers, reference);
    const bool wrong = fault_.tokens || fault_.finite || fault_.loss || fault_.norm || fault_.first;
    if (wrong && !result_.fault) result_.fault = fault_;
  }
  LayoutComparison take() { return std::move(result_); }

 private:
  static CompareHooks hooks(const CompareRequest& request, size_t number) {
    CompareHooks hooks{.prepare = {}, .edit = request.edit};
    if (request.prepare) hooks.prepare = [&request, number](Rank& rank) { request.prepare(number, rank); };
    return hooks;
  }
  Tolerance tolerance(int step) const {
    const double growth = step > 1 ? kGrowthMargin * growth_[static_cast<size_t>(step) - 1] : 1;
    return {.gradient = base_.gradient * growth, .loss = base_.loss, .norm = base_.norm * growth};
  }

  void compare_numbers(const StepNumbers& numbers, const ReferenceStep& reference);
  void compare(int step, const StepNumbers& made, const LogicalTensor& tensor,
               const ReferenceStep& reference);
  void compare_initial(const LogicalTensor& tensor, const ReferenceStep::Tensors& expected);
  void compare_gradient(const LogicalTensor& tensor, const ReferenceStep& reference);
  void compare_weight(const StepNumbers& made, const LogicalTensor& tensor, const ReferenceStep& reference);
  void note(TensorFault fault);

  const CompareLayout& layout_;
  const std::vector<double>& growth_;
  Tolerance base_;
  WeightAllowance allowance_;
  LayoutComparison result_;
  LayoutFault fault_;
  StepComparison now_;
  SteppedRun run_;
};

void Candidate::compare_numbers(const StepNumbers& numbers, const ReferenceStep& reference) {
  now_.loss = relative(numbers.loss, reference.numbers.loss);
  now_.norm = relative(numbers.grad_norm, reference.numbers.grad_norm);
  fault_.tokens = numbers.tokens != reference.numbers.tokens;
  fault_.finite = numbers.finite != reference.numbers.finite;
  fault_.loss = now_.loss > now_.tolerance.loss;
  fault_.norm = now_.norm > now_.tolerance.norm;
  result_.numbers.push_back(numbers);
  result_.steps.push_back(now_);
}

void Candidate::compare(int step, const StepNumbers& made, const LogicalTensor& tensor,
                        const ReferenceStep& reference) {
  if (!tensor.disagreement.empty()) {
    ++(tensor.gradients_disagree ? fault_.gradients : fault_.weights);
    const Slot changed = tensor.gradients_disagree ? Slot::Gradient : Slot::Weight;
    note({.slot = step > 0 ? changed : Slot::InitialWeight,
          .name = tensor.spec->name,
          .disagreement = tensor.disagreement,
          .suspicion = {}});
    return;
  }
  if (step == 0) return compare_initial(tensor, reference.tensors[tensor.index]);
  // A step that is skipped for its overflow has nothing to compare.
  if (!made.finite && !reference.numbers.finite) return;
  if (!tensor.gradient.empty()) compare_gradient(tensor, reference);
  compare_weight(made, tensor, reference);
}

void Candidate::compare_initial(const LogicalTensor& tensor, const ReferenceStep::Tensors& expected) {
  const Difference d = difference(tensor.weight, expected.weight);
  if (d.bitwise) return;
  result_.initial_equal = false;
  // Bits must be equal: whatever lies beyond the last one of an element is a difference.
  const double bound = std::ldexp(d.size, -22) + 1e-30;
  note({.slot = Slot::InitialWeight,
        .name = tensor.spec->name,
        .difference = d.distance / std::max(d.size, 1e-30),
        .bound = 0,
        .disagreement = {},
        .suspicion = suspect({*tensor.spec, tensor.weight, expected.weight, tensor.boxes, bound})});
}

void Candidate::compare_gradient(const LogicalTensor& tensor, const ReferenceStep& reference) {
  const std::vector<float>& expected = reference.tensors[tensor.index].gradient;
  const Difference d = difference(tensor.gradient, expected);
  const double scale = comparison_scale(d.size, reference.numbers.grad_norm);
  const double measured = scale > 0 ? d.distance / scale : d.distance > 0 ? INFINITY : 0;
  if (!(measured <= now_.gradient)) {
    now_.gradient = measured;
    now_.worst_gradient = tensor.spec->name;
  }
  if (measured <= now_.tolerance.gradient) return;
  ++fault_.gradients;
  note({.slot = Slot::Gradient,
        .name = tensor.spec->name,
        .difference = measured,
        .bound = now_.tolerance.gradient,
        .disagreement = {},
        .suspicion = suspect(
            {*tensor.spec, tensor.gradient, expected, tensor.boxes, now_.tolerance.gradient * scale})});
}

void Candidate::compare_weight(const StepNumbers& made, const LogicalTensor& tensor,
                               const ReferenceStep& reference) {
  const ReferenceStep::Tensors& expected = reference.tensors[tensor.index];
  if (made.updated && !tensor.gradient.empty())
    allowance_.add({.parameter = tensor.index,
                    .gradient = tensor.gradient,
                    .reference = expected.gradient,
                    .factor = clip_factor(made.grad_norm, layout_.config.train.grad_clip),
                    .reference_factor = reference.clip,
                    .largest = expected.largest,
                    .learning_rate = made.learning_rate,
                    .updates = reference.updates});
  const Difference d = difference(tensor.weight, expected.weight);
  const double bound = allowance_.bound(tensor.index, expected.weight), size = std::max(d.size, 1e-30);
  now_.weight = std::max(now_.weight, d.distance / bound);
  if (d.distance <= bound) return;
  ++fault_.weights;
  note({.slot = Slot::Weight,
        .name = tensor.spec->name,
        .difference = d.distance / size,
        .bound = bound / size,
        .disagreement = {},
        .suspicion = suspect({*tensor.spec, tensor.weight, expected.weight, tensor.boxes, bound})});
}

// Model order within a slot; a gradient comes before any weight, for it is the cause.
void Candidate::note(TensorFault fault) {
  const bool earlier = fault_.first && fault_.first->slot == Slot::Weight && fault.slot == Slot::Gradient;
  if (!fault_.first || earlier) fault_.first = fault;
  if (!fault_.last || earlier || fault_.last->slot == fault.slot) fault_.last = std::move(fault);
}

// The layouts [first, end) beside the reference.
void run_group(const CompareRequest& request, const std::vector<ModelDefinition>& models, size_t first,
               size_t end, CompareResult& result) {
  Reference reference(request, models[0]);
  Twin twin(request, models[0]);
  result.numbers.clear();
  result.growth.clear();
  std::vector<std::unique_ptr<Candidate>> candidates;
  for (size_t i = first; i < end; ++i)
    candidates.push_back(std::make_unique<Candidate>(request, i, models[i], result.growth));
  for (int step = 0; step <= request.steps; ++step) {
    reference.advance();
    const double growth = twin.growth(reference.step());
    if (step > 0) {
      result.numbers.push_back(reference.step().numbers);
      result.growth.push_back(growth);
    }
    for (const auto& candidate : candidates) candidate->advance(step, reference.step());
  }
  for (const auto& candidate : candidates) result.layouts.push_back(candidate->take());
}

int64_t host_bytes(const ModelDefinition& model, int64_t each) {
  int64_t elements = 0;
  for (const ParameterSpec& spec : model.parameters) elements += spec.shape.elements();
  return elements * each;
}

}  // namespace

const char* name_of(Slot slot) {
  switch (slot) {
    case Slot::InitialWeight:
      return "initial weight";
    case Slot::Gradient:
      return "gradient";
    case Slot::Weight:
      break;
  }
  return "weight";
}

bool CompareResult::agree() const {
  return std::none_of(layouts.begin(), layouts.end(),
                      [](const LayoutComparison& layout) { return layout.fault.has_value(); });
}

CompareResult compare_layouts(const CompareRequest& request) {
  CHECK(request.layouts.size() >= 2, "{} layouts to compare", request.layouts.size());
  std::vector<ModelDefinition> models;
  for (const CompareLayout& layout : request.layouts) models.push_back(request.define(layout.config));
  CompareResult result{.reference = request.layouts[0].name,
                       .reference_ranks = mesh_ranks(request.layouts[0].config),
                       .parameters = models[0].parameters.size()};
  const int64_t fixed = 2 * request.layouts[0].bytes + host_bytes(models[0], kReferenceBytes);
  // As many layouts side by side as there is memory for; at least one.
  for (size_t first = 1, end = 1; first < request.layouts.size(); first = end) {
    int64_t bytes = fixed;
    const auto more = [&] { return request.layouts[end].bytes + host_bytes(models[end], kLayoutBytes); };
    while (end < request.layouts.size() &&
           (end == first || request.free_bytes == 0 || bytes + more() <= request.free_bytes))
      bytes += more(), ++end;
    CHECK_AS(ExitCode::Usage, request.free_bytes == 0 || bytes <= request.free_bytes,
             "\"{}\" and \"{}\" side by side would need {:.2f} GiB and {:.2f} GiB are free: --shrink makes a "
             "small "
             "copy of the model, and --threads-anyway starts them all the same",
             result.reference, request.layouts[first].name, static_cast<double>(bytes) / (1 << 30),
             static_cast<double>(request.free_bytes) / (1 << 30));
    run_group(request, models, first, end, result);
  }
  return result;
}

}  // namespace tessera
