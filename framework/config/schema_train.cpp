// SPDX-License-Identifier: Apache-2.0
#include "framework/config/schema_sections.h"
#include "framework/config/section_builder.h"

namespace tessera::config {
namespace {

Section train_section() {
  using Train = TrainSection;
  SectionBuilder<Train> train("train", "How much is trained in a step, and how many steps.",
                              [](RunConfig& c, size_t) -> Train& { return c.train; });
  train
      .key("micro_batch_size", &Train::micro_batch_size,
           {.presence = Presence::Derived,
            .integers = {1, kMostSamples},
            .unit = "samples",
            .default_text = "from the two other batch keys",
            .aliases = {"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
            .help = "Samples of one forward on one data rank. Changes speed and memory, never the result."})
      .key("global_batch_size", &Train::global_batch_size,
           {.presence = Presence::Derived,
            .integers = {1, kMostSamples},
            .unit = "samples",
            .default_text = "micro_batch_size * gradient_accumulation_steps * dp",
            .aliases = {"train_batch_size"},
            .help = "Samples of one step over all ranks."})
      .key("gradient_accumulation_steps", &Train::gradient_accumulation_steps,
           {.presence = Presence::Derived,
            .integers = {1, kMostSamples},
            .unit = "micro-batches",
            .default_text = "global_batch_size / (micro_batch_size * dp), rounded up",
            .help = "Micro-batches of one step on one data rank."})
      .key("seq_length", &Train::seq_length,
           {.presence = Presence::Required,
            .integers = {1, kLongestSequence},
            .unit = "tokens",
            .aliases = {"seq_len", "sequence_length", "max_seq_len", "max_seq_length"},
            .help = "Tokens of one sample."})
      .key("steps", &Train::steps,
           {.presence = Presence::Derived,
            .integers = {1, kMostSteps},
            .unit = "steps",
            .default_text = "from samples or tokens; one of the three is required",
            .aliases = {"train_iters", "max_steps", "train_steps"},
            .help = "Optimizer updates of the run."})
      .key("samples", &Train::samples,
           {.presence = Presence::Optional,
            .integers = {1, kMostTokens},
            .unit = "samples",
            .default_text = "absent: steps decides",
            .aliases = {"train_samples"},
            .help = "Samples of the run, in place of steps; rounded up to whole steps."})
      .key("tokens", &Train::tokens,
           {.presence = Presence::Optional,
            .integers = {1, kMostTokens},
            .unit = "tokens",
            .default_text = "absent: steps decides",
            .aliases = {"train_tokens"},
            .help = "Tokens of the run, in place of steps; rounded up to whole steps."})
      .key("grad_clip", &Train::grad_clip,
           {.reals = {.min = 0, .max = 1e30},
            .aliases = {"clip_grad", "max_grad_norm", "gradient_clipping"},
            .help = "Largest norm of the whole gradient; 0: no clipping."})
      .key("label_smoothing", &Train::label_smoothing,
           {.reals = {.min = 0, .max = 1, .below_max = true},
            .aliases = {"label_smoothing_factor"},
            .help = "Share of the target spread evenly over the vocabulary."})
      .key("eval_interval", &Train::eval_interval,
           {.integers = {0, kMostSteps}, .unit = "steps", .help = "Steps between evaluations; 0: none."})
      .key("eval_steps", &Train::eval_steps,
           {.integers = {1, kMostSteps},
            .unit = "global batches",
            .aliases = {"eval_iters"},
            .help = "Length of one evaluation."});
  return train.build();
}

Section optimizer_section() {
  using Optimizer = OptimizerSection;
  using Type = Optimizer::Type;
  SectionBuilder<Optimizer> optimizer("optimizer", "The update of the weights.",
                                      [](RunConfig& c, size_t) -> Optimizer& { return c.optimizer; });
  optimizer
      .choice("type", &Optimizer::type, {{"adamw", Type::AdamW}, {"sgd", Type::Sgd}}, {.help = "The rule."})
      .key("lr", &Optimizer::lr,
           {.presence = Presence::Required,
            .reals = {.min = 0, .max = 1e6},
            .aliases = {"learning_rate", "max_lr"},
            .help = "Highest learning rate; [lr_schedule] shapes it."})
      .key("betas", &Optimizer::betas,
           {.reals = {.min = 0, .max = 1, .below_max = true},
            .aliases = {"adam_betas"},
            .help = "adamw: decay of the first and the second moment."})
      .key("eps", &Optimizer::eps,
           {.reals = {.min = 0, .max = 1, .above_min = true},
            .aliases = {"adam_eps", "adam_epsilon"},
            .help = "adamw: added to the root of the second moment."})
      .key("weight_decay", &Optimizer::weight_decay,
           {.reals = {.min = 0, .max = 1e6}, .help = "Decoupled decay, of matrices and embeddings only."})
      .key("momentum", &Optimizer::momentum,
           {.reals = {.min = 0, .max = 1, .below_max = true},
            .aliases = {"sgd_momentum"},
            .help = "sgd: share of the last update that is kept."});
  return optimizer.build();
}

Section group_section() {
  SectionBuilder<OptimizerGroup> group(
      "optimizer.groups", "Parameters with a rate or a decay of their own; the last match counts.",
      [](RunConfig& c, size_t index) -> OptimizerGroup& { return c.optimizer.groups[index]; });
  group
      .elements(
          Section::Kind::List, [](RunConfig& c) { return c.optimizer.groups.size(); },
          [](RunConfig& c) { c.optimizer.groups.emplace_back(); })
      .key("match", &OptimizerGroup::match,
           {.presence = Presence::Required, .help = "Parameter name; * stands for any characters."})
      .key("lr_mult", &OptimizerGroup::lr_mult,
           {.reals = {.min = 0, .max = 1e6}, .help = "Multiplies the learning rate."})
      .key("weight_decay", &OptimizerGroup::weight_decay,
           {.presence = Presence::Optional,
            .reals = {.min = 0, .max = 1e6},
            .default_text = "absent: that of [optimizer]",
            .help = "Decay of these parameters."});
  return group.build();
}

Section lr_schedule_section() {
  using Schedule = LrScheduleSection;
  using Type = Schedule::Type;
  SectionBuilder<Schedule> schedule("lr_schedule", "The learning rate as a function of the step.",
                                    [](RunConfig& c, size_t) -> Schedule& { return c.lr_schedule; });
  schedule
      .choice("type", &Schedule::type,
              {{"cosine", Type::Cosine},
               {"linear", Type::Linear},
               {"constant", Type::Constant},
               {"inverse_sqrt", Type::InverseSqrt},
               {"wsd", Type::Wsd}},
              {.aliases = {"lr_decay_style", "lr_scheduler_type"}, .help = "Shape after the warm-up."})
      .key("warmup_steps", &Schedule::warmup_steps,
           {.integers = {0, kMostSteps},
            .unit = "steps",
            .aliases = {"lr_warmup_iters", "warmup_iters", "num_warmup_steps"},
            .help = "Linear rise to lr, from lr / (warmup_steps + 1) in the first step."})
      .key("decay_steps", &Schedule::decay_steps,
           {.presence = Presence::Derived,
            .integers = {1, kMostSteps},
            .unit = "steps",
            .default_text = "train.steps, or warmup_steps when that is more",
            .aliases = {"lr_decay_iters"},
            .help = "The step, counted from 0, at which min_lr is reached."})
      .key("min_lr", &Schedule::min_lr,
           {.reals = {.min = 0, .max = 1e6}, .help = "Lowest learning rate after the warm-up."})
      .key("wsd_decay_steps", &Schedule::wsd_decay_steps,
           {.presence = Presence::Optional,
            .integers = {1, kMostSteps},
            .unit = "steps",
            .default_text = "wsd: required; else not used",
            .aliases = {"lr_wsd_decay_iters"},
            .help = "wsd: length of the decay, which ends at decay_steps."});
  return schedule.build();
}

Section loss_scale_section() {
  using Type = LossScale::Type;
  SectionBuilder<LossScale> scale("precision.loss_scale",
                                  "Factor on the loss that keeps fp16 gradients in range.",
                                  [](RunConfig& c, size_t) -> LossScale& { return c.precision.loss_scale; });
  const RealRange range = {.min = 0x1p-24, .max = 0x1p60};
  scale
      .choice("type", &LossScale::type,
              {{"none", Type::None}, {"static", Type::Static}, {"dynamic", Type::Dynamic}},
              {.presence = Presence::Derived,
               .default_text = "\"dynamic\" for fp16, else \"none\"",
               .help = "dynamic: halves on overflow, doubles after window steps without."})
      .key("initial", &LossScale::initial, {.reals = range, .help = "First scale; a power of two."})
      .key(
          "window", &LossScale::window,
          {.integers = {1, kMostSteps}, .unit = "steps", .help = "Steps without overflow before it doubles."})
      .key("min", &LossScale::min,
           {.reals = range, .help = "A scale that would fall below stops the run; a power of two."});
  return scale.build();
}

}  // namespace

void add_train_sections(std::vector<Section>& sections) {
  sections.push_back(train_section());
  sections.push_back(optimizer_section());
  sections.push_back(group_section());
  sections.push_back(lr_schedule_section());

  using Precision = PrecisionSection;
  using GradAccumulate = Precision::GradAccumulate;
  SectionBuilder<Precision> precision("precision", "Number types. Masters and moments are always fp32.",
                                      [](RunConfig& c, size_t) -> Precision& { return c.precision; });
  precision
      .choice("compute", &Precision::compute,
              {{"fp32", FloatType::Fp32}, {"bf16", FloatType::Bf16}, {"fp16", FloatType::Fp16}},
              {.presence = Presence::Derived,
               .default_text = "\"bf16\" on cuda, \"fp32\" on cpu",
               .help = "Type of parameters and activations; sums are fp32."})
      .choice("grad_accumulate", &Precision::grad_accumulate,
              {{"fp32", GradAccumulate::Fp32}, {"compute", GradAccumulate::Compute}},
              {.help = "Type of the gradient buffers."});
  sections.push_back(precision.build());
  sections.push_back(loss_scale_section());

  using Checkpointing = ActivationCheckpointingSection;
  using Mode = Checkpointing::Mode;
  SectionBuilder<Checkpointing> checkpointing(
      "activation_checkpointing",
      "What backward computes again, or reads back from a disk, in place of keeping it. Never changes a bit.",
      [](RunConfig& c, size_t) -> Checkpointing& { return c.activation_checkpointing; });
  checkpointing
      .choice("mode", &Checkpointing::mode,
              {{"none", Mode::None},
               {"selective", Mode::Selective},
               {"full", Mode::Full},
               {"stage", Mode::Stage},
               {"budget", Mode::Budget}},
              {.presence = Presence::Derived,
               .default_text = "\"stage\" under gpipe, else \"none\"",
               .aliases = {"recompute_granularity"},
               .help = "selective: the modules named below; full: whole blocks; budget: as little as fits."})
      .key("num_layers", &Checkpointing::num_layers,
           {.presence = Presence::Optional,
            .integers = {1, 10'000},
            .unit = "blocks",
            .default_text = "absent: all",
            .aliases = {"recompute_num_layers"},
            .help = "selective and full: blocks that recompute, from the first."})
      .key("modules", &Checkpointing::modules,
           {.aliases = {"recompute_modules"},
            .allowed = {"attention", "mlp_activation"},
            .help = "selective: what recomputes. attention: what lies between its projections; "
                    "mlp_activation: the activation's output."})
      .key("memory_budget_gb", &Checkpointing::memory_budget_gb,
           {.presence = Presence::Optional,
            .reals = {.min = 0, .max = 1e6, .above_min = true},
            .unit = "2^30 bytes",
            .default_text = "budget: required; else not used",
            .help = "budget: what one rank may need at the peak of a step, parameters included."})
      .key("offload", &Checkpointing::offload,
           {.help =
                "Write what a forward leaves for its backward to offload_dir, and read it back, where other "
                "work lies between that hides it. `--check` says how many bytes."})
      .key("offload_dir", &Checkpointing::offload_dir,
           {.presence = Presence::Derived,
            .text = Text::OutputPath,
            .default_text = "$TMPDIR of each host, or \"/tmp\"",
            .help =
                "offload: a folder that exists, on a fast disk; not of a tmpfs, which is memory. Each rank "
                "has one file there, without a name, while it runs."});
  sections.push_back(checkpointing.build());
}

}  // namespace tessera::config
