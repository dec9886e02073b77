// SPDX-License-Identifier: Apache-2.0
#include "framework/optim/optimizer.h"

#include <cmath>

#include "framework/ops/memory.h"

namespace tessera {

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t skip = star; skip <= name.size(); ++skip)
    if (matches(rest, name.substr(skip))) return true;
  return false;
}

ParameterRates rates_of(const OptimizerOptions& options, const ParameterSpec& spec) {
  ParameterRates rates{.rate_factor = 1, .weight_decay = spec.decays() ? options.weight_decay : 0};
  for (const auto& group : options.groups) {
    if (!matches(group.match, spec.name)) continue;
    rates.rate_factor = group.rate_factor;
    if (group.overrides_decay) rates.weight_decay = group.weight_decay;
  }
  return rates;
}

namespace {

// One flat tensor of state a slot, cut in the order of the shards.
class StateBuffer {
 public:
  StateBuffer(std::span<const ParameterShard> shards, Backend& backend) {
    int64_t total = 0;
    for (const ParameterShard& shard : shards) total += shard.master.elements();
    if (total == 0) return;
    const Tensor whole = zeros(backend, shards[0].master.dtype(), {total});
    int64_t begin = 0;
    for (const ParameterShard& shard : shards) {
      parts_.push_back(whole.narrow(begin, shard.master.elements()));
      begin += shard.master.elements();
    }
  }
  const Tensor& operator[](size_t shard) const { return parts_[shard]; }

 private:
  std::vector<Tensor> parts_;
};

class ShardOptimizer : public Optimizer {
 public:
  ShardOptimizer(const OptimizerOptions& options, std::span<const ParameterShard> shards, Backend& backend)
      : options_(options),
        shards_(shards.begin(), shards.end()),
        backend_(backend),
        scalars_(zeros(backend, DType::F64, {4})) {
    for (const ParameterShard& shard : shards_) rates_.push_back(rates_of(options, shard.parameter->spec));
  }

  void step(const UpdateInfo& info) override {
    ++updates_;
    const auto t = static_cast<double>(updates_);
    const double values[4] = {info.learning_rate, 1 - std::pow(options_.beta1, t),
                              1 - std::pow(options_.beta2, t), info.gradient_factor};
    backend_.upload(std::as_bytes(std::span(values)), scalars_);
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (info.watch != nullptr) info.watch->before(shards_[i]);
      update(i);
      if (info.watch != nullptr) info.watch->after(shards_[i]);
    }
  }
  int64_t updates() const override { return updates_; }
  void set_updates(int64_t count) override { updates_ = count; }

 protected:
  virtual void update(size_t shard) = 0;

  OptimizerOptions options_;
  std::vector<ParameterShard> shards_;
  std::vector<ParameterRates> rates_;
  Backend& backend_;
  Tensor scalars_;
  int64_t updates_ = 0;
};

class AdamW final : public ShardOptimizer {
 public:
  AdamW(const OptimizerOptions& options, std::span<const ParameterShard> shards, Backend& backend)
      : ShardOptimizer(options, shards, backend), m_(shards, backend), v_(shards, backend) {}

  void visit_state(
      const std::function<void(const ParameterShard&, std::string_view, const Tensor&)>& visit) override {
    for (size_t i = 0; i < shards_.size(); ++i) {
      visit(shards_[i], "adamw/m", m_[i]);
      visit(shards_[i], "adamw/v", v_[i]);
    }
  }

 private:
  void update(size_t i) override {
    backend_.adamw({.master = shards_[i].master,
                    .m = m_[i],
                    .v = v_[i],
                    .gradient = shards_[i].gradient,
                    .value = shards_[i].value,
                    .scalars = scalars_,
                    .beta1 = options_.beta1,
                    .beta2 = options_.beta2,
                    .epsilon = options_.epsilon,
                    .weight_decay = rates_[i].weight_decay,
                    .learning_rate_factor = rates_[i].rate_factor});
  }
  StateBuffer m_, v_;
};

class Sgd final : public ShardOptimizer {
 public:
  Sgd(const OptimizerOptions& options, std::span<const ParameterShard> shards, Backend& backend)
      : ShardOptimizer(options, shards, backend) {
    if (options.momentum != 0) velocity_.emplace_back(shards, backend);
  }

  void visit_state(
      const std::function<void(const ParameterShard&, std::string_view, const Tensor&)>& visit) override {
    if (velocity_.empty()) return;
    for (size_t i = 0; i < shards_.size(); ++i) visit(shards_[i], "sgd/velocity", velocity_[0][i]);
  }

 private:
  void update(size_t i) override {
    backend_.sgd({.master = shards_[i].master,
                  .gradient = shards_[i].gradient,
                  .value = shards_[i].value,
                  .scalars = scalars_,
                  .velocity = velocity_.empty() ? Tensor() : velocity_[0][i],
                  .momentum = options_.momentum,
                  .weight_decay = rates_[i].weight_decay,
                  .learning_rate_factor = rates_[i].rate_factor});
  }
  std::vector<StateBuffer> velocity_;  // one, or none without momentum
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<const ParameterShard> shards, Backend& backend) {
  if (options.type == OptimizerOptions::Type::Sgd) return std::make_unique<Sgd>(options, shards, backend);
  return std::make_unique<AdamW>(options, shards, backend);
}

}  // namespace tessera
