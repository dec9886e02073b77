// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/ops/case_list.h"

namespace tessera::test {
namespace {

// Tensors by name; an absent one is undefined.
class Named {
 public:
  explicit Named(const Tensors& tensors) : tensors_(tensors) {}
  Tensor operator()(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? Tensor() : found->second;
  }
  const Tensors& all() const { return tensors_; }

 private:
  const Tensors& tensors_;
};

using Run = std::function<void(Backend&, const OpCase&, const Named&)>;

Activation kind_of(const OpCase& c) {
  return static_cast<Activation>(c.integer("kind"));
}
RandomKey key_of(const OpCase& c) {
  return {static_cast<uint64_t>(c.integer("key")) * 0x9e3779b97f4a7c15u};
}

AttentionMask mask_of(const OpCase& c, const Named& t) {
  return {.document_start = t("document_start"),
          .window = c.integer("window"),
          .query_offset = c.integer("query_offset"),
          .key_offset = c.integer("key_offset")};
}
AttentionDropout attention_dropout_of(const OpCase& c, const Named& t) {
  return {.probability = c.number("probability"),
          .key = key_of(c),
          .step = t("step"),
          .row_ids = t("row_ids"),
          .head_offset = c.integer("head_offset")};
}

void run_matmul(Backend& b, const OpCase& c, const Named& t) {
  b.matmul({.a = t("a"),
            .b = t("b"),
            .c = t("c"),
            .transpose_a = c.number("transpose_a") != 0,
            .transpose_b = c.number("transpose_b") != 0,
            .alpha = static_cast<float>(c.number("alpha")),
            .beta = static_cast<float>(c.number("beta")),
            .bias = t("bias"),
            .activation = kind_of(c),
            .derivative = t("derivative"),
            .multiply = t("multiply")});
}

void run_attention(Backend& b, const OpCase& c, const Named& t, bool accumulate) {
  b.attention({.q = t("q"),
               .k = t("k"),
               .v = t("v"),
               .y = t("y"),
               .lse = t("lse"),
               .rows = c.integer("rows"),
               .heads = c.integer("heads"),
               .kv_heads = c.integer("kv_heads"),
               .scale = c.number("scale"),
               .mask = mask_of(c, t),
               .dropout = attention_dropout_of(c, t),
               .accumulate = accumulate});
}

void run_attention_backward(Backend& b, const OpCase& c, const Named& t, bool accumulate) {
  b.attention_backward({.dy = t("dy"),
                        .q = t("q"),
                        .k = t("k"),
                        .v = t("v"),
                        .y = t("y"),
                        .lse = t("lse"),
                        .dq = t("dq"),
                        .dk = t("dk"),
                        .dv = t("dv"),
                        .rows = c.integer("rows"),
                        .heads = c.integer("heads"),
                        .kv_heads = c.integer("kv_heads"),
                        .scale = c.number("scale"),
                        .mask = mask_of(c, t),
                        .dropout = attention_dropout_of(c, t),
                        .accumulate = accumulate});
}

void run_adamw(Backend& b, const OpCase& c, const Named& t) {
  b.adamw({.master = t("master"),
           .m = t("m"),
           .v = t("v"),
           .gradient = t("gradient"),
           .value = t("value"),
           .scalars = t("scalars"),
           .beta1 = c.number("beta1"),
           .beta2 = c.number("beta2"),
           .epsilon = c.number("epsilon"),
           .weight_decay = c.number("weight_decay"),
           .learning_rate_factor = c.number("learning_rate_factor")});
}

void run_sgd(Backend& b, const OpCase& c, const Named& t) {
  b.sgd({.master = t("master"),
         .gradient = t("gradient"),
         .value = t("value"),
         .scalars = t("scalars"),
         .velocity = t("velocity"),
         .momentum = c.number("momentum"),
         .weight_decay = c.number("weight_decay"),
         .learning_rate_factor = c.number("learning_rate_factor")});
}

void run_dropout(Backend& b, const OpCase& c, const Named& t) {
  b.dropout({.x = t("x"),
             .y = t("y"),
             .residual = t("residual"),
             .probability = c.number("probability"),
             .key = key_of(c),
             .step = t("step"),
             .row_index = t("row_index"),
             .column_offset = c.integer("column_offset")});
}

void run_rope(Backend& b, const OpCase& c, const Named& t, bool inverse) {
  b.rope({.x = t("x"),
          .table = t("table"),
          .positions = t("positions"),
          .head_dim = c.integer("head_dim"),
          .inverse = inverse});
}

void run_cross_entropy_loss(Backend& b, const OpCase& c, const Named& t) {
  b.cross_entropy_loss({.stats = t("stats"),
                        .targets = t("targets"),
                        .weights = t("weights"),
                        .loss = t("loss"),
                        .total = t("total"),
                        .label_smoothing = c.number("label_smoothing"),
                        .classes = c.integer("classes")});
}

void run_cross_entropy_backward(Backend& b, const OpCase& c, const Named& t) {
  b.cross_entropy_backward({.logits = t("logits"),
                            .stats = t("stats"),
                            .targets = t("targets"),
                            .weights = t("weights"),
                            .scale = t("scale"),
                            .label_smoothing = c.number("label_smoothing"),
                            .classes = c.integer("classes"),
                            .first_class = c.integer("first_class")});
}

void run_sum(Backend& b, const OpCase& c, const Named& t) {
  std::vector<Tensor> terms;
  for (int64_t i = 0; i < c.integer("terms"); ++i) terms.push_back(t("term" + std::to_string(i)));
  b.sum(terms, t("out"));
}

const std::map<std::string, Run, std::less<>>& runs() {
  static const std::map<std::string, Run, std::less<>> table{
      {"matmul", run_matmul},
      {"layer_norm",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.layer_norm({.x = t("x"),
                       .gain = t("gain"),
                       .bias = t("bias"),
                       .y = t("y"),
                       .mean = t("mean"),
                       .inv_std = t("inv_std"),
                       .epsilon = c.number("epsilon")});
       }},
      {"layer_norm_backward",
       [](Backend& b, const OpCase&, const Named& t) {
         b.layer_norm_backward({.dy = t("dy"),
                                .x = t("x"),
                                .gain = t("gain"),
                                .mean = t("mean"),
                                .inv_std = t("inv_std"),
                                .dx = t("dx"),
                                .dgain = t("dgain"),
                                .dbias = t("dbias")});
       }},
      {"rms_norm",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.rms_norm({.x = t("x"),
                     .gain = t("gain"),
                     .y = t("y"),
                     .inv_rms = t("inv_rms"),
                     .epsilon = c.number("epsilon")});
       }},
      {"rms_norm_backward",
       [](Backend& b, const OpCase&, const Named& t) {
         b.rms_norm_backward({.dy = t("dy"),
                              .x = t("x"),
                              .gain = t("gain"),
                              .inv_rms = t("inv_rms"),
                              .dx = t("dx"),
                              .dgain = t("dgain")});
       }},
      {"activation", [](Backend& b, const OpCase& c,
                        const Named& t) { b.activation({.kind = kind_of(c), .x = t("x"), .y = t("y")}); }},
      {"activation_backward",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.activation_backward({.kind = kind_of(c), .dy = t("dy"), .x = t("x"), .dx = t("dx")});
       }},
      {"gated_activation",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.gated_activation({.kind = kind_of(c), .gate_up = t("gate_up"), .y = t("y")});
       }},
      {"gated_activation_backward",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.gated_activation_backward(
             {.kind = kind_of(c), .dy = t("dy"), .gate_up = t("gate_up"), .dgate_up = t("dgate_up")});
       }},
      {"attention", [](Backend& b, const OpCase& c, const Named& t) { run_attention(b, c, t, false); }},
      {"attention_add", [](Backend& b, const OpCase& c, const Named& t) { run_attention(b, c, t, true); }},
      {"attention_backward",
       [](Backend& b, const OpCase& c, const Named& t) { run_attention_backward(b, c, t, false); }},
      {"attention_backward_add",
       [](Backend& b, const OpCase& c, const Named& t) { run_attention_backward(b, c, t, true); }},
      {"rope", [](Backend& b, const OpCase& c, const Named& t) { run_rope(b, c, t, false); }},
      {"rope_backward", [](Backend& b, const OpCase& c, const Named& t) { run_rope(b, c, t, true); }},
      {"embedding",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.embedding({.table = t("table"),
                      .indices = t("indices"),
                      .y = t("y"),
                      .first_row = c.integer("first_row"),
                      .accumulate = c.number("accumulate") != 0});
       }},
      {"embedding_backward",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.embedding_backward({.dy = t("dy"),
                               .indices = t("indices"),
                               .dtable = t("dtable"),
                               .first_row = c.integer("first_row")});
       }},
      {"cross_entropy_stats",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.cross_entropy_stats({.logits = t("logits"),
                                .targets = t("targets"),
                                .stats = t("stats"),
                                .first_class = c.integer("first_class")});
       }},
      {"cross_entropy_rescale",
       [](Backend& b, const OpCase&, const Named& t) {
         b.cross_entropy_rescale({.stats = t("stats"), .maximum = t("maximum")});
       }},
      {"cross_entropy_loss", run_cross_entropy_loss},
      {"cross_entropy",
       [](Backend& b, const OpCase& c, const Named& t) {
         run_op(b, "cross_entropy_stats", c, t.all());
         run_cross_entropy_loss(b, c, t);
       }},
      {"cross_entropy_backward", run_cross_entropy_backward},
      {"dropout", run_dropout},
      {"fill", [](Backend& b, const OpCase& c, const Named& t) { b.fill(t("x"), c.number("value")); }},
      {"copy", [](Backend& b, const OpCase&, const Named& t) { b.copy(t("from"), t("to")); }},
      {"add", [](Backend& b, const OpCase&, const Named& t) { b.add(t("a"), t("b"), t("y")); }},
      {"scale", [](Backend& b, const OpCase& c, const Named& t) { b.scale(t("x"), c.number("factor")); }},
      {"column_sum", [](Backend& b, const OpCase&, const Named& t) { b.column_sum(t("x"), t("out")); }},
      {"sum", run_sum},
      {"sum_squares", [](Backend& b, const OpCase&, const Named& t) { b.sum_squares(t("x"), t("out")); }},
      {"sum_squared_differences",
       [](Backend& b, const OpCase&, const Named& t) {
         b.sum_squared_differences(t("x"), t("y"), t("out"));
       }},
      {"histogram",
       [](Backend& b, const OpCase&, const Named& t) { b.histogram(t("x"), t("counts"), t("sum")); }},
      {"init_normal",
       [](Backend& b, const OpCase& c, const Named& t) {
         b.init_normal({.value = t("value"),
                        .key = key_of(c),
                        .std = c.number("std"),
                        .first_index = c.integer("first_index"),
                        .row_pitch = c.integer("row_pitch")});
       }},
      {"adamw", run_adamw},
      {"sgd", run_sgd},
  };
  return table;
}

}  // namespace

void run_op(Backend& backend, std::string_view op, const OpCase& op_case, const Tensors& tensors) {
  const auto found = runs().find(op);
  CHECK(found != runs().end(), "no operation is called '{}'", op);
  found->second(backend, op_case, Named(tensors));
}

void run_case(Backend& backend, const OpCase& op_case, const Tensors& tensors) {
  run_op(backend, op_case.op, op_case, tensors);
}

}  // namespace tessera::test
