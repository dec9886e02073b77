// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling for fp16 (Micikevicius et al. 2018): the scale halves when a gradient overflows, and
// that update is skipped; it doubles after `window` good steps in a row. Its state is part of a checkpoint.
#pragma once
#include <cstdint>

namespace tessera {

struct LossScaleOptions {
  enum class Type : uint8_t { None, Static, Dynamic };
  Type type = Type::None;
  double initial = 65536;
  int64_t window = 1000;
  double minimum = 1;
};

class LossScaler {
 public:
  struct State {
    double scale = 1;
    int64_t good_steps = 0;  // since the last change
    int64_t skipped_in_row = 0, skipped_total = 0;
    bool operator==(const State&) const = default;
  };

  explicit LossScaler(const LossScaleOptions& options) : options_(options) {
    state_.scale = options.type == LossScaleOptions::Type::None ? 1 : options.initial;
  }

  double scale() const { return state_.scale; }
  bool dynamic() const { return options_.type == LossScaleOptions::Type::Dynamic; }
  // Call once a step with what all ranks agreed on.
  void update(bool finite);
  // True when an overflow brought the scale below its minimum: the run must stop.
  bool collapsed() const { return dynamic() && state_.scale < options_.minimum; }

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  LossScaleOptions options_;
  State state_;
};

}  // namespace tessera
