// SPDX-License-Identifier: Apache-2.0
// Changes of the text before it is cut into words, in the order of the tokenizer file. Each segment of a
// document (the text between two added tokens) is changed on its own.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/tokenizer/pattern.h"
#include "framework/tokenizer/unicode.h"

namespace tessera {

struct PrependText {  // in front of a segment that is not empty
  std::string text;
};
struct ReplaceText {
  std::string from, to;
};
using NormalizerStep = std::variant<NormalForm, PrependText, ReplaceText>;

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  // Appends the changed `text` to `out`. Parts of a segment may be given one after the other when each but
  // the last is cut by cut(); `begins`: this part is the first.
  void apply(std::string_view text, bool begins, std::string& out) const;
  // How much of `text` may be changed before the rest of its segment is known.
  size_t cut(std::string_view text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace tessera
