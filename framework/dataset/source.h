// SPDX-License-Identifier: Apache-2.0
// One source of samples: a token store and how its documents are packed into rows (packing.h). A part of it
// is for training and the rest for evaluation, so that no target is in both. Immutable once open, and safe to
// read from several threads.
#pragma once
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "framework/dataset/encoded_text.h"
#include "framework/dataset/host_batch.h"
#include "framework/dataset/packing.h"
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
  enum class Packing : uint8_t { Cut, FirstFit };

  int64_t seq_length = 0;
  int64_t vocab_size = 0;                // of the model
  std::array<double, 2> split = {1, 0};  // relative shares for training and evaluation
  Packing packing = Packing::Cut;
  bool document_mask = true;  // a token sees only its own document
  uint64_t shuffle_seed = 0;
  std::string tokenizer;                        // its name; token files that note another are refused
  std::optional<int32_t> text_end_of_document;  // absent: plain text is refused
  EncodeDocument encode_text;                   // of plain text; none: a byte is a token
};

// Which sample a row is: the number of its source among the options, and what packing.h calls it there.
struct SampleId {
  int64_t source = 0, epoch = 0, block = 0, index = 0;
  auto operator<=>(const SampleId&) const = default;
};

struct SourceReport {
  std::string name, path, kind, fingerprint;
  int64_t documents = 0, tokens = 0;
  PackingReport packing;
};

class Source {
 public:
  // Opens and checks; throws with exit code 3 when the data is missing, damaged, too short or outside the
  // vocabulary, with 2 when the options cannot work on any data.
  Source(const SourceOptions& options, const SampleOptions& samples);

  const SourceReport& report() const { return report_; }
  const Packing& packing() const { return *packing_; }
  const TokenStore& store() const { return *store_; }

  // With a context (0: none) no token sees more than so many: rows of whole documents are cut in each
  // document, others at its multiples.
  void read(const SampleId& sample, int64_t context, RowView row) const;
  // Positions of the sample that have a target, and are to learn it. Reads no tokens.
  int64_t trained_positions(const SampleId& sample) const;

 private:
  void check_vocabulary(const SampleOptions& samples) const;

  std::unique_ptr<TokenStore> store_;
  std::unique_ptr<Packing> packing_;
  SourceReport report_;
  int64_t vocab_size_;
  bool document_mask_;
};

// `path` as one source's identity: absolute, links followed, without a .bin or .idx ending.
std::filesystem::path source_identity(const std::filesystem::path& path);

}  // namespace tessera
