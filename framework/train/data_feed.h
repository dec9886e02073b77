// SPDX-License-Identifier: Apache-2.0
// This rank's micro-batches of each global batch. Row r of micro-batch m on data rank d is row
// (m * dp + d) * micro_batch_size + r of the global batch, and rows past its end are padding of weight zero,
// so any number of ranks and micro-batches trains the same samples.
#pragma once
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/config/run_config.h"
#include "framework/dataset/dataset.h"
#include "framework/tokenizer/tokenizer.h"

namespace tessera {

std::unique_ptr<Tokenizer> tokenizer_of(const RunConfig& config);
// Throws (exit 3) when the tokenizer has more ids than the model.
DatasetOptions dataset_options(const RunConfig& config);

class DataFeed {
 public:
  DataFeed(const RunConfig& config, int data_rank);

  struct GlobalBatch {
    std::vector<SampleId> samples;        // in global order
    int64_t context = 0;                  // as Dataset::context
    std::vector<HostBatch> microbatches;  // of this rank
  };
  GlobalBatch next();  // moves the cursor by one global batch
  // Number `index` of evaluation, with whole rows as contexts; fewer samples at the end of the evaluation
  // data, none after it.
  GlobalBatch evaluation(int64_t index) const;

  Dataset& dataset() { return dataset_; }
  const Dataset& dataset() const { return dataset_; }

 private:
  GlobalBatch divide(std::vector<SampleId> samples, int64_t context) const;

  int64_t micro_, accumulation_, global_, data_ranks_;
  int data_rank_;
  Dataset dataset_;
};

}  // namespace tessera
