// SPDX-License-Identifier: Apache-2.0
// The parts of the schema table, a function a topic. Only schema.cpp calls them, in the order of the page.
#pragma once
#include <vector>

#include "framework/config/schema.h"

namespace tessera::config {

void add_run_sections(std::vector<Section>& sections);
void add_model_sections(std::vector<Section>& sections);
void add_parallel_sections(std::vector<Section>& sections);
void add_train_sections(std::vector<Section>& sections);
void add_data_sections(std::vector<Section>& sections);
void add_output_sections(std::vector<Section>& sections);

// Bounds that keep every product of sizes inside 64 bits.
inline constexpr int64_t kMostRanks = int64_t{1} << 20;
inline constexpr int64_t kMostSamples = int64_t{1} << 30;  // in one batch
inline constexpr int64_t kLongestSequence = int64_t{1} << 30;
inline constexpr int64_t kMostSteps = 1'000'000'000;
inline constexpr int64_t kMostTokens = 1'000'000'000'000'000'000;

}  // namespace tessera::config
