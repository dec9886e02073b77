// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/source.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/base/check.h"
#include "framework/dataset/text_files.h"
#include "framework/dataset/token_file.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Token files of others say nothing about their largest id. Small ones are read through when they are
// opened; ids of larger ones are checked where they are read.
constexpr int64_t kScannedTokens = int64_t{16} << 20;

fs::path without_suffix(const fs::path& path) {
  const fs::path extension = path.extension();
  return extension == ".bin" || extension == ".idx" ? fs::path(path).replace_extension() : path;
}

bool is_indexed(const SourceOptions& options) {
  if (options.format != SourceOptions::Format::Auto) return options.format == SourceOptions::Format::Indexed;
  const fs::path prefix = without_suffix(options.path);
  if (fs::exists(fs::path(prefix) += ".idx")) return true;
  CHECK_AS(ExitCode::Data, !fs::exists(fs::path(prefix) += ".bin"),
           "source {}: {}.bin has no {}.idx beside it", options.name, prefix.string(), prefix.string());
  CHECK_AS(ExitCode::Data, fs::exists(options.path), "source {}: neither {}.idx nor {} exists", options.name,
           prefix.string(), options.path.string());
  return false;
}

std::unique_ptr<TokenStore> open_store(const SourceOptions& options, const SampleOptions& samples) {
  if (is_indexed(options)) return std::make_unique<TokenFile>(without_suffix(options.path));
  CHECK_AS(ExitCode::Usage, samples.text_end_of_document.has_value(),
           "source {}: {} is plain text, which no tokenizer is given for; tokenize it first", options.name,
           options.path.string());
  CHECK_AS(ExitCode::Usage, samples.vocab_size > *samples.text_end_of_document,
           "source {}: plain text needs model.vocab_size >= {}, not {}", options.name,
           *samples.text_end_of_document + 1, samples.vocab_size);
  if (samples.encode_text) return std::make_unique<EncodedText>(options.path, samples.encode_text);
  return std::make_unique<TextFiles>(options.path, *samples.text_end_of_document);
}

}  // namespace

fs::path source_identity(const fs::path& path) {
  return fs::weakly_canonical(fs::absolute(without_suffix(path))).lexically_normal();
}

Source::Source(const SourceOptions& options, const SampleOptions& samples)
    : store_(open_store(options, samples)),
      seq_length_(samples.seq_length),
      vocab_size_(samples.vocab_size),
      document_mask_(samples.document_mask) {
  report_.name = options.name;
  report_.path = options.path.string();
  report_.kind = store_->kind();
  report_.documents = store_->documents();
  report_.tokens = store_->tokens();
  report_.fingerprint = store_->fingerprint();
  divide(samples.split);
  check_vocabulary(samples);
}

void Source::divide(const std::array<double, 2>& split) {
  const int64_t samples = std::max<int64_t>(report_.tokens - 1, 0) / seq_length_;
  CHECK_AS(ExitCode::Data, samples > 0,
           "source {}: {} has {} tokens, fewer than the {} of one sample (train.seq_length + 1)",
           report_.name, report_.path, report_.tokens, seq_length_ + 1);
  const double eval_share = split[1] / (split[0] + split[1]);
  int64_t eval = std::llround(static_cast<double>(samples) * eval_share);
  // A part that is asked for gets at least one sample, when there are two.
  if (split[1] > 0) eval = std::max<int64_t>(eval, 1);
  if (split[0] > 0) eval = std::min(eval, samples - 1);
  report_.eval_samples = eval;
  report_.train_samples = samples - eval;
  report_.used_tokens = samples * seq_length_ + 1;
  report_.dropped_tokens = report_.tokens - report_.used_tokens;
}

void Source::check_vocabulary(const SampleOptions& samples) const {
  const auto* file = dynamic_cast<const TokenFile*>(store_.get());
  if (!file) return;
  if (const std::optional<TokenFileNote>& note = file->note()) {
    CHECK_AS(ExitCode::Data, samples.tokenizer.empty() || note->tokenizer == samples.tokenizer,
             "source {}: {} was made by tokenizer \"{}\", and [tokenizer] says \"{}\"", report_.name,
             report_.path, note->tokenizer, samples.tokenizer);
    CHECK_AS(ExitCode::Data, note->max_id < vocab_size_,
             "source {}: {} has ids up to {}, outside model.vocab_size = {}", report_.name, report_.path,
             note->max_id, vocab_size_);
    return;
  }
  if (report_.tokens > kScannedTokens) return;
  std::vector<int32_t> piece;
  for (int64_t at = 0; at < report_.tokens; at += static_cast<int64_t>(piece.size())) {
    piece.resize(static_cast<size_t>(std::min<int64_t>(65536, report_.tokens - at)));
    store_->read(at, vocab_size_, piece);
  }
}

int64_t Source::train_sample(uint64_t seed, int64_t epoch, int64_t position) const {
  // Keyed by name: the order of a source depends on nothing that is said of the others.
  const RandomKey key = mixed(random_key(seed, "sample order/" + report_.name), static_cast<uint64_t>(epoch));
  return static_cast<int64_t>(
      permuted(static_cast<uint64_t>(position), static_cast<uint64_t>(report_.train_samples), key));
}

void Source::read(int64_t sample, RowView row) const {
  const int64_t first = sample * seq_length_;
  std::vector<int32_t> ids(static_cast<size_t>(seq_length_) + 1);
  store_->read(first, vocab_size_, ids);
  int64_t document = store_->document_of(first), end = store_->document_end(document);
  int32_t start = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(seq_length_); ++i) {
    if (first + i == end) {
      start = i;
      while (end <= first + i) end = store_->document_end(++document);  // over empty documents
    }
    const auto at = static_cast<size_t>(i);
    const bool last_of_document = first + i + 1 == end;
    row.tokens[at] = ids[at];
    row.targets[at] = last_of_document ? -1 : ids[at + 1];
    row.weights[at] = last_of_document ? 0.0f : 1.0f;
    row.positions[at] = document_mask_ ? i - start : i;
    row.document_start[at] = document_mask_ ? start : 0;
    row.document_ids[at] = document;
  }
}

int64_t Source::trained_positions(int64_t sample) const {
  const int64_t first = sample * seq_length_, last = first + seq_length_;
  int64_t ends = 0, document = store_->document_of(first), previous = first;
  while (true) {
    const int64_t end = store_->document_end(document++);
    if (end > last) return seq_length_ - ends;
    ends += end > previous;
    previous = end;
    if (document == report_.documents) return seq_length_ - ends;
  }
}

}  // namespace tessera
