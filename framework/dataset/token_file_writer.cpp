// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/token_file_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/dataset/token_file_layout.h"

namespace tessera {

using namespace token_file_layout;

namespace {

constexpr size_t kTokenBuffer = size_t{1} << 20;  // bytes

template <class T>
void append_value(File& file, T value) {
  file.append(std::as_bytes(std::span(&value, 1)));
}

// Calls f with the values of a spilled array, some at a time.
template <class T, class F>
void for_each_part(SpilledArray<T>& array, F&& f) {
  array.flush();
  std::vector<T> part;
  for (int64_t done = 0; done < array.count(); done += static_cast<int64_t>(part.size())) {
    part.resize(static_cast<size_t>(std::min<int64_t>(65536, array.count() - done)));
    array.file().read(done * static_cast<int64_t>(sizeof(T)), std::as_writable_bytes(std::span(part)));
    f(std::span<const T>(part));
  }
}

}  // namespace

template <class T>
void SpilledArray<T>::push(T value) {
  buffer_.push_back(value);
  ++count_;
  if (buffer_.size() == kBuffered) flush();
}

template <class T>
void SpilledArray<T>::flush() {
  pending_.file().append(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& prefix, std::string tokenizer,
                                 int64_t vocab_size, int64_t longest_sequence)
    : prefix_(prefix),
      tokenizer_(std::move(tokenizer)),
      vocab_size_(vocab_size),
      longest_sequence_(longest_sequence),
      type_(token_type_for(vocab_size)),
      bin_(with_suffix(prefix, ".bin")),
      lengths_(with_suffix(prefix, ".lengths")),
      borders_(with_suffix(prefix, ".borders")) {
  CHECK(vocab_size >= 1 && vocab_size - 1 <= INT32_MAX, "a vocabulary of {}", vocab_size);
  CHECK(longest_sequence >= 1 && longest_sequence <= INT32_MAX, "sequences of {} tokens", longest_sequence);
  buffer_.reserve(kTokenBuffer);
}

template <class T>
void SpilledArray<T>::publish() {
  flush();
  pending_.publish();
}

void TokenFileWriter::keep_mask() {
  CHECK(tokens_ == 0, "a mask begins with the first token");
  mask_.emplace(with_suffix(prefix_, ".mask"));
}

void TokenFileWriter::add(std::span<const int32_t> ids, std::span<const uint8_t> mask) {
  CHECK(mask.size() == (mask_ ? ids.size() : 0), "a mask of {} for {} ids", mask.size(), ids.size());
  for (const uint8_t trained : mask) {
    CHECK(trained <= 1, "{} in a mask", trained);
    mask_->push(trained);
    trained_tokens_ += trained;
  }
  if (ids.empty()) return;
  int32_t low = ids[0], high = ids[0];
  for (const int32_t id : ids) {
    low = std::min(low, id);
    high = std::max(high, id);
  }
  CHECK_AS(ExitCode::Data, low >= 0 && high < vocab_size_,
           "{}: ids {} to {} at token {} do not lie in the vocabulary of {}", prefix_.string(), low, high,
           tokens_, vocab_size_);
  max_id_ = std::max<int64_t>(max_id_, high);
  while (!ids.empty()) {
    if (sequence_tokens_ == longest_sequence_) end_sequence();
    const size_t part = std::min(ids.size(), static_cast<size_t>(longest_sequence_ - sequence_tokens_));
    append(ids.first(part));
    sequence_tokens_ += static_cast<int64_t>(part);
    tokens_ += static_cast<int64_t>(part);
    ids = ids.subspan(part);
  }
}

void TokenFileWriter::append(std::span<const int32_t> ids) {
  visit_token_type(type_, [&]<class T>() {
    while (!ids.empty()) {
      const size_t room = (kTokenBuffer - buffer_.size()) / sizeof(T);
      if (room == 0) {
        flush_tokens();
        continue;
      }
      const size_t part = std::min(ids.size(), room), before = buffer_.size();
      buffer_.resize(before + part * sizeof(T));
      // Only whole tokens enter the buffer, so the place is aligned.
      T* to = reinterpret_cast<T*>(buffer_.data() + before);
      for (size_t i = 0; i < part; ++i) to[i] = static_cast<T>(ids[i]);
      ids = ids.subspan(part);
    }
  });
}

void TokenFileWriter::flush_tokens() {
  bin_.file().append(buffer_);
  buffer_.clear();
}

void TokenFileWriter::end_sequence() {
  lengths_.push(static_cast<int32_t>(sequence_tokens_));
  sequence_tokens_ = 0;
  document_has_sequence_ = true;
}

void TokenFileWriter::end_document() {
  if (sequence_tokens_ > 0 || !document_has_sequence_) end_sequence();
  borders_.push(lengths_.count());
  document_has_sequence_ = false;
}

void TokenFileWriter::finish() {
  CHECK(sequence_tokens_ == 0 && !document_has_sequence_, "{}: the last document was not ended",
        prefix_.string());
  flush_tokens();
  PendingFile note_file(with_suffix(prefix_, ".meta.json"));
  const std::string text = note();
  note_file.file().append(std::as_bytes(std::span(text)));
  PendingFile index(with_suffix(prefix_, ".idx"));
  write_index(index.file());

  // An older index or note must not stand beside the new tokens for a moment.
  std::filesystem::remove(with_suffix(prefix_, ".idx"));
  std::filesystem::remove(with_suffix(prefix_, ".meta.json"));
  std::filesystem::remove(with_suffix(prefix_, ".mask"));
  bin_.publish();
  if (mask_) mask_->publish();
  note_file.publish();
  index.publish();
  sync_folder(prefix_.parent_path());
}

void TokenFileWriter::write_index(File& index) {
  index.append(std::as_bytes(std::span(kMagic)));
  append_value(index, kVersion);
  append_value(index, static_cast<uint8_t>(type_));
  append_value(index, static_cast<uint64_t>(lengths_.count()));
  append_value(index, static_cast<uint64_t>(borders_.count() + 1));
  for_each_part(lengths_, [&](std::span<const int32_t> part) { index.append(std::as_bytes(part)); });
  int64_t offset = 0;
  std::vector<int64_t> offsets;
  for_each_part(lengths_, [&](std::span<const int32_t> part) {
    offsets.clear();
    for (const int32_t length : part) {
      offsets.push_back(offset);
      offset += length * size_of(type_);
    }
    index.append(std::as_bytes(std::span<const int64_t>(offsets)));
  });
  append_value(index, int64_t{0});
  for_each_part(borders_, [&](std::span<const int64_t> part) { index.append(std::as_bytes(part)); });
}

std::string TokenFileWriter::note() const {
  nlohmann::ordered_json json = {{"tokenizer", tokenizer_},
                                 {"vocab_size", vocab_size_},
                                 {"max_id", max_id_},
                                 {"tokens", tokens_},
                                 {"documents", documents()}};
  if (mask_) {
    json["loss_mask"] = true;
    json["trained_tokens"] = trained_tokens_;
  }
  return json.dump(2) + "\n";
}

template class SpilledArray<int32_t>;
template class SpilledArray<int64_t>;
template class SpilledArray<uint8_t>;

}  // namespace tessera
