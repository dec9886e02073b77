// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "framework/tokenizer/bpe_patterns.h"
#include "framework/tokenizer/bpe_trainer.h"
#include "framework/tokenizer/byte_alphabet.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

ordered_json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

ordered_json control_token(int64_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

std::string write_tokenizer_json(const TrainedBpe& trained, const std::vector<std::string>& controls) {
  ordered_json::object_t vocab;
  ordered_json pairs = ordered_json::array();
  int64_t id = 0;
  // A list behind the interface of a map: its own insertion would look through all that is there.
  for (const std::string& token : trained.tokens) vocab.emplace_back(to_byte_alphabet(token), id++);
  for (const auto& [left, right] : trained.merges)
    pairs.push_back(ordered_json::array({to_byte_alphabet(left), to_byte_alphabet(right)}));
  ordered_json added = ordered_json::array({control_token(id++, "<|endoftext|>")});
  for (const std::string& control : controls) added.push_back(control_token(id++, control));
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", kCl100kPattern}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  const ordered_json model = {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", vocab},
                              {"merges", pairs}};
  const ordered_json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, byte_level(false)})}}},
      {"post_processor", nullptr},
      {"decoder", byte_level(true)},
      {"model", model}};
  return file.dump(1) + "\n";
}

}  // namespace tessera
