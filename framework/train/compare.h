// SPDX-License-Identifier: Apache-2.0
// Layouts of one config side by side: the first step whose loss, gradient norm or any logical gradient or
// weight differs beyond what rounding explains, the first such tensor, and what the difference looks like.
// The layouts take turns step by step, so the host keeps one step of the reference's tensors, whatever the
// number of steps. Gradients of later steps may differ by more than those of the first, as far as a twin of
// the reference with shaken weights shows.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/train/compare_run.h"
#include "framework/train/compare_tensor.h"
#include "framework/train/compare_tolerance.h"

namespace tessera {

struct CompareLayout {
  std::string name;
  RunConfig config;   // resolved for its own mesh
  int64_t bytes = 0;  // that its ranks need together, for CompareRequest::free_bytes
};

struct CompareRequest {
  std::vector<CompareLayout> layouts;  // the first is the reference
  std::function<ModelDefinition(const RunConfig&)> define;
  int steps = 5;
  // Memory for layouts that stand side by side; when it is not enough for all, the reference runs again
  // beside the others. 0: all at once.
  int64_t free_bytes = 0;
  // For tests; `layout` counts from 0.
  std::function<void(size_t layout, Rank&)> prepare = {};
  std::function<void(int step, DataFeed::GlobalBatch&)> edit = {};
};

enum class Slot : uint8_t { InitialWeight, Gradient, Weight };
const char* name_of(Slot slot);

struct TensorFault {
  Slot slot = Slot::Gradient;
  std::string name;
  double difference = 0, bound = 0;  // relative
  std::string disagreement;          // among the ranks of the layout; then nothing else is judged
  Suspicion suspicion;
};

// One layout beside the reference, after one step. Losses, norms and the worst gradient are relative; weight
// is the worst share of the distance that the gradients' differences explain, so at most 1 where all is well.
struct StepComparison {
  double loss = 0, norm = 0, gradient = 0, weight = 0;
  std::string worst_gradient;
  Tolerance tolerance;
};

// What is wrong in the first step where something is.
struct LayoutFault {
  int step = 0;  // 0: the initial weights
  bool tokens = false, finite = false, loss = false, norm = false;
  int64_t gradients = 0, weights = 0;      // that differ
  std::optional<TensorFault> first, last;  // in model order; gradients before weights
};

struct LayoutComparison {
  std::string name;
  int64_t ranks = 1;
  bool initial_equal = true;
  std::vector<StepNumbers> numbers;
  std::vector<StepComparison> steps;
  std::optional<LayoutFault> fault;
};

struct CompareResult {
  std::string reference;
  int64_t reference_ranks = 1;
  size_t parameters = 0;
  std::vector<StepNumbers> numbers;  // of the reference
  std::vector<double> growth;        // of the differences that rounding makes, by step: 1 in the first
  std::vector<LayoutComparison> layouts;
  bool agree() const;
};

CompareResult compare_layouts(const CompareRequest& request);

}  // namespace tessera
