// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/token_file.h"

#include <array>
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
    : index_(with_suffix(prefix, ".idx")),
      bin_(File::open_to_read(with_suffix(prefix, ".bin"))),
      index_path_(with_suffix(prefix, ".idx")),
      bin_bytes_(bin_.size()) {
  read_header();
  check_ends();
  if (static_cast<int64_t>(index_.bytes().size()) < kCheckedWhole) check_whole();
  read_note(with_suffix(prefix, ".meta.json"));
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
  const std::string path = index_path_.string();
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

  CHECK_AS(ExitCode::Data, bin_bytes_ % size_of(type_) == 0, "{} has {} bytes, no whole number of {} tokens",
           bin_.path().string(), bin_bytes_, name_of(type_));
  tokens_ = bin_bytes_ / size_of(type_);
}

void TokenFile::check_ends() const {
  const std::string path = index_path_.string();
  CHECK_AS(ExitCode::Data, first_sequence_of(0) == 0 && first_sequence_of(documents_) == sequences_,
           "{}: the documents cover sequences {} to {}, not 0 to {}", path, first_sequence_of(0),
           first_sequence_of(documents_), sequences_);
  int64_t end = 0;
  if (sequences_ > 0) {
    const int64_t last = sequences_ - 1;
    CHECK_AS(
        ExitCode::Data,
        offset_of(0) == 0 && length_of(last) >= 0 && offset_of(last) >= 0 && offset_of(last) <= bin_bytes_,
        "{}: the first sequence begins at byte {} and the last at {}, in a .bin of {}", path, offset_of(0),
        offset_of(last), bin_bytes_);
    end = offset_of(last) + length_of(last) * size_of(type_);
  }
  CHECK_AS(ExitCode::Data, end == bin_bytes_, "{} describes {} bytes of tokens, but {} has {}", path, end,
           bin_.path().string(), bin_bytes_);
}

void TokenFile::check_whole() const {
  int64_t expected = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t length = length_of(i);
    CHECK_AS(ExitCode::Data, length >= 0 && offset_of(i) == expected,
             "{}: sequence {} of {} tokens begins at byte {}; back to back it would begin at {}",
             index_path_.string(), i, length, offset_of(i), expected);
    expected += length * size_of(type_);
    CHECK_AS(ExitCode::Data, expected <= bin_bytes_, "{}: sequence {} ends at byte {}, but {} has {}",
             index_path_.string(), i, expected, bin_.path().string(), bin_bytes_);
  }
  for (int64_t i = 0; i < documents_; ++i) {
    CHECK_AS(ExitCode::Data, first_sequence_of(i) <= first_sequence_of(i + 1),
             "{}: document {} begins at sequence {} and the next at {}", index_path_.string(), i,
             first_sequence_of(i), first_sequence_of(i + 1));
  }
}

int64_t TokenFile::document_end(int64_t document) const {
  CHECK(document >= 0 && document < documents_, "document {} of {}", document, documents_);
  const int64_t sequence = first_sequence_of(document + 1);
  if (sequence == sequences_) return tokens_;
  CHECK_AS(ExitCode::Data, sequence >= 0 && sequence < sequences_,
           "{}: document {} ends at sequence {} of {}", index_path_.string(), document, sequence, sequences_);
  const int64_t offset = offset_of(sequence);
  CHECK_AS(ExitCode::Data, offset >= 0 && offset <= bin_bytes_ && offset % size_of(type_) == 0,
           "{}: sequence {} begins at byte {} of a .bin of {}", index_path_.string(), sequence, offset,
           bin_bytes_);
  return offset / size_of(type_);
}

void TokenFile::read(int64_t first, int64_t vocab_size, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  CHECK(first >= 0 && count <= tokens_ - first, "tokens {} to {} of {}", first, first + count, tokens_);
  visit_token_type(type_, [&]<class T>() {
    // Piece by piece through the stack: the type on disk is seldom that of the result.
    std::array<T, 4096> piece;
    for (int64_t done = 0; done < count;) {
      const int64_t part = std::min(count - done, static_cast<int64_t>(piece.size()));
      const std::span<T> values(piece.data(), static_cast<size_t>(part));
      bin_.read((first + done) * size_of(type_), std::as_writable_bytes(values));
      for (int64_t i = 0; i < part; ++i) {
        const auto id = static_cast<int64_t>(piece[static_cast<size_t>(i)]);
        CHECK_AS(ExitCode::Data, id >= 0 && id < vocab_size,
                 "{}: token {} has id {}, outside the model's vocabulary of {}", bin_.path().string(),
                 first + done + i, id, vocab_size);
        out[static_cast<size_t>(done + i)] = static_cast<int32_t>(id);
      }
      done += part;
    }
  });
}

std::string TokenFile::fingerprint() const {
  Fingerprint mark;
  mark.add_content(File::open_to_read(index_path_));
  mark.add_content(bin_);
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
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::Data, "{} is damaged: {}", path.string(), error.what());
  }
  CHECK_AS(ExitCode::Data, note.tokens == tokens_ && note.documents == documents_,
           "{} speaks of {} tokens in {} documents, but {} has {} in {}: one of them is of other data",
           path.string(), note.tokens, note.documents, index_path_.string(), tokens_, documents_);
  note_ = note;
}

}  // namespace tessera
