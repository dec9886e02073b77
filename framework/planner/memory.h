// SPDX-License-Identifier: Apache-2.0
// The memory of one rank, term by term, and the choice of how much to recompute. The figures come from one
// real step on the shape backend (train/predict.h runs it), not from formulas of their own: what a module
// allocates is what is planned. docs/memory.md explains each term.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "framework/nn/model.h"

namespace tessera {

// Bytes of one rank. step_peak() is what its allocator's peak will be.
struct MemoryPlan {
  // Held as long as the rank lives.
  int64_t parameters = 0;  // in the compute type
  int64_t masters = 0;     // 0 when the parameters are their own masters
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t padding = 0;    // of these four: bytes that hold no value of a parameter
  int64_t constants = 0;  // tables that units share, scalars of a step
  // Held during a step.
  int64_t batches = 0;  // tokens, targets, weights, ... of all its micro-batches
  // At the moment of the peak.
  int64_t activations = 0;    // kept for backward and in flight
  int64_t workspace = 0;      // of kernels
  int64_t communication = 0;  // copies of gradients in the type that travels
  // Host memory while a checkpoint is written beside training; 0 when none is.
  int64_t snapshot = 0;

  int64_t offloaded = 0;  // of activations, that leave memory in a step and come back

  std::vector<int64_t> saved_by_unit = {};     // what each unit keeps of one micro-batch for its backward
  double model_flops = 0, hardware_flops = 0;  // of this rank in one step; whole numbers

  // What ZeRO (Rajbhandari et al. 2020) calls the model states, padding included.
  int64_t model_states() const { return parameters + masters + gradients + optimizer; }
  int64_t state() const { return model_states() + constants; }
  int64_t step_peak() const { return state() + batches + activations + workspace + communication; }
  int64_t peak() const { return step_peak() + snapshot; }
  int64_t saved() const;  // of all units, one micro-batch
};

struct ParameterCounts {
  int64_t total = 0;      // trainable or frozen, without buffers; a tied tensor counts once
  int64_t embedding = 0;  // token and position tables
  int64_t trainable = 0;
  int64_t rest() const { return total - embedding; }
};
ParameterCounts count_parameters(std::span<const ParameterSpec> parameters);

// The smallest number of blocks, recomputed from the first one on, whose peak fits the budget. `peak` is
// asked for a few numbers only; more recomputed blocks never need more memory. Throws Error(Usage), with the
// least budget that works, when even all `blocks` do not fit.
int choose_recomputed_blocks(int blocks, int64_t budget_bytes, const std::function<int64_t(int)>& peak);

}  // namespace tessera
