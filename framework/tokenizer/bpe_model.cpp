// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/bpe_model.h"

#include <algorithm>
#include <functional>

#include "framework/base/check.h"
#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

// Up to here looking at every pair again is faster than a heap.
constexpr size_t kShort = 32;

std::string_view character_at(std::string_view text) {
  const int length = utf8_length(text.substr(0, 4));
  return text.substr(0, static_cast<size_t>(std::max(length, 1)));
}

std::string_view last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && is_utf8_continuation(text[begin])) --begin;
  return text.substr(begin);
}

}  // namespace

BpeModel::BpeModel(BpeVocabulary vocabulary, std::string_view place)
    : symbols_(vocabulary.symbols),
      tokens_(std::move(vocabulary.tokens)),
      whole_words_(vocabulary.whole_words) {
  ids_.reserve(tokens_.size());
  ascii_.fill(-1);
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& text = tokens_[id];
    if (text.empty()) continue;
    ids_.emplace(text, static_cast<int32_t>(id));
    const int length = utf8_length(text);
    if (static_cast<size_t>(std::max(length, 0)) != text.size()) continue;
    const char32_t character = utf8_value(text.data(), length);
    characters_[character] = static_cast<int32_t>(id);
    if (character < ascii_.size()) ascii_[character] = static_cast<int32_t>(id);
  }
  find_byte_tokens(place);
  add_merges(vocabulary.merges);
}

void BpeModel::find_byte_tokens(std::string_view place) {
  byte_of_token_.assign(tokens_.size(), -1);
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    const std::string text =
        has_byte_symbols() ? std::string(1, static_cast<char>(byte)) : fmt::format("<0x{:02X}>", byte);
    const int32_t id = find(text);
    CHECK_AS(ExitCode::Data, id >= 0, "{}: no token for the byte 0x{:02X}: some texts could not be encoded",
             place, byte);
    byte_tokens_[byte] = id;
    byte_of_token_[static_cast<size_t>(id)] = static_cast<int16_t>(byte);
  }
}

void BpeModel::add_merges(std::span<const Merge> merges) {
  merges_.reserve(merges.size());
  for (const Merge& merge : merges) {
    Joined& joined = merges_[pair_key(merge.left, merge.right)];
    joined = {.rank = merge.rank, .result = merge.result};
    add_border(tokens_[static_cast<size_t>(merge.left)], tokens_[static_cast<size_t>(merge.right)]);
    // Bytes of a character that has no token of its own: nobody's files join them, so their borders are not
    // kept.
    if (byte_of(merge.left) >= 0 || byte_of(merge.right) >= 0) joins_byte_tokens_ = true;
  }
}

void BpeModel::add_border(std::string_view left, std::string_view right) {
  const auto symbol = [&](std::string_view character) {
    return has_byte_symbols() ? byte_tokens_[static_cast<unsigned char>(character[0])]
                              : character_symbol(character);
  };
  const int32_t a = symbol(has_byte_symbols() ? left.substr(left.size() - 1) : last_character(left));
  const int32_t b = symbol(character_at(right));
  if (a >= 0 && b >= 0) crossed_[pair_key(a, b)] = true;  // without symbols no text leads to this merge
}

int32_t BpeModel::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

// -1 when the character is written by its bytes.
int32_t BpeModel::character_symbol(std::string_view character) const {
  const auto first = static_cast<unsigned char>(character[0]);
  if (first < ascii_.size()) return ascii_[first];
  if (utf8_length(character) <= 0) return -1;
  const int32_t* const id =
      characters_.find(utf8_value(character.data(), static_cast<int>(character.size())));
  return id ? *id : -1;
}

void BpeModel::symbols_of(std::string_view word, std::vector<int32_t>& ids) const {
  const auto append_bytes = [&](std::string_view bytes) {
    for (const char byte : bytes) ids.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
  };
  if (has_byte_symbols()) return append_bytes(word);
  while (!word.empty()) {
    const std::string_view character = character_at(word);
    const int32_t id = character_symbol(character);
    if (id >= 0)
      ids.push_back(id);
    else
      append_bytes(character);
    word.remove_prefix(character.size());
  }
}

