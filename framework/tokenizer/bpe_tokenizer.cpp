// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/bpe_tokenizer.h"

#include "framework/base/check.h"
#include "framework/tokenizer/bpe_encoder.h"

namespace tessera {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

// How a space is written in tokens: by the last rule that replaces one. " " where nothing does.
std::string written_space(const BpeDefinition& definition) {
  std::string written = " ";
  for (const NormalizerStep& step : definition.normalizer)
    if (const auto* replace = std::get_if<ReplaceText>(&step); replace && replace->from == written)
      written = replace->to;
  if (definition.space && definition.space->from == written) written = definition.space->to;
  return written;
}

std::string with_spaces(std::string text, const std::string& written) {
  if (written == " " || written.empty()) return text;
  for (size_t at = 0; (at = text.find(written, at)) != std::string::npos; ++at)
    text.replace(at, written.size(), " ");
  return text;
}

// What stands in front of every document, as decoding shows it.
std::string prefix_of(const BpeDefinition& definition) {
  std::string prefix;
  for (const NormalizerStep& step : definition.normalizer)
    if (const auto* prepend = std::get_if<PrependText>(&step)) prefix = prepend->text + prefix;
  if (definition.prefix.when != SegmentPrefix::When::Never) prefix = definition.prefix.text + prefix;
  return with_spaces(prefix, written_space(definition));
}

// Control tokens that are no text must not come from merges or whole words either.
BpeVocabulary without_controls(BpeVocabulary vocabulary, const std::vector<AddedToken>& added) {
  std::vector<bool> control(vocabulary.tokens.size());
  for (const AddedToken& token : added)
    if (token.control && static_cast<size_t>(token.id) < control.size())
      control[static_cast<size_t>(token.id)] = true;
  const auto is_control = [&](int32_t id) { return control[static_cast<size_t>(id)]; };
  std::erase_if(vocabulary.merges, [&](const Merge& merge) {
    return is_control(merge.left) || is_control(merge.right) || is_control(merge.result);
  });
  for (size_t id = 0; id < control.size(); ++id)
    if (control[id]) vocabulary.tokens[id].clear();
  return vocabulary;
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeDefinition definition)
    : name_(definition.name),
      vocab_size_(definition.vocab_size),
      end_of_document_(definition.end_of_document),
      model_(without_controls(std::move(definition.vocabulary), definition.added), definition.place),
      normalizer_(definition.normalizer),
      space_(definition.space),
      prefix_(definition.prefix),
      splits_(std::move(definition.splits)),
      plain_(find_in_text(definition.added, false)),
      with_controls_(find_in_text(definition.added, true)),
      document_prefix_(prefix_of(definition)),
      cuts_at_lines_(cuts_at_lines(definition)) {
  write_texts(definition);
}

BpeTokenizer::Finders BpeTokenizer::find_in_text(const std::vector<AddedToken>& added, bool controls) const {
  std::vector<AddedToken> raw, normalised;
  for (AddedToken token : added) {
    if (token.control && !controls) continue;
    if (!token.normalized) {
      raw.push_back(token);
      continue;
    }
    std::string text;
    normalizer_.apply(token.text, true, text);
    token.text = text;
    normalised.push_back(token);
  }
  return {.raw = AddedTokenFinder(raw), .normalised = AddedTokenFinder(normalised)};
}

void BpeTokenizer::write_texts(const BpeDefinition& definition) {
  const std::string written = written_space(definition);
  texts_.resize(static_cast<size_t>(vocab_size_));
  for (size_t id = 0; id < model_.tokens().size(); ++id) {
    const std::string& token = model_.tokens()[id];
    if (token.empty()) continue;
    const int byte = model_.byte_of(static_cast<int32_t>(id));
    texts_[id] = byte >= 0                   ? std::string(1, static_cast<char>(byte))
                 : model_.has_byte_symbols() ? token
                                             : with_spaces(token, written);
  }
  for (const AddedToken& token : definition.added)
    texts_[static_cast<size_t>(token.id)] = token.control ? "" : token.text;
}

std::unique_ptr<Encoder> BpeTokenizer::encoder(Controls controls) const {
  return std::make_unique<BpeEncoder>(*this, controls == Controls::AreText ? plain_ : with_controls_);
}

// Whether every document may be cut behind a line end between a printable ASCII character and an ASCII
// letter. In the known patterns no match holds a line end with a letter behind it, and a single line end is a
// word, or the end of one, whatever follows. Without a pattern the merges must not cross there, nor any added
// token.
bool BpeTokenizer::cuts_at_lines(const BpeDefinition& definition) const {
  for (const AddedToken& token : definition.added) {
    if (token.single_word || token.takes_left || token.takes_right) return false;
    if (token.text.find_first_of("\r\n") != std::string::npos) return false;
  }
  for (const NormalizerStep& step : definition.normalizer) {
    const auto* replace = std::get_if<ReplaceText>(&step);
    if (replace && replace->from != " ") return false;
  }
  if (!splits_.empty()) return splits_[0].breaks_lines && splits_.size() == 1;
  if (model_.whole_words()) return false;
  std::string pair = "\n?";
  for (const char letter : kLetters) {
    pair[1] = letter;
    if (model_.first_border(pair) != 1) return false;
  }
  return true;
}

size_t BpeTokenizer::last_cut(std::string_view text) const {
  if (!cuts_at_lines_) return 0;
  for (size_t at = text.rfind('\n'); at != std::string_view::npos && at > 0; at = text.rfind('\n', at - 1)) {
    if (at + 1 == text.size()) continue;
    const char before = text[at - 1], after = text[at + 1];
    if (before > ' ' && before < 0x7F && kLetters.find(after) != std::string_view::npos) return at + 1;
  }
  return 0;
}

std::string_view BpeTokenizer::text_of(int32_t id) const {
  CHECK_AS(ExitCode::Data, id >= 0 && id < vocab_size_,
           "token {} is not one of the tokenizer's (ids 0 to {})", id, vocab_size_ - 1);
  return texts_[static_cast<size_t>(id)];
}

}  // namespace tessera
