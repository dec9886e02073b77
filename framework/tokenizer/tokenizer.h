// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back. Plain text never becomes a control id, whatever it contains.
// decode(encode(text)) gives the same bytes, but for what the normalizer of a tokenizer file changes. A
// Tokenizer is immutable: threads may share one, each with an Encoder of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Encodes one document after the other, each in as many parts as the caller likes: the ids are those of the
// whole. Memory is that of the longest word. For one thread; the tokenizer must outlive it.
class Encoder {
 public:
  virtual ~Encoder() = default;
  virtual void add(std::string_view text,
                   std::vector<int32_t>& ids) = 0;  // appends the ids that are certain so far
  virtual void end(std::vector<int32_t>& ids) = 0;  // appends the rest of the document's
  // What comes next is no document but the rest of one that was cut at Tokenizer::last_cut().
  virtual void go_on() = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string_view type() const = 0;    // "bytes" or "bpe"
  virtual std::string name() const = 0;         // changes with every change of ids: what token files note
  virtual int64_t vocab_size() const = 0;       // ids are 0 to vocab_size() - 1
  virtual int32_t end_of_document() const = 0;  // a control id: ends each document of a token file

  enum class Controls : uint8_t { AreText, AreControls };  // what a control token's name in the text means
  virtual std::unique_ptr<Encoder> encoder(Controls controls = Controls::AreText) const = 0;

  // The last place in `text` where the document may be cut into two that are encoded apart, to the same ids;
  // 0 when none is known. For work on several threads.
  virtual size_t last_cut(std::string_view text) const = 0;

  // What one token adds to a text, perhaps only a part of a character; "" for control ids. Throws (exit 3)
  // for an id outside the vocabulary.
  virtual std::string_view text_of(int32_t id) const = 0;
  // What encoding puts in front of a document, and decoding takes away.
  virtual std::string_view document_prefix() const { return {}; }

  std::vector<int32_t> encode(std::string_view document) const;
  std::string decode(std::span<const int32_t> ids) const;  // the text of a document
};

// Ids one by one to text, whole characters only: for showing what a model writes. Bytes that are no UTF-8
// come out as they are, as soon as no character can be made of them.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string add(int32_t id);
  std::string end();  // what is left of a character that was not finished

 private:
  const Tokenizer& tokenizer_;
  std::string rest_;
};

struct TokenizerOptions {
  std::filesystem::path path;  // of "bpe": a tokenizer.json, a file of ranks, or a folder that holds one
  std::string
      end_of_document;  // the control token that ends a document; "": as the file or its neighbours say
  std::string pattern;  // of a file of ranks: the name of its pattern; "": known from the number of ranks
};

// `type` is a value of the config key tokenizer.type. Throws (exit 2) for others and for options that
// contradict it, (exit 3) when the file is missing, damaged, or has parts that are not known.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view type, const TokenizerOptions& options = {});

}  // namespace tessera
