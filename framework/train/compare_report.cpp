// SPDX-License-Identifier: Apache-2.0
#include "framework/train/compare_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

double largest_loss_difference(const LayoutComparison& layout) {
  double largest = 0;
  for (const StepComparison& step : layout.steps) largest = std::max(largest, step.loss);
  return largest;
}

std::string verdict(const LayoutComparison& layout) {
  if (!layout.fault) return "agrees";
  return layout.fault->step == 0 ? "DIFFERS before the first step"
                                 : fmt::format("DIFFERS in step {}", layout.fault->step);
}

std::string tensor_text(const TensorFault& tensor) {
  const std::string what = fmt::format("{} of {}", name_of(tensor.slot), tensor.name);
  if (!tensor.disagreement.empty()) return fmt::format("{}: {}", what, tensor.disagreement);
  const std::string sizes =
      tensor.slot == Slot::InitialWeight
          ? fmt::format("{:.2e} apart, and must be bitwise equal", tensor.difference)
          : fmt::format("{:.2e} apart, {:.1e} is rounding", tensor.difference, tensor.bound);
  return fmt::format("{}: {}\n      looks like {}: {}", what, sizes,
                     tensor.suspicion.rounding ? "rounding" : "a fault", tensor.suspicion.text);
}

std::string fault_text(const LayoutComparison& layout, size_t parameters) {
  const LayoutFault& fault = *layout.fault;
  std::string text;
  const auto line = [&](const std::string& what) { text += "    " + what + "\n"; };
  if (fault.tokens) line("another number of tokens is trained: the layouts read different data");
  if (fault.finite) line("loss and gradients are finite on one side only");
  if (fault.step > 0) {
    const StepComparison& step = layout.steps[static_cast<size_t>(fault.step) - 1];
    if (fault.loss)
      line(fmt::format("loss: {:.2e} apart, {:.1e} is rounding", step.loss, step.tolerance.loss));
    if (fault.norm)
      line(fmt::format("gradient norm: {:.2e} apart, {:.1e} is rounding", step.norm, step.tolerance.norm));
  }
  if (fault.first) line(tensor_text(*fault.first));
  if (fault.gradients + fault.weights > 1)
    line(fmt::format("{} of {} gradients and {} weights differ", fault.gradients, parameters, fault.weights));
  if (fault.last && fault.gradients > 1)
    line("the last in model order, which backward makes first: " + tensor_text(*fault.last));
  return text;
}

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json tensor_json(const TensorFault& tensor) {
  Json json = {{"tensor", tensor.name}, {"slot", name_of(tensor.slot)}};
  if (!tensor.disagreement.empty()) {
    json["disagreement"] = tensor.disagreement;
    return json;
  }
  json["difference"] = number_or_null(tensor.difference);
  json["bound"] = tensor.bound;
  json["looks_like"] = tensor.suspicion.rounding ? "rounding" : "fault";
  json["pattern"] = tensor.suspicion.text;
  if (tensor.suspicion.factor) json["factor"] = *tensor.suspicion.factor;
  if (tensor.suspicion.rank) json["rank"] = *tensor.suspicion.rank;
  if (tensor.suspicion.head) json["head"] = *tensor.suspicion.head;
  if (tensor.suspicion.rows) {
    json["dim"] = tensor.suspicion.dim;
    json["rows"] = {tensor.suspicion.rows->begin, tensor.suspicion.rows->end};
  }
  return json;
}

Json fault_json(const LayoutFault& fault) {
  Json json = {{"step", fault.step},      {"tokens", fault.tokens},  {"finite", fault.finite},
               {"loss", fault.loss},      {"grad_norm", fault.norm}, {"gradients", fault.gradients},
               {"weights", fault.weights}};
  json["first"] = fault.first ? tensor_json(*fault.first) : Json();
  json["last"] = fault.last ? tensor_json(*fault.last) : Json();
  return json;
}

Json steps_json(const LayoutComparison& layout) {
  Json steps = Json::array();
  for (size_t i = 0; i < layout.steps.size(); ++i) {
    const StepComparison& step = layout.steps[i];
    steps.push_back({{"step", i + 1},
                     {"loss", number_or_null(layout.numbers[i].loss)},
                     {"loss_difference", number_or_null(step.loss)},
                     {"norm_difference", number_or_null(step.norm)},
                     {"gradient_difference", number_or_null(step.gradient)},
                     {"gradient_bound", step.tolerance.gradient},
                     {"worst_gradient", step.worst_gradient},
                     {"weight_share_of_bound", number_or_null(step.weight)}});
  }
  return steps;
}

}  // namespace

std::string compare_text(const CompareResult& result) {
  size_t width = 6;
  for (const LayoutComparison& layout : result.layouts) width = std::max(width, layout.name.size());
  std::string text =
      fmt::format("reference: {}; {} tensors, {} step{}\n\n", result.reference, result.parameters,
                  result.numbers.size(), result.numbers.size() == 1 ? "" : "s");
  text += fmt::format("{:<{}}  ranks  initial  gradients  losses   norm     verdict\n", "layout", width);
  for (const LayoutComparison& layout : result.layouts) {
    const StepComparison& first = layout.steps.front();
    text += fmt::format("{:<{}}  {:>5}  {:<7}  {:<9.1e}  {:<7.1e}  {:<7.1e}  {}\n", layout.name, width,
                        layout.ranks, layout.initial_equal ? "bitwise" : "differs", first.gradient,
                        largest_loss_difference(layout), first.norm, verdict(layout));
    if (layout.fault) text += fault_text(layout, result.parameters);
  }
  text +=
      "\nrelative differences from the reference: the worst gradient of step 1, the losses of all steps, the "
      "gradient\n"
      "norm of step 1; docs/parallelism.md says what rounding explains\n";
  return text;
}

std::string compare_json(const CompareResult& result, const std::vector<ConfigDifference>& shrunk) {
  Json json = {{"agree", result.agree()},
               {"reference", result.reference},
               {"reference_ranks", result.reference_ranks},
               {"tensors", result.parameters},
               {"steps", result.numbers.size()},
               {"rounding_growth", result.growth}};
  json["reference_losses"] = Json::array();
  for (const StepNumbers& step : result.numbers)
    json["reference_losses"].push_back(number_or_null(step.loss));
  json["layouts"] = Json::array();
  for (const LayoutComparison& layout : result.layouts) {
    Json entry = {{"layout", layout.name},
                  {"ranks", layout.ranks},
                  {"agrees", !layout.fault},
                  {"initial_bitwise", layout.initial_equal},
                  {"gradient_difference", number_or_null(layout.steps.front().gradient)},
                  {"loss_difference", number_or_null(largest_loss_difference(layout))},
                  {"norm_difference", number_or_null(layout.steps.front().norm)}};
    entry["fault"] = layout.fault ? fault_json(*layout.fault) : Json();
    entry["by_step"] = steps_json(layout);
    json["layouts"].push_back(entry);
  }
  json["shrunk"] = Json::array();
  for (const ConfigDifference& change : shrunk)
    json["shrunk"].push_back({{"key", change.key}, {"before", change.before}, {"after", change.after}});
  return json.dump() + "\n";
}

}  // namespace tessera
