// SPDX-License-Identifier: Apache-2.0
// One source of samples. Sample i is the tokens [i L, i L + L] of its store, the last one shared with the
// next sample; what is left at the end is dropped and reported. The first samples are for training and the
// rest for evaluation, so that no target is in both. Immutable once open.
#pragma once
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "framework/base/random.h"
#include "framework/dataset/encoded_text.h"
#include "framework/dataset/host_batch.h"
#include "framework/dataset/token_store.h"

namespace tessera {

struct SourceOptions {
  enum class Format : uint8_t { Auto, Indexed, Text };  // Auto: indexed when PATH.idx exists, else text

  std::string name;
  std::filesystem::path path;  // a .bin/.idx prefix, a text file or a folder of text files
  double weight = 1;
  Format format = Format::Auto;
};

// What all sources of a dataset have in common.
struct SampleOptions {
  int64_t seq_length = 0;
  int64_t vocab_size = 0;                       // of the model
  std::array<double, 2> split = {1, 0};         // relative shares for training and evaluation
  bool document_mask = true;                    // a token sees only its own document
  std::string tokenizer;                        // its name; token files that note another are refused
  std::optional<int32_t> text_end_of_document;  // absent: plain text is refused
  EncodeDocument encode_text;                   // of plain text; none: a byte is a token
};

struct SourceReport {
  std::string name, path, kind, fingerprint;
  int64_t documents = 0, tokens = 0;
  int64_t train_samples = 0, eval_samples = 0;
  int64_t used_tokens = 0, dropped_tokens = 0;  // they sum to `tokens`
};

class Source {
 public:
  // Opens and checks; throws with exit code 3 when the data is missing, damaged, too short or outside the
  // vocabulary, with 2 when the options cannot work on any data.
  Source(const SourceOptions& options, const SampleOptions& samples);

  const SourceReport& report() const { return report_; }
  int64_t train_samples() const { return report_.train_samples; }
  int64_t eval_samples() const { return report_.eval_samples; }

  // The sample at `position` of an epoch's order: each epoch holds every training sample once.
  int64_t train_sample(uint64_t seed, int64_t epoch, int64_t position) const;
  int64_t eval_sample(int64_t position) const { return report_.train_samples + position; }

  void read(int64_t sample, RowView row) const;
  // Positions of the sample that have a target. Reads the index only.
  int64_t trained_positions(int64_t sample) const;

 private:
  void divide(const std::array<double, 2>& split);
  void check_vocabulary(const SampleOptions& samples) const;

  std::unique_ptr<TokenStore> store_;
  SourceReport report_;
  int64_t seq_length_, vocab_size_;
  bool document_mask_;
};

// `path` as one source's identity: absolute, links followed, without a .bin or .idx ending.
std::filesystem::path source_identity(const std::filesystem::path& path);

}  // namespace tessera
