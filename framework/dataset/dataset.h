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

struct DatasetOptions {
  std::vector<SourceOptions> sources;
  SampleOptions samples;
};

class Dataset {
 public:
  // Throws with exit code 2 for options that contradict each other (one file in two sources), and as Source.
  explicit Dataset(DatasetOptions options);

  const std::vector<Source>& sources() const { return sources_; }
  double share(size_t source) const { return mixture_.share(source); }  // of the samples, in [0, 1]

  Samples position() const { return position_; }  // samples given out since the run began
  // The samples of the next global batch, in global order. Moves the cursor.
  std::vector<SampleId> next(Samples count);

  // The evaluation samples from `first` on: the mixture of the sources in a fixed order, until one of them
  // would repeat. At most `count`; fewer at the end. Moves nothing.
  std::vector<SampleId> evaluation(Samples first, Samples count) const;

  // Rows [first_row, first_row + rows) of a global batch; rows past its last sample are padding.
  HostBatch read(std::span<const SampleId> global_batch, int64_t first_row, int64_t rows) const;
  // Trained positions of a whole global batch, without reading its tokens: any rank can count for all.
  Tokens trained(std::span<const SampleId> global_batch) const;

  std::string cursor() const;
  // Goes on where `cursor` was taken. Sources are found by name; with other weights the shares count from
  // here, and each source goes on in its epoch. Throws (exit 3) when the data or its cutting changed.
  void restore(std::string_view cursor);

 private:
  // What a source gives next; none when nothing of it is for training.
  struct Progress {
    std::optional<RowPlace> next;
    int64_t taken = 0;  // samples since the run began
  };
  SampleId id_at(size_t source, const RowPlace& place) const;
  SampleId take(size_t source);

  DatasetOptions options_;
  std::vector<double> weights_;
  std::vector<Source> sources_;
  Mixture mixture_;  // since the weights were last changed
  std::vector<Progress> progress_;
  Samples position_{0};
};

// One line for the log: "source books: 1003 tokens in 7 documents (text); 15 samples ..."
std::string describe(const SourceReport& report, double share, Samples run_samples);

}  // namespace tessera
