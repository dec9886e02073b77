// SPDX-License-Identifier: Apache-2.0
// Optimizers update flat shards of parameters and know nothing of ZeRO, ranks or units. Which parameters
// decay is declared by their role; a group of the config may change rate and decay by name.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/nn/parameter.h"
#include "framework/ops/backend.h"

namespace tessera {

struct OptimizerOptions {
  enum class Type : uint8_t { AdamW, Sgd };
  // The last group whose pattern matches a name applies; * stands for any characters.
  struct Group {
    std::string match;
    double rate_factor = 1;
    double weight_decay;
    bool overrides_decay = false;  // otherwise the default below and the role decide
  };
  Type type = Type::AdamW;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // AdamW
  double momentum = 0;                               // Sgd
  double weight_decay = 0.1;
  std::vector<Group> groups;
};

// True when `pattern`, in which * stands for any characters, matches all of `name`.
bool matches(std::string_view pattern, std::string_view name);

// What a parameter's own name and role make of rate and decay.
struct ParameterRates {
  double rate_factor = 1, weight_decay = 0;
};
ParameterRates rates_of(const OptimizerOptions& options, const ParameterSpec& spec);

// Sees each shard right before and right after its update.
class UpdateWatch {
 public:
  virtual ~UpdateWatch() = default;
  virtual void before(const ParameterShard& shard) = 0;
  virtual void after(const ParameterShard& shard) = 0;
};

struct UpdateInfo {
  double learning_rate;
  double gradient_factor;  // clip coefficient / loss scale: the applied gradient is gradient * factor
  UpdateWatch* watch = nullptr;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates masters and values of all shards.
  virtual void step(const UpdateInfo& info) = 0;
  // State tensors, flat, one for each shard: slots "adamw/m", "adamw/v", "sgd/velocity".
  virtual void visit_state(const std::function<void(const ParameterShard&, std::string_view slot,
                                                    const Tensor& state)>& visit) = 0;
  // Updates made so far; the bias correction depends on it.
  virtual int64_t updates() const = 0;
  virtual void set_updates(int64_t count) = 0;
};

// State starts at zero. The shards' tensors stay bound as long as the optimizer lives.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<const ParameterShard> shards, Backend& backend);

}  // namespace tessera
