// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "framework/base/check.h"
#include "framework/tokenizer/byte_alphabet.h"
#include "framework/tokenizer/json_node.h"
#include "framework/tokenizer/tokenizer_json_parts.h"

namespace tessera {
namespace {

nlohmann::json parsed(std::string_view content, const std::string& file) {
  try {
    return nlohmann::json::parse(content);
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::Data, "{}: {}", file, error.what());
  }
}

constexpr int64_t kMostTokens = 16'000'000;

class VocabularyReader {
 public:
  VocabularyReader(const JsonNode& model, bool byte_level) : byte_level_(byte_level) {
    read_tokens(model.at("vocab"));
    read_merges(model.at("merges"));
  }

  BpeVocabulary vocabulary;
  std::unordered_map<std::string, int32_t> ids;  // as the file writes the tokens

 private:
  void read_tokens(const JsonNode& vocab) {
    if (!vocab.is_object()) vocab.refuse("is no object");
    for (const auto& [text, value] : vocab.value().items()) {
      const JsonNode node(value, fmt::format("{}/{}", vocab.place(), text));
      const auto id = static_cast<size_t>(node.integer(0, kMostTokens));
      std::vector<std::string>& tokens = vocabulary.tokens;
      if (text.empty()) node.refuse("an empty token");
      if (id >= tokens.size()) tokens.resize(id + 1);
      if (!tokens[id].empty()) node.refuse(fmt::format("id {} is also that of another token", id));
      // Names of control tokens need not be written in the alphabet.
      tokens[id] = byte_level_ ? from_byte_alphabet(text).value_or(text) : text;
      ids.emplace(text, static_cast<int32_t>(id));
    }
    // Many ids without a token are no vocabulary but an attempt to fill the memory.
    if (vocabulary.tokens.size() > 2 * ids.size() + 65536)
      vocab.refuse(fmt::format("{} tokens have ids up to {}", ids.size(), vocabulary.tokens.size() - 1));
  }

  void read_merges(const JsonNode& merges) {
    if (!merges.value().is_array()) merges.refuse("is no array");
    int32_t rank = 0;
    for (const nlohmann::json& value : merges.value()) {
      const auto [left, right] = halves(value, merges, rank);
      const auto id = [&](const std::string& text) {
        const auto found = ids.find(text);
        if (found == ids.end())
          at(value, merges, rank).refuse(fmt::format("\"{}\" is not in the vocabulary", text));
        return found->second;
      };
      vocabulary.merges.push_back(
          {.left = id(left), .right = id(right), .result = id(left + right), .rank = rank});
      ++rank;
    }
  }

  static JsonNode at(const nlohmann::json& value, const JsonNode& merges, int32_t rank) {
    return {value, fmt::format("{}/{}", merges.place(), rank)};
  }

  // "a b", or ["a", "b"].
  static std::pair<std::string, std::string> halves(const nlohmann::json& value, const JsonNode& merges,
                                                    int32_t rank) {
    if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string())
      return {value[0].get<std::string>(), value[1].get<std::string>()};
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
        return {text.substr(0, space), text.substr(space + 1)};
    }
    at(value, merges, rank).refuse("is neither \"LEFT RIGHT\" nor [\"LEFT\", \"RIGHT\"]");
  }

  bool byte_level_;
};

// Parts of a BPE model that change what text becomes, and that no family of the known ones uses.
void refuse_unknown_model(const JsonNode& model) {
  model.allow_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                    "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const auto type = model.find("type"); type && type->string() != "BPE")
    type->refuse(fmt::format("\"{}\" is not built; \"BPE\" is", type->string()));
  if (const auto dropout = model.find("dropout"); dropout && dropout->value() != 0.0)
    dropout->refuse("dropout makes ids a matter of chance");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.string(key, "").empty()) model.at(key).refuse("marks inside of words are not known");
  (void)model.string("unk_token", "");  // never needed: every byte has a token
  (void)model.boolean("fuse_unk", false);
}

void read_added_tokens(const JsonNode& root, const std::unordered_map<std::string, int32_t>& ids,
                       BpeDefinition& definition) {
  const auto list = root.find("added_tokens");
  if (!list) return;
  std::unordered_set<std::string> seen;
  std::unordered_set<int32_t> seen_ids;
  for (const JsonNode& node : list->elements()) {
    node.allow_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token{.text = node.at("content").string(),
                     .id = static_cast<int32_t>(node.at("id").integer(0, kMostTokens)),
                     .control = node.boolean("special", false)};
    token.normalized = node.boolean("normalized", !token.control);
    token.single_word = node.boolean("single_word", false);
    token.takes_left = node.boolean("lstrip", false);
    token.takes_right = node.boolean("rstrip", false);
    if (token.text.empty()) node.refuse("an added token without text");
    const std::vector<std::string>& tokens = definition.vocabulary.tokens;
    const auto found = ids.find(token.text);
    if (found != ids.end() && found->second != token.id)
      node.refuse(fmt::format("\"{}\" has the id {} here and {} in the vocabulary", token.text, token.id,
                              found->second));
    const auto at = static_cast<size_t>(token.id);
    if (found == ids.end() && at < tokens.size() && !tokens[at].empty())
      node.refuse(fmt::format("id {} is another token in the vocabulary", token.id));
    if (!seen.insert(token.text).second || !seen_ids.insert(token.id).second) node.refuse("stands twice");
    definition.added.push_back(std::move(token));
  }
}

}  // namespace

BpeDefinition read_tokenizer_json(std::string_view content, const std::string& file) {
  const nlohmann::json json = parsed(content, file);
  const JsonNode root(json, file + ": ");
  root.allow_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                   "post_processor", "decoder", "model"});
  if (const std::string version = root.string("version", "1.0"); version != "1.0")
    root.at("version").refuse(fmt::format("version {} is not known", version));
  for (const char* key : {"truncation", "padding"})
    if (const auto part = root.find(key)) part->refuse("cuts or fills documents; set it to null");
  const JsonNode model = root.at("model");
  refuse_unknown_model(model);

  BpeDefinition definition;
  const bool byte_level = read_pre_tokenizer(root.find("pre_tokenizer"), definition);
  if (!byte_level && !model.boolean("byte_fallback", false))
    model.refuse(
        "neither a ByteLevel pre-tokenizer nor byte_fallback: characters without a token would be lost");
  VocabularyReader reader(model, byte_level);
  definition.vocabulary = std::move(reader.vocabulary);
  definition.vocabulary.symbols =
      byte_level ? BpeVocabulary::Symbols::Bytes : BpeVocabulary::Symbols::Characters;
  definition.vocabulary.whole_words = model.boolean("ignore_merges", false);
  read_normalizer(root.find("normalizer"), definition);
  check_decoder(root.find("decoder"), byte_level);
  check_post_processor(root.find("post_processor"));
  read_added_tokens(root, reader.ids, definition);
  definition.vocab_size = static_cast<int64_t>(definition.vocabulary.tokens.size());
  for (const AddedToken& token : definition.added)
    definition.vocab_size = std::max<int64_t>(definition.vocab_size, token.id + 1);
  return definition;
}

}  // namespace tessera
