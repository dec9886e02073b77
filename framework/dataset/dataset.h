// SPDX-License-Identifier: Apache-2.0
// The samples of a run in their order. Sample ids are a function of the options and of how many samples
// came before: no shuffle index is built, every rank computes the whole global batch and reads its own rows,
// and another number of ranks changes nothing. The cursor is one position, the state of the mixture, and the
// place where each source goes on; it goes into checkpoints as JSON.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/quantity.h"
#include "framework/dataset/host_batch.h"
#include "framework/dataset/mixture.h"
#include "framework/dataset/source.h"

namespace tessera {

// Holds for the batches after the first `start` until the next stage begins.
struct StageOptions {
  int64_t start = 0;            // batches given out before it
  std::vector<double> weights;  // of the sources; empty: their own
  int64_t context = 0;          // tokens that may see each other, at most; 0: whole rows
};

struct DatasetOptions {
  std::vector<SourceOptions> sources;
  SampleOptions samples;
  std::vector<StageOptions> stages = {};  // by start; before the first one as if there were none
};

class Dataset {
 public:
  // Throws with exit code 2 for options that contradict each other (one file in two sources), and as Source.
  explicit Dataset(DatasetOptions options);

  const std::vector<Source>& sources() const { return sources_; }
  // Samples of a source in the first `batches` batches of `size` samples each, by the weights of the stages.
  double expected_samples(size_t source, int64_t batches, Samples size) const;

  Samples position() const { return position_; }  // samples given out since the run began
  int64_t batches() const { return batches_; }    // calls of next() since the run began
  // The samples of the next global batch, in global order. Moves the cursor.
  std::vector<SampleId> next(Samples count);
  // Of the last batch: how many tokens of a row may see each other; 0: whole rows.
  int64_t context() const { return stages_[stage_].context; }

  // The evaluation samples from `first` on: the mixture of the sources by their own weights in a fixed order,
  // until one of them would repeat. At most `count`; fewer at the end. Moves nothing.
  std::vector<SampleId> evaluation(Samples first, Samples count) const;

  // Rows [first_row, first_row + rows) of a global batch; rows past its last sample are padding. With a
  // `context` the rows are cut into contexts of so many tokens, as if they were rows of their own.
  HostBatch read(std::span<const SampleId> global_batch, int64_t first_row, int64_t rows,
                 int64_t context = 0) const;
  // Trained positions of a whole global batch, without reading its tokens: any rank can count for all.
  Tokens trained(std::span<const SampleId> global_batch) const;

  std::string cursor() const;
  // Goes on where `cursor` was taken. Sources are found by name; with other weights than those of the last
  // batch the shares count from here, and each source goes on in its epoch. Throws (exit 3) when the data or
  // its packing changed.
  void restore(std::string_view cursor);

 private:
  // What a source gives next; none when nothing of it is for training.
  struct Progress {
    std::optional<RowPlace> next;
    int64_t taken = 0;  // samples since the run began
  };
  SampleId id_at(size_t source, const RowPlace& place) const;
  SampleId take(size_t source);

  void enter_stage_of(int64_t batch);

  DatasetOptions options_;
  std::vector<StageOptions> stages_;  // the first begins at 0, and all have weights
  std::vector<Source> sources_;
  size_t stage_ = 0;  // of the last batch
  Mixture mixture_;   // since the weights last changed
  std::vector<Progress> progress_;
  Samples position_{0};
  int64_t batches_ = 0;
};

// One line for the log: "source books: 1003 tokens in 7 documents (text); 15 samples ..."
// `run_samples`: of this source, in the run of which it is the share.
std::string describe(const SourceReport& report, double share, double run_samples);

}  // namespace tessera
