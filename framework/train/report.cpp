// SPDX-License-Identifier: Apache-2.0
#include "framework/train/report.h"

#include "framework/parallel/pipeline/schedule.h"
#include "framework/train/rank.h"

namespace tessera {
namespace {

std::string init_text(const Init& init) {
  switch (init.kind) {
    case Init::Kind::Zeros:
      return "zeros";
    case Init::Kind::Ones:
      return "ones";
    case Init::Kind::Normal:
      break;
  }
  return fmt::format("normal({:.6g})", init.std);
}

constexpr Axis kAxes[] = {Axis::Tensor,       Axis::Sequence, Axis::Data,      Axis::Pipeline,
                          Axis::ExpertTensor, Axis::Expert,   Axis::ExpertData};

std::string axes_text(AxisSet axes) {
  std::string text;
  for (const Axis axis : kAxes)
    if (axes.contains(axis)) text += (text.empty() ? "" : "*") + std::string(name_of(axis));
  return text.empty() ? "-" : text;
}

std::string placement_text(const ShardSpec& shard) {
  std::string text;
  for (const ShardSpec::Split& split : shard.splits)
    text += fmt::format("{}dim {} over {}", text.empty() ? "" : ", ", split.dim, name_of(split.axis));
  return text.empty() ? "copies" : text;
}

}  // namespace

std::string parameter_report(const RunConfig& config, const ModelDefinition& model) {
  std::string text = fmt::format("# {} ; owner in the gradient norm: the rank with dp = sp = 0 of each box\n",
                                 make_layout(mesh_sizes(config.parallel)).dense.to_string());
  text += fmt::format("{:<40} {:<16} {:<10} {:>4}  {:<16} {:<5} {:<16} {}\n", "# name", "shape", "role",
                      "unit", "start", "decay", "placement", "gradient summed over");
  int64_t total = 0;
  for (const ParameterSpec& spec : model.parameters) {
    total += spec.shape.elements();
    text += fmt::format("{:<40} {:<16} {:<10} {:>4}  {:<16} {:<5} {:<16} {}\n", spec.name,
                        spec.shape.to_string(), name_of(spec.role), spec.unit, init_text(spec.init),
                        spec.decays() ? "yes" : "no", placement_text(spec.shard),
                        spec.trainable ? axes_text(spec.shard.partial_gradient) : "frozen");
  }
  return text + fmt::format("# {} parameters\n", total);
}

std::string schedule_report(const RunConfig& config, const ModelDefinition& model) {
  const int microbatches = static_cast<int>(config.train.gradient_accumulation_steps);
  std::string text = "# actions of each rank in a step: stage, kind, micro-batch; ";
  text += fmt::format("{} units, {} micro-batches\n", model.unit_count(), microbatches);
  text += to_text(one_stage(microbatches));
  text += "# learning rate: step, rate\n";
  const LearningRateOptions options = learning_rate_options(config);
  for (int64_t step = 0; step < config.train.steps; ++step)
    text += fmt::format("{} {}\n", step + 1, learning_rate(options, Steps(step)));
  return text;
}

}  // namespace tessera
