// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/bpe_encoder.h"

#include <algorithm>

#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

void replace_all(std::string_view text, const ReplaceText& rule, std::string& out) {
  out.clear();
  while (true) {
    const size_t at = text.find(rule.from);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return;
    out += rule.to;
    text.remove_prefix(at + rule.from.size());
  }
}

}  // namespace

BpeEncoder::BpeEncoder(const BpeTokenizer& tokenizer, const BpeTokenizer::Finders& finders)
    : tokenizer_(tokenizer),
      finders_(finders),
      cutter_(tokenizer.splits_),
      word_sink_([this](std::string_view text) { word(text); }) {}

void BpeEncoder::add(std::string_view text, std::vector<int32_t>& ids) {
  ids_ = &ids;
  if (raw_.text.empty()) {
    raw_.add(text.substr(take(text, true)));
    raw_.remove(0);
  } else if (raw_.add(text)) {
    raw_.remove(take(raw_.text, true));
  }
}

void BpeEncoder::end(std::vector<int32_t>& ids) {
  ids_ = &ids;
  take(raw_.text, false);
  end_segment();
  raw_ = {};
  document_begins_ = segment_begins_ = words_begin_ = true;
}

// Valid UTF-8 goes down; bytes that are none become the tokens of these bytes.
size_t BpeEncoder::take(std::string_view text, bool more) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t valid = at + valid_utf8(text.substr(at));
    const bool unfinished = valid < text.size() && more && utf8_length(text.substr(valid)) < 0;
    const bool goes_on = more && (valid == text.size() || unfinished);
    at += find_tokens(
        finders_.raw, text.substr(at, valid - at), goes_on,
        [&](std::string_view part) { segment_text(part); }, [&] { end_segment(); });
    if (goes_on || at == text.size()) return at;
    const size_t bad = invalid_utf8(text.substr(at));
    invalid_bytes(text.substr(at, bad));
    at += bad;
  }
  return at;
}

void BpeEncoder::invalid_bytes(std::string_view bytes) {
  end_segment();
  tokenizer_.model_.merge(bytes, *ids_, scratch_);
  document_begins_ = segment_begins_ = words_begin_ = false;
}

// Gives the text between added tokens to `give`, and ends what it belongs to where a token stands. Returns
// how much of `text` that was: with `more` text to come a token may begin near its end.
template <class Text, class End>
size_t BpeEncoder::find_tokens(const AddedTokenFinder& finder, std::string_view text, bool more, Text&& give,
                               End&& end) {
  size_t from = 0, limit = text.size();
  if (more && !finder.empty()) {
    limit -= std::min(limit, finder.reach() ? *finder.reach() - 1 : limit);
    while (limit > 0 && is_utf8_continuation(text[limit])) --limit;
  }
  while (!finder.empty()) {
    const auto found = finder.find(text, from);
    if (!found || found->begin >= limit) break;
    give(text.substr(from, found->begin - from));
    end();
    ids_->push_back(found->id);
    document_begins_ = false;
    from = found->end;
  }
  if (from < limit) give(text.substr(from, limit - from));
  return std::max(from, limit);
}

void BpeEncoder::segment_text(std::string_view text) {
  if (tokenizer_.normalizer_.empty()) return normalised_text(text, true);
  if (segment_.add(text)) normalise(true);
}

void BpeEncoder::normalise(bool more) {
  const size_t size = more ? tokenizer_.normalizer_.cut(segment_.text) : segment_.text.size();
  changed_.clear();
  if (size > 0) {
    tokenizer_.normalizer_.apply(std::string_view(segment_.text).substr(0, size), segment_begins_, changed_);
    segment_begins_ = false;
  }
  segment_.remove(size);
  normalised_text(changed_, more);
}

void BpeEncoder::end_segment() {
  if (!tokenizer_.normalizer_.empty()) normalise(false);
  normalised_text({}, false);
  end_words();
  segment_begins_ = true;
}

void BpeEncoder::normalised_text(std::string_view text, bool more) {
  if (finders_.normalised.empty()) return word_text(text);
  if (!searched_.add(text) && more) return;
  searched_.remove(find_tokens(
      finders_.normalised, searched_.text, more, [&](std::string_view part) { word_text(part); },
      [&] { end_words(); }));
}

void BpeEncoder::word_text(std::string_view text) {
  if (text.empty()) return;
  if (tokenizer_.space_) {
    replace_all(text, *tokenizer_.space_, spaced_);
    text = spaced_;
  }
  if (words_begin_) begin_words(text);
  words_begin_ = document_begins_ = false;
  if (words_.add(text)) cut_words(true);
}

void BpeEncoder::begin_words(std::string_view text) {
  const SegmentPrefix& prefix = tokenizer_.prefix_;
  const bool wanted = prefix.when == SegmentPrefix::When::EachSegment ||
                      (prefix.when == SegmentPrefix::When::FirstSegment && document_begins_);
  if (wanted && !text.starts_with(prefix.text)) words_.add(prefix.text);
}

void BpeEncoder::end_words() {
  cut_words(false);
  words_ = {};
  words_begin_ = true;
}

void BpeEncoder::cut_words(bool more) {
  words_.remove(tokenizer_.splits_.empty() ? cut_at_borders(words_.text, more)
                                           : cutter_.cut(words_.text, more, word_sink_));
}

// Without splits a segment is one word, which merges can be done in parts of.
size_t BpeEncoder::cut_at_borders(std::string_view text, bool more) {
  if (tokenizer_.model_.whole_words()) {
    if (more || text.empty()) return 0;
    word(text);
    return text.size();
  }
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = tokenizer_.model_.first_border(text.substr(at));
    if (more && at + size == text.size()) break;
    piece(text.substr(at, size), true);
    at += size;
  }
  return at;
}

void BpeEncoder::word(std::string_view word) {
  if (word.size() <= WordCache::kLongestWord) return piece(word, true);
  const int32_t whole = tokenizer_.model_.whole_words() ? tokenizer_.model_.find(word) : -1;
  if (whole >= 0) return ids_->push_back(whole);
  while (!word.empty()) {
    const size_t size = tokenizer_.model_.first_border(word);
    piece(word.substr(0, size), !tokenizer_.model_.whole_words());
    word.remove_prefix(size);
  }
}

// A word, or a part of one that is not looked up as a word.
void BpeEncoder::piece(std::string_view piece, bool whole_word) {
  if (!whole_word || piece.size() > WordCache::kLongestWord)
    return tokenizer_.model_.merge(piece, *ids_, scratch_);
  if (cache_.append(piece, *ids_)) return;
  const size_t before = ids_->size();
  const int32_t whole = tokenizer_.model_.whole_words() ? tokenizer_.model_.find(piece) : -1;
  if (whole >= 0)
    ids_->push_back(whole);
  else
    tokenizer_.model_.merge(piece, *ids_, scratch_);
  cache_.keep(std::span(*ids_).subspan(before));
}

}  // namespace tessera
