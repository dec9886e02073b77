// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/source.h"

#include <algorithm>
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
      vocab_size_(samples.vocab_size),
      document_mask_(samples.document_mask) {
  // Keyed by name: the order of a source depends on nothing that is said of the others.
  const PackingOptions packing{.length = samples.seq_length,
                               .split = samples.split,
                               .key = random_key(samples.shuffle_seed, "sample order/" + options.name)};
  packing_ = samples.packing == SampleOptions::Packing::Cut ? make_cut_packing(*store_, packing)
                                                            : make_first_fit_packing(*store_, packing);
  report_ = {.name = options.name,
             .path = options.path.string(),
             .kind = std::string(store_->kind()),
             .fingerprint = store_->fingerprint(),
             .documents = store_->documents(),
             .tokens = store_->tokens(),
             .packing = packing_->report()};
  CHECK_AS(ExitCode::Data, report_.packing.train_samples + report_.packing.eval_samples > 0,
           "source {}: {} has {} tokens, fewer than the {} of one sample", report_.name, report_.path,
           report_.tokens,
           samples.packing == SampleOptions::Packing::Cut
               ? fmt::format("{} (train.seq_length + 1)", samples.seq_length + 1)
               : "1");
  check_vocabulary(samples);
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

void Source::read(const SampleId& sample, int64_t context, RowView row) const {
  store_->check_unchanged();
  std::vector<int32_t> ids;
  std::vector<uint8_t> learned;  // whether the target of each token is
  const auto length = static_cast<int32_t>(context > 0 ? context : int64_t{INT32_MAX});
  int32_t at = 0;
  for (const DocumentPart& part : packing_->parts(sample.epoch, sample.block, sample.index)) {
    ids.resize(static_cast<size_t>(part.count + (part.ends_document ? 0 : 1)));
    store_->read(part.first, vocab_size_, ids);
    learned.assign(ids.size() - 1, 1);
    if (store_->has_mask()) store_->read_mask(part.first + 1, learned);
    const int32_t document_start = document_mask_ ? at : 0;
    const int32_t first_context = packing_->whole_documents() ? document_start : 0;
    for (size_t i = 0; i < static_cast<size_t>(part.count); ++i, ++at) {
      const auto to = static_cast<size_t>(at);
      const int32_t start = std::max(document_start, at - (at - first_context) % length);
      const bool has_target = i + 1 < ids.size();
      row.tokens[to] = ids[i];
      row.targets[to] = has_target ? ids[i + 1] : -1;
      row.weights[to] = has_target && learned[i] != 0 ? 1.0f : 0.0f;
      row.positions[to] = at - start;
      row.document_start[to] = start;
      row.document_ids[to] = part.document;
    }
  }
}

int64_t Source::trained_positions(const SampleId& sample) const {
  store_->check_unchanged();
  int64_t trained = 0;
  std::vector<uint8_t> learned;
  for (const DocumentPart& part : packing_->parts(sample.epoch, sample.block, sample.index)) {
    learned.assign(static_cast<size_t>(part.count - (part.ends_document ? 1 : 0)), 1);
    if (store_->has_mask()) store_->read_mask(part.first + 1, learned);
    trained += std::count(learned.begin(), learned.end(), uint8_t{1});
  }
  return trained;
}

}  // namespace tessera
