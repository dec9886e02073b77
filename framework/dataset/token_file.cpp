// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/token_file.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "framework/base/check.h"
#include "framework/dataset/fingerprint.h"
#include "framework/dataset/token_file_layout.h"

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

namespace tessera {

using namespace token_file_layout;

TokenFile::TokenFile(const std::filesystem::path& prefix)
    : index_(with_suffix(prefix, ".idx")), bin_(with_suffix(prefix, ".bin")) {
  read_header();
  check_ends();
  if (static_cast<int64_t>(index_.bytes().size()) < kCheckedWhole) check_whole();
  read_note(with_suffix(prefix, ".meta.json"));
  open_mask(with_suffix(prefix, ".mask"));
  if (index_.size() >= kCheckedWhole) index_.read_at_random();
  if (bin_.size() >= kCheckedWhole) bin_.read_at_random();
}

template <class T>
T TokenFile::index_at(int64_t offset) const {
  T value;
  std::memcpy(&value, index_.bytes().data() + offset, sizeof(T));
  return value;
}

int32_t TokenFile::length_of(int64_t sequence) const {
  return index_at<int32_t>(kHeaderBytes + 4 * sequence);
}

int64_t TokenFile::offset_of(int64_t sequence) const {
  return index_at<int64_t>(kHeaderBytes + 4 * sequences_ + 8 * sequence);
}

int64_t TokenFile::first_sequence_of(int64_t document) const {
  return index_at<int64_t>(kHeaderBytes + 12 * sequences_ + 8 * document);
}

void TokenFile::read_header() {
  const auto size = static_cast<int64_t>(index_.bytes().size());
  const std::string path = index_.path().string();
  CHECK_AS(ExitCode::Data, size >= kHeaderBytes, "{} has {} bytes, less than the {} of a header", path, size,
           kHeaderBytes);
  CHECK_AS(
      ExitCode::Data, std::memcmp(index_.bytes().data(), kMagic.data(), kMagic.size()) == 0,
      "{} does not begin with MMIDIDX: it is no Megatron index{}", path,
      std::memcmp(index_.bytes().data(), "TNTIDX", 6) == 0 ? " (the older TNTIDX form is not read)" : "");
  const auto version = index_at<uint64_t>(kVersionAt);
  CHECK_AS(ExitCode::Data, version == kVersion, "{} has version {}; version {} is read", path, version,
           kVersion);
  const auto code = index_at<uint8_t>(kTypeAt);
  const std::optional<TokenType> type = token_type_of_code(code);
  CHECK_AS(ExitCode::Data, type.has_value(), "{} has type code {}, which is no integer type", path, code);
  type_ = *type;

  const auto sequences = index_at<uint64_t>(kSequencesAt);
  const auto boundaries = index_at<uint64_t>(kBoundariesAt);
  const auto rest = static_cast<uint64_t>(size - kHeaderBytes);
  // Divided first, so that the sum below cannot wrap.
  CHECK_AS(ExitCode::Data, sequences <= rest / 12 && boundaries >= 1 && boundaries <= rest / 8,
           "{} has {} bytes, too few for {} sequences and {} document borders", path, size, sequences,
           boundaries);
  const uint64_t arrays = 12 * sequences + 8 * boundaries;
  CHECK_AS(ExitCode::Data, rest == arrays || rest == arrays + sequences,
           "{} has {} bytes, but {} sequences and {} document borders take {}", path, size, sequences,
           boundaries, static_cast<uint64_t>(kHeaderBytes) + arrays);
  sequences_ = static_cast<int64_t>(sequences);
  documents_ = static_cast<int64_t>(boundaries) - 1;

  CHECK_AS(ExitCode::Data, bin_.size() % size_of(type_) == 0, "{} has {} bytes, no whole number of {} tokens",
           bin_.path().string(), bin_.size(), name_of(type_));
  tokens_ = bin_.size() / size_of(type_);
}

void TokenFile::check_ends() const {
  const std::string path = index_.path().string();
  CHECK_AS(ExitCode::Data, first_sequence_of(0) == 0 && first_sequence_of(documents_) == sequences_,
           "{}: the documents cover sequences {} to {}, not 0 to {}", path, first_sequence_of(0),
           first_sequence_of(documents_), sequences_);
  int64_t end = 0;
  if (sequences_ > 0) {
    const int64_t last = sequences_ - 1;
    CHECK_AS(
        ExitCode::Data,
        offset_of(0) == 0 && length_of(last) >= 0 && offset_of(last) >= 0 && offset_of(last) <= bin_.size(),
        "{}: the first sequence begins at byte {} and the last at {}, in a .bin of {}", path, offset_of(0),
        offset_of(last), bin_.size());
    end = offset_of(last) + length_of(last) * size_of(type_);
  }
  CHECK_AS(ExitCode::Data, end == bin_.size(), "{} describes {} bytes of tokens, but {} has {}", path, end,
           bin_.path().string(), bin_.size());
}

void TokenFile::check_whole() const {
  int64_t expected = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t length = length_of(i);
    CHECK_AS(ExitCode::Data, length >= 0 && offset_of(i) == expected,
             "{}: sequence {} of {} tokens begins at byte {}; back to back it would begin at {}",
             index_.path().string(), i, length, offset_of(i), expected);
    expected += length * size_of(type_);
    CHECK_AS(ExitCode::Data, expected <= bin_.size(), "{}: sequence {} ends at byte {}, but {} has {}",
             index_.path().string(), i, expected, bin_.path().string(), bin_.size());
  }
  for (int64_t i = 0; i < documents_; ++i) {
    CHECK_AS(ExitCode::Data, first_sequence_of(i) <= first_sequence_of(i + 1),
             "{}: document {} begins at sequence {} and the next at {}", index_.path().string(), i,
             first_sequence_of(i), first_sequence_of(i + 1));
  }
}

