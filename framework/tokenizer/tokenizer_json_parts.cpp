// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/tokenizer_json_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/tokenizer/bpe_patterns.h"

namespace tessera {
namespace {

[[noreturn]] void refuse_type(const JsonNode& node) {
  node.at("type").refuse(fmt::format("\"{}\" is not built", node.type()));
}

// The elements of a Sequence, at any depth, in their order.
void flatten(const JsonNode& node, std::string_view list, std::vector<JsonNode>& out) {
  if (node.type() != "Sequence") return out.push_back(node);
  node.allow_keys({"type", list});
  for (const JsonNode& element : node.at(list).elements()) flatten(element, list, out);
}

std::vector<JsonNode> steps_of(const std::optional<JsonNode>& node, std::string_view list) {
  std::vector<JsonNode> steps;
  if (node) flatten(*node, list, steps);
  return steps;
}

Split::Matches behavior_of(const JsonNode& node, bool invert) {
  const std::string name = node.string("behavior", "Isolated");
  if (name == "Isolated") return Split::Matches::Alone;
  // What stands outside of the pattern is kept here: no text is lost.
  if (name == "Removed" && invert) return Split::Matches::Alone;
  if (!invert && name == "MergedWithPrevious") return Split::Matches::WithPrevious;
  if (!invert && name == "MergedWithNext") return Split::Matches::WithNext;
  if (name == "Contiguous") return Split::Matches::Joined;
  node.at("behavior").refuse(fmt::format("\"{}\"{} is not built", name, invert ? " with invert" : ""));
}

Split split_of(const JsonNode& node) {
  node.allow_keys({"type", "pattern", "behavior", "invert"});
  const JsonNode pattern = node.at("pattern");
  pattern.allow_keys({"Regex", "String"});
  const auto regex = pattern.find("Regex");
  const bool invert = node.boolean("invert", false);
  const Split::Matches matches = behavior_of(node, invert);
  if (!regex) return {.pattern = TextPattern::literal(pattern.at("String").string()), .matches = matches};
  const std::string text = regex->string();
  return {.pattern = TextPattern(text, regex->place()),
          .matches = matches,
          .breaks_lines = matches == Split::Matches::Alone && is_known_pattern(text)};
}

class PreTokenizerReader {
 public:
  explicit PreTokenizerReader(BpeDefinition& definition) : definition_(definition) {}

  bool byte_level = false;

  void add(const JsonNode& node) {
    if (byte_level) node.refuse("stands behind ByteLevel, which must be the last");
    const std::string type = node.type();
    if (type == "Split") {
      definition_.splits.push_back(split_of(node));
    } else if (type == "ByteLevel") {
      add_byte_level(node);
    } else if (type == "Digits") {
      node.allow_keys({"type", "individual_digits"});
      add_pattern(node.boolean("individual_digits", false) ? "\\p{N}" : "\\p{N}+", node);
    } else if (type == "Punctuation") {
      node.allow_keys({"type", "behavior"});
      definition_.splits.push_back(
          {.pattern = TextPattern(kPunctuationPattern, node.place()), .matches = behavior_of(node, false)});
    } else if (type == "Metaspace") {
      add_metaspace(node);
    } else {
      refuse_type(node);
    }
    first_ = false;
  }

 private:
  void add_pattern(std::string_view pattern, const JsonNode& node) {
    definition_.splits.push_back(
        {.pattern = TextPattern(pattern, node.place()), .breaks_lines = is_known_pattern(pattern)});
  }

  void add_prefix(const JsonNode& node, SegmentPrefix::When when, const std::string& text) {
    if (when != SegmentPrefix::When::Never && !first_)
      node.refuse("puts a space in front of words that another pre-tokenizer made");
    definition_.prefix = {.when = when, .text = text};
  }

  void add_byte_level(const JsonNode& node) {
    node.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    (void)node.boolean("trim_offsets", true);  // about places in the text, not ids
    if (node.boolean("add_prefix_space", true)) add_prefix(node, SegmentPrefix::When::EachSegment, " ");
    if (node.boolean("use_regex", true)) add_pattern(kGpt2Pattern, node);
    byte_level = true;
  }

