// SPDX-License-Identifier: Apache-2.0
// One piece of the work of tokenizing: some documents, or a part of a long one, and the ids that come of it.
// Jobs are independent, so threads may do them in any order; their results are written in the order of the
// input.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/base/check.h"
#include "framework/corpus/chat_lines.h"
#include "framework/corpus/json_lines.h"
#include "framework/tokenizer/tokenizer.h"

namespace tessera {

enum class Invalid : uint8_t { Fail, Skip, Replace };  // what to do with text that cannot be read

// What a JSONL line is: a text; a prompt and its completion; or the messages of a conversation. Of the last
// two only completions, and messages of some roles, are to be learned, and a mask says so.
enum class LineForm : uint8_t { Text, Completion, Chat };

// How a conversation is put together: for each message the control token of its role, the content, and the
// control token that ends a turn.
struct ChatFormat {
  std::map<std::string, int32_t> roles;
  int32_t end_of_turn = 0;
  std::set<std::string> learned = {"assistant"};  // roles whose content and end of turn are to be learned
};

struct DocumentOptions {
  LineForm form = LineForm::Text;
  std::string text_key = "text";  // where the text of a JSONL line stands
  ChatFormat chat;
  Invalid invalid = Invalid::Fail;
  Tokenizer::Controls controls = Tokenizer::Controls::AreText;
};

struct EncodeJob {
  enum class Kind : uint8_t { Text, Lines };

  Kind kind = Kind::Text;
  std::string text;   // a part of a document, or whole lines
  std::string file;   // for messages
  int64_t place = 0;  // of its first byte in the file (text), or of its first line, from 1 (lines)
  bool begins = true, ends = true;  // text: the document
  // Text that could not be cut where parts are independent: the encoder that did the job before must do this
  // one.
  bool goes_on = false, breaks_off = false;  // breaks_off: the next job goes on
  int64_t input_bytes = 0;                   // of the file, read when the job was made
};

struct EncodedDocuments {
  struct Document {
    size_t end = 0;     // in ids
    bool ends = false;  // false: goes on in the next job
  };
  std::vector<int32_t> ids;   // with the end-of-document token behind each document that ends
  std::vector<uint8_t> mask;  // of each id, 1 when it is to be learned; empty for LineForm::Text
  std::vector<Document> documents;
  int64_t empty = 0, broken = 0,
          replaced = 0;               // documents left out; ill-formed sequences that U+FFFD replaced
  std::vector<std::string> warnings;  // the first few about broken documents
  std::optional<Error> error;         // the first; nothing behind it was done
};

// For one thread.
class DocumentEncoder {
 public:
  static constexpr size_t kWarnings = 10;  // of one job

  DocumentEncoder(const Tokenizer& tokenizer, const DocumentOptions& options);

  // Never throws for what stands in the input: that is in the result.
  void run(const EncodeJob& job, EncodedDocuments& result);

 private:
  void run_text(const EncodeJob& job, EncodedDocuments& result);
  void run_lines(const EncodeJob& job, EncodedDocuments& result);
  void run_line(std::string_view line, const std::string& place, EncodedDocuments& result);
  bool add_completion(std::string_view line, EncodedDocuments& result);
  bool add_chat(std::string_view line, EncodedDocuments& result);
  void add_part(std::string_view text, bool learned, bool first, EncodedDocuments& result);
  void add_control(int32_t id, bool learned, EncodedDocuments& result) const;
  void refuse(const std::string& place, const std::string& reason, EncodedDocuments& result) const;
  void end_document(EncodedDocuments& result);

  const Tokenizer& tokenizer_;
  const DocumentOptions& options_;
  bool any_bytes_;  // the tokenizer takes bytes that are no UTF-8 for text
  std::unique_ptr<Encoder> encoder_;
  JsonTextReader json_;
  std::string text_, more_, reason_, repaired_;
  std::vector<ChatMessage> messages_;
};

// `text` with U+FFFD for each ill-formed sequence of UTF-8 in `out`; returns how many there were, 0: `out` is
// not set.
int64_t replace_invalid_utf8(std::string_view text, std::string& out);

}  // namespace tessera