size_t BpeModel::first_border(std::string_view word) const {
  if (joins_byte_tokens_) return word.size();
  const auto symbol = [&](std::string_view character, bool last) {
    const int32_t id = has_byte_symbols() ? -1 : character_symbol(character);
    return id >= 0 ? id
                   : byte_tokens_[static_cast<unsigned char>(last ? character.back() : character.front())];
  };
  const auto next = [&](size_t at) {
    return has_byte_symbols() ? word.substr(at, 1) : character_at(word.substr(at));
  };
  std::string_view left = next(0);
  for (size_t at = left.size(); at < word.size();) {
    const std::string_view right = next(at);
    if (!crossed_.find(pair_key(symbol(left, true), symbol(right, false)))) return at;
    at += right.size();
    left = right;
  }
  return word.size();
}

const BpeModel::Joined* BpeModel::joined(int32_t left, int32_t right) const {
  return merges_.find(pair_key(left, right));
}

int32_t BpeModel::rank_of(int32_t left, int32_t right) const {
  const Joined* const merge = joined(left, right);
  return merge ? merge->rank : kNoRank;
}

void BpeModel::merge(std::string_view word, std::vector<int32_t>& ids, MergeScratch& scratch) const {
  scratch.ids.clear();
  symbols_of(word, scratch.ids);
  if (scratch.ids.size() <= kShort)
    merge_short(scratch);
  else
    merge_long(scratch);
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
}

void BpeModel::merge_short(MergeScratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids;
  std::vector<int32_t>& ranks = scratch.ranks;  // ranks[i]: of ids[i] and ids[i + 1]
  ranks.clear();
  for (size_t i = 0; i + 1 < ids.size(); ++i) ranks.push_back(rank_of(ids[i], ids[i + 1]));
  while (!ranks.empty()) {
    const auto lowest = std::min_element(ranks.begin(), ranks.end());
    if (*lowest == kNoRank) return;
    const auto at = static_cast<size_t>(lowest - ranks.begin());
    ids[at] = joined(ids[at], ids[at + 1])->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    ranks.erase(lowest);
    if (at > 0) ranks[at - 1] = rank_of(ids[at - 1], ids[at]);
    if (at < ranks.size()) ranks[at] = rank_of(ids[at], ids[at + 1]);
  }
}

// Notes the rank of symbol `index` and the one behind it, and queues the pair when some merge joins it.
void BpeModel::push(MergeScratch& scratch, int32_t index) const {
  MergeScratch::Symbol& symbol = scratch.symbols[static_cast<size_t>(index)];
  symbol.rank =
      symbol.next < 0 ? kNoRank : rank_of(symbol.id, scratch.symbols[static_cast<size_t>(symbol.next)].id);
  if (symbol.rank == kNoRank) return;
  scratch.heap.push_back(static_cast<uint64_t>(symbol.rank) << 32 | static_cast<uint32_t>(index));
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
}

void BpeModel::merge_long(MergeScratch& scratch) const {
  const size_t count = scratch.ids.size();
  CHECK_AS(ExitCode::Data, count < INT32_MAX, "a word of {} symbols", count);
  std::vector<MergeScratch::Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& heap = scratch.heap;
  symbols.resize(count);
  heap.clear();
  for (size_t i = 0; i < count; ++i) {
    const auto index = static_cast<int32_t>(i);
    const bool last = i + 1 == count;
    const int32_t rank = last ? kNoRank : rank_of(scratch.ids[i], scratch.ids[i + 1]);
    symbols[i] = {.id = scratch.ids[i], .previous = index - 1, .next = last ? -1 : index + 1, .rank = rank};
    if (rank != kNoRank) heap.push_back(static_cast<uint64_t>(rank) << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto index = static_cast<int32_t>(top & UINT32_MAX);
    MergeScratch::Symbol& left = symbols[static_cast<size_t>(index)];
    if (static_cast<uint64_t>(left.rank) != top >> 32) continue;  // one of the two was joined to another
    MergeScratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    left.id = joined(left.id, right.id)->result;
    left.next = right.next;
    right.rank = kNoRank;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = index;
    push(scratch, index);
    if (left.previous >= 0) push(scratch, left.previous);
  }
  scratch.ids.clear();
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
    scratch.ids.push_back(symbols[static_cast<size_t>(i)].id);
  if (symbols.capacity() * sizeof(MergeScratch::Symbol) > (size_t{64} << 20))
    scratch = {.ids = std::move(scratch.ids)};
}

}  // namespace tessera
