// SPDX-License-Identifier: Apache-2.0
#include "framework/optim/loss_scale.h"

namespace tessera {

namespace {
// Above this the scaled loss itself overflows fp32 for ordinary losses.
constexpr double kMaximumScale = 0x1p40;
}  // namespace

void LossScaler::update(bool finite) {
  if (!finite) {
    ++state_.skipped_in_row;
    ++state_.skipped_total;
    state_.good_steps = 0;
    if (dynamic()) state_.scale /= 2;
    return;
  }
  state_.skipped_in_row = 0;
  if (!dynamic() || ++state_.good_steps < options_.window) return;
  state_.good_steps = 0;
  if (state_.scale < kMaximumScale) state_.scale *= 2;
}

}  // namespace tessera
