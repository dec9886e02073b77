// SPDX-License-Identifier: Apache-2.0
// Which documents a step of a run trained, worked out from its ledger (data_ledger.h); and what its corpora
// hold.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "framework/base/quantity.h"
#include "framework/config/run_config.h"

namespace tessera {

// Tokens [begin, end) of a document.
struct TracedPart {
  int64_t document = 0, begin = 0, end = 0;
  std::string text;  // of the first tokens, shortened
};

struct TracedSample {
  int64_t row = 0;  // of the global batch
  std::string source;
  int64_t epoch = 0, block = 0, index = 0;
  std::vector<TracedPart> parts;
};

struct StepTrace {
  Steps step{0};
  int64_t context = 0;  // tokens that could see each other, at most; 0: whole rows
  std::vector<TracedSample> samples;
};

// Throws Error(Usage) for a step that the run has not, Error(Data) when the ledger or the data is missing or
// has changed.
StepTrace trace_step(const std::filesystem::path& run_folder, Steps step);

struct SourceOverview {
  std::string name, path, kind;
  int64_t documents = 0, tokens = 0, bytes = 0;
  int64_t longest_document = 0, empty_documents = 0;  // longest: in tokens
  int64_t learned_tokens = 0;                         // all but where a mask leaves some out
  double share = 0;                                   // of the run's samples
};
// Reads every source's index, and its mask, once.
std::vector<SourceOverview> overview_of_sources(const RunConfig& config);

}  // namespace tessera
