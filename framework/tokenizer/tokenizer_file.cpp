// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/tokenizer_file.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/tokenizer/rank_file.h"
#include "framework/tokenizer/tokenizer_json.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// A vocabulary of a million tokens with all its merges has about 100 MB.
constexpr uintmax_t kLargestFile = uintmax_t{1} << 30;

fs::path file_in(const fs::path& path) {
  CHECK_AS(ExitCode::Data, fs::exists(path), "the tokenizer {} does not exist", path.string());
  if (!fs::is_directory(path)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (fs::exists(path / name)) return path / name;
  fail(ExitCode::Data, "{} holds no tokenizer.json", path.string());
}

std::string content_of(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  CHECK_AS(ExitCode::Data, !error, "cannot read the tokenizer {}: {}", path.string(), error.message());
  CHECK_AS(ExitCode::Data, size <= kLargestFile, "{} has {} bytes: that is no tokenizer", path.string(),
           size);
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<size_t>(size), '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  CHECK_AS(ExitCode::Data, in.good() || size == 0, "cannot read the tokenizer {}", path.string());
  return text;
}

// The name of the end token in tokenizer_config.json beside the file: a string, or an object with "content".
std::string configured_end(const fs::path& file) {
  const fs::path path = file.parent_path() / "tokenizer_config.json";
  if (!fs::exists(path)) return {};
  const auto json = nlohmann::json::parse(content_of(path), nullptr, false);
  CHECK_AS(ExitCode::Data, json.is_object(), "{} is no JSON object", path.string());
  const auto end = json.find("eos_token");
  if (end == json.end()) return {};
  if (end->is_object() && end->contains("content") && end->at("content").is_string())
    return end->at("content");
  return end->is_string() ? end->get<std::string>() : std::string();
}

const AddedToken* control_named(const BpeDefinition& definition, std::string_view name) {
  for (const AddedToken& token : definition.added)
    if (token.control && token.text == name) return &token;
  return nullptr;
}

std::string names_of_controls(const BpeDefinition& definition) {
  std::string names;
  constexpr size_t kMost = 20;
  size_t count = 0;
  for (const AddedToken& token : definition.added) {
    if (!token.control || ++count > kMost) continue;
    names += (names.empty() ? "" : ", ") + token.text;
  }
  if (count > kMost) names += fmt::format(" and {} more", count - kMost);
  return names.empty() ? "none" : names;
}

int32_t end_of_document(const BpeDefinition& definition, const TokenizerOptions& options,
                        const fs::path& file) {
  const auto named = [&](const std::string& name, std::string_view by) {
    const AddedToken* const token = control_named(definition, name);
    CHECK_AS(ExitCode::Data, token,
             "{}: {} says that {} ends a document, which is no control token (those are: {})", file.string(),
             by, name, names_of_controls(definition));
    return token->id;
  };
  if (!options.end_of_document.empty()) return named(options.end_of_document, "tokenizer.end_of_document");
  if (const std::string name = configured_end(file); !name.empty())
    return named(name, "tokenizer_config.json");
  constexpr std::array kUsual = {"<|endoftext|>", "<|end_of_text|>",     "</s>",
                                 "<eos>",         "<|end▁of▁sentence|>", "<｜end▁of▁sentence｜>"};
  for (const char* name : kUsual)
    if (const AddedToken* const token = control_named(definition, name)) return token->id;
  fail(ExitCode::Data,
       "{}: no control token is known to end a document; name it in tokenizer.end_of_document: {}",
       file.string(), names_of_controls(definition));
}

std::string hash_of(std::string_view content) {
  return fmt::format("{:016x}", XXH3_64bits(content.data(), content.size()));
}

}  // namespace

BpeDefinition read_tokenizer_file(const TokenizerOptions& options) {
  const fs::path file = file_in(options.path);
  const std::string content = content_of(file);
  const size_t first = content.find_first_not_of(" \t\r\n");
  CHECK_AS(ExitCode::Data, first != std::string::npos, "{} is empty", file.string());
  const bool json = content[first] == '{';
  CHECK_AS(ExitCode::Usage, !json || options.pattern.empty(),
           "tokenizer.pattern is for files of ranks; {} has its own patterns", file.string());
  BpeDefinition definition = json ? read_tokenizer_json(content, file.string())
                                  : read_rank_file(content, file.string(), options.pattern);
  definition.place = file.string();
  definition.end_of_document = end_of_document(definition, options, file);
  definition.name = fmt::format("bpe {}", hash_of(content + '\0' + options.pattern));
  return definition;
}

}  // namespace tessera