int64_t TokenFile::document_end(int64_t document) const {
  CHECK(document >= 0 && document < documents_, "document {} of {}", document, documents_);
  const int64_t sequence = first_sequence_of(document + 1);
  if (sequence == sequences_) return tokens_;
  CHECK_AS(ExitCode::Data, sequence >= 0 && sequence < sequences_,
           "{}: document {} ends at sequence {} of {}", index_.path().string(), document, sequence,
           sequences_);
  const int64_t offset = offset_of(sequence);
  CHECK_AS(ExitCode::Data, offset >= 0 && offset <= bin_.size() && offset % size_of(type_) == 0,
           "{}: sequence {} begins at byte {} of a .bin of {}", index_.path().string(), sequence, offset,
           bin_.size());
  return offset / size_of(type_);
}

void TokenFile::read(int64_t first, int64_t vocab_size, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  CHECK(first >= 0 && count <= tokens_ - first, "tokens {} to {} of {}", first, first + count, tokens_);
  visit_token_type(type_, [&]<class T>() {
    // The mapping begins on a page, so every token is aligned.
    const T* tokens = reinterpret_cast<const T*>(bin_.bytes().data()) + first;
    for (size_t i = 0; i < out.size(); ++i) {
      const auto id = static_cast<int64_t>(tokens[i]);
      CHECK_AS(ExitCode::Data, id >= 0 && id < vocab_size,
               "{}: token {} has id {}, outside the model's vocabulary of {}", bin_.path().string(),
               first + static_cast<int64_t>(i), id, vocab_size);
      out[i] = static_cast<int32_t>(id);
    }
  });
}

void TokenFile::read_mask(int64_t first, std::span<uint8_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  CHECK(mask_ && first >= 0 && count <= tokens_ - first, "mask of tokens {} to {} of {}", first,
        first + count, tokens_);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(mask_->bytes()[static_cast<size_t>(first) + i]);
    CHECK_AS(ExitCode::Data, out[i] <= 1, "{}: byte {} is {}; a mask holds 0 and 1", mask_->path().string(),
             first + static_cast<int64_t>(i), out[i]);
  }
}

void TokenFile::check_unchanged() const {
  index_.check_unchanged();
  bin_.check_unchanged();
  if (mask_) mask_->check_unchanged();
}

int64_t TokenFile::bytes() const {
  return index_.size() + bin_.size() + (mask_ ? mask_->size() : 0);
}

std::string TokenFile::fingerprint() const {
  Fingerprint mark;
  mark.add_content(index_.file());
  mark.add_content(bin_.file());
  if (mask_) mark.add_content(mask_->file());
  return mark.digits();
}

void TokenFile::read_note(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  const File file = File::open_to_read(path);
  std::string text(static_cast<size_t>(std::min<int64_t>(file.size(), 65536)), ' ');
  file.read(0, std::as_writable_bytes(std::span(text)));
  TokenFileNote note;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    note.tokenizer = json.at("tokenizer").get<std::string>();
    note.vocab_size = json.at("vocab_size").get<int64_t>();
    note.max_id = json.at("max_id").get<int64_t>();
    note.tokens = json.at("tokens").get<int64_t>();
    note.documents = json.at("documents").get<int64_t>();
    note.has_mask = json.value("loss_mask", false);
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::Data, "{} is damaged: {}", path.string(), error.what());
  }
  CHECK_AS(ExitCode::Data, note.tokens == tokens_ && note.documents == documents_,
           "{} speaks of {} tokens in {} documents, but {} has {} in {}: one of them is of other data",
           path.string(), note.tokens, note.documents, index_.path().string(), tokens_, documents_);
  note_ = note;
}

void TokenFile::open_mask(const std::filesystem::path& path) {
  const bool exists = std::filesystem::exists(path);
  CHECK_AS(ExitCode::Data, exists || !note_ || !note_->has_mask,
           "{} is missing: these tokens were written with a loss mask", path.string());
  CHECK_AS(ExitCode::Data, !exists || !note_ || note_->has_mask,
           "{} is of other tokens: {} was written without a loss mask", path.string(), bin_.path().string());
  if (!exists) return;
  mask_.emplace(path);
  CHECK_AS(ExitCode::Data, mask_->size() == tokens_, "{} has {} bytes for {} tokens", path.string(),
           mask_->size(), tokens_);
}

}  // namespace tessera