  void add_metaspace(const JsonNode& node) {
    node.allow_keys({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"});
    const std::string space = node.at("replacement").string();
    if (!first_) node.refuse("must be the first pre-tokenizer");
    const std::string when =
        node.string("prepend_scheme", node.boolean("add_prefix_space", true) ? "always" : "never");
    if (when != "always" && when != "first" && when != "never")
      node.at("prepend_scheme").refuse(fmt::format("\"{}\" is none of always, first, never", when));
    definition_.space = ReplaceText{.from = " ", .to = space};
    add_prefix(node,
               when == "always"  ? SegmentPrefix::When::EachSegment
               : when == "first" ? SegmentPrefix::When::FirstSegment
                                 : SegmentPrefix::When::Never,
               space);
    if (node.boolean("split", true))
      definition_.splits.push_back(
          {.pattern = TextPattern::literal(space), .matches = Split::Matches::WithNext});
  }

  BpeDefinition& definition_;
  bool first_ = true;
};

ReplaceText replace_of(const JsonNode& node) {
  node.allow_keys({"type", "pattern", "content"});
  const JsonNode pattern = node.at("pattern");
  pattern.allow_keys({"String", "Regex"});
  if (const auto regex = pattern.find("Regex")) regex->refuse("replacing by a pattern is not built");
  ReplaceText replace{.from = pattern.at("String").string(), .to = node.at("content").string()};
  if (replace.from.empty()) pattern.refuse("replaces the empty text");
  if (replace.to.empty()) node.at("content").refuse("would lose text");
  return replace;
}

}  // namespace

bool read_pre_tokenizer(const std::optional<JsonNode>& node, BpeDefinition& definition) {
  PreTokenizerReader reader(definition);
  for (const JsonNode& step : steps_of(node, "pretokenizers")) reader.add(step);
  return reader.byte_level;
}

void read_normalizer(const std::optional<JsonNode>& node, BpeDefinition& definition) {
  for (const JsonNode& step : steps_of(node, "normalizers")) {
    const std::string type = step.type();
    constexpr std::pair<std::string_view, NormalForm> kForms[] = {{"NFC", NormalForm::Nfc},
                                                                  {"NFD", NormalForm::Nfd},
                                                                  {"NFKC", NormalForm::Nfkc},
                                                                  {"NFKD", NormalForm::Nfkd}};
    const auto* const form = std::find_if(std::begin(kForms), std::end(kForms),
                                          [&](const auto& known) { return known.first == type; });
    if (form != std::end(kForms)) {
      step.allow_keys({"type"});
      definition.normalizer.emplace_back(form->second);
    } else if (type == "Prepend") {
      step.allow_keys({"type", "prepend"});
      definition.normalizer.emplace_back(PrependText{step.at("prepend").string()});
    } else if (type == "Replace") {
      definition.normalizer.emplace_back(replace_of(step));
    } else {
      refuse_type(step);
    }
  }
}

void check_decoder(const std::optional<JsonNode>& node, bool byte_level) {
  for (const JsonNode& step : steps_of(node, "decoders")) {
    const std::string type = step.type();
    if (type == "ByteLevel") {
      step.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      if (!byte_level) step.refuse("the pre-tokenizer is no ByteLevel");
    } else if (byte_level) {
      refuse_type(step);
    } else if (type == "Replace") {
      (void)replace_of(step);
    } else if (type == "ByteFallback" || type == "Fuse") {
      step.allow_keys({"type"});
    } else if (type == "Strip") {
      step.allow_keys({"type", "content", "start", "stop"});
    } else if (type == "Metaspace") {
      step.allow_keys({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"});
    } else {
      refuse_type(step);
    }
  }
}

void check_post_processor(const std::optional<JsonNode>& node) {
  for (const JsonNode& step : steps_of(node, "processors")) {
    const std::string type = step.type();
    if (type != "ByteLevel" && type != "TemplateProcessing") refuse_type(step);
  }
}

}  // namespace tessera
