// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/normalizer.h"

#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

std::string replaced(std::string_view text, const ReplaceText& step) {
  std::string result;
  while (true) {
    const size_t at = text.find(step.from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += step.to;
    text.remove_prefix(at + step.from.size());
  }
}

std::string changed(std::string text, const NormalizerStep& step, bool begins) {
  if (const auto* form = std::get_if<NormalForm>(&step)) return normalized(text, *form);
  if (const auto* replace = std::get_if<ReplaceText>(&step)) return replaced(text, *replace);
  return begins && !text.empty() ? std::get<PrependText>(step).text + text : text;
}

}  // namespace

void Normalizer::apply(std::string_view text, bool begins, std::string& out) const {
  std::string result(text);
  for (const NormalizerStep& step : steps_) result = changed(std::move(result), step, begins);
  out += result;
}

size_t Normalizer::cut(std::string_view text) const {
  bool forms = false;
  for (const NormalizerStep& step : steps_) {
    forms = forms || std::holds_alternative<NormalForm>(step);
    const auto* replace = std::get_if<ReplaceText>(&step);
    // Two places of a longer text could lie on both sides of a cut.
    if (replace && utf8_length(replace->from) != static_cast<int>(replace->from.size())) return 0;
  }
  if (!forms) return text.size();
  for (size_t at = text.size(); at > 0;) {
    --at;
    if (is_utf8_continuation(text[at])) continue;
    const int length = utf8_length(text.substr(at, 4));
    if (length > 0 && begins_normal_text(utf8_value(text.data() + at, length))) return at;
  }
  return 0;
}

}  // namespace tessera
