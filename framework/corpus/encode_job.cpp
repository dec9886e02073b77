// SPDX-License-Identifier: Apache-2.0
#include "framework/corpus/encode_job.h"

#include <algorithm>

#include "framework/tokenizer/utf8.h"

namespace tessera {

int64_t replace_invalid_utf8(std::string_view text, std::string& out) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  size_t valid = valid_utf8(text);
  if (valid == text.size()) return 0;
  out.clear();
  int64_t count = 0;
  while (true) {
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return count;
    out += kReplacement;
    ++count;
    text.remove_prefix(invalid_utf8(text));
    valid = valid_utf8(text);
  }
}

DocumentEncoder::DocumentEncoder(const Tokenizer& tokenizer, const DocumentOptions& options)
    : tokenizer_(tokenizer),
      options_(options),
      any_bytes_(tokenizer.type() == "bytes"),
      encoder_(tokenizer.encoder(options.controls)) {}

void DocumentEncoder::run(const EncodeJob& job, EncodedDocuments& result) {
  result.ids.reserve(job.text.size());  // about the most that comes of it: growing copies
  try {
    if (job.kind == EncodeJob::Kind::Text)
      run_text(job, result);
    else
      run_lines(job, result);
  } catch (const Error& error) {
    result.error = error;
  }
}

void DocumentEncoder::run_text(const EncodeJob& job, EncodedDocuments& result) {
  std::string_view text = job.text;
  if (!any_bytes_) {
    const size_t valid = valid_utf8(text);
    if (valid < text.size() && options_.invalid != Invalid::Replace)
      fail(ExitCode::Data,
           "{}: byte {} begins no UTF-8 character (--invalid replace writes U+FFFD there, skip leaves such "
           "files out)",
           job.file, job.place + static_cast<int64_t>(valid));
    const int64_t replaced = replace_invalid_utf8(text, repaired_);
    if (replaced > 0) text = repaired_;
    result.replaced += replaced;
  }
  if (!job.begins && !job.goes_on) encoder_->go_on();
  encoder_->add(text, result.ids);
  if (!job.breaks_off) encoder_->end(result.ids);
  if (job.ends)
    end_document(result);
  else
    result.documents.push_back({.end = result.ids.size(), .ends = false});
}

void DocumentEncoder::run_lines(const EncodeJob& job, EncodedDocuments& result) {
  std::string_view rest = job.text;
  for (int64_t number = job.place; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    run_line(line, fmt::format("{}:{}", job.file, number), result);
  }
}

void DocumentEncoder::run_line(std::string_view line, const std::string& place, EncodedDocuments& result) {
  int64_t replaced = 0;
  if (options_.invalid == Invalid::Replace) {
    replaced = replace_invalid_utf8(line, repaired_);
    if (replaced > 0) line = repaired_;
  }
  const size_t before = result.ids.size();
  bool read = false;
  switch (options_.form) {
    case LineForm::Text:
      read = json_.read(line, options_.text_key, text_, reason_);
      if (read && !text_.empty()) add_part(text_, true, true, result);
      break;
    case LineForm::Completion:
      read = add_completion(line, result);
      break;
    case LineForm::Chat:
      read = add_chat(line, result);
      break;
  }
  if (!read) return refuse(place, reason_, result);
  result.replaced += replaced;
  if (result.ids.size() == before)
    ++result.empty;
  else
    end_document(result);
}

// The end of the document, which end_document() adds, is learned with the completion: it says where to stop.
bool DocumentEncoder::add_completion(std::string_view line, EncodedDocuments& result) {
  if (!json_.read(line, "prompt", text_, reason_) || !json_.read(line, "completion", more_, reason_))
    return false;
  if (more_.empty()) return true;  // nothing to learn
  add_part(text_, false, true, result);
  add_part(more_, true, text_.empty(), result);
  return true;
}

bool DocumentEncoder::add_chat(std::string_view line, EncodedDocuments& result) {
  const ChatFormat& chat = options_.chat;
  if (!read_chat_messages(line, messages_, reason_)) return false;
  for (const ChatMessage& message : messages_)
    if (!chat.roles.contains(message.role)) {
      reason_ =
          fmt::format("no token is given for the role \"{}\" (--role {}=TOKEN)", message.role, message.role);
      return false;
    }
  bool first = true;
  for (const ChatMessage& message : messages_) {
    const bool learned = chat.learned.contains(message.role);
    add_control(chat.roles.at(message.role), false, result);
    add_part(message.content, learned, first, result);
    add_control(chat.end_of_turn, learned, result);
    first = false;
  }
  return true;
}

// A document's parts after its first are encoded as going on with it: nothing is put in front of them.
void DocumentEncoder::add_part(std::string_view text, bool learned, bool first, EncodedDocuments& result) {
  if (text.empty()) return;
  if (!first) encoder_->go_on();
  encoder_->add(text, result.ids);
  encoder_->end(result.ids);
  if (options_.form != LineForm::Text) result.mask.resize(result.ids.size(), learned ? 1 : 0);
}

void DocumentEncoder::add_control(int32_t id, bool learned, EncodedDocuments& result) const {
  result.ids.push_back(id);
  result.mask.push_back(learned ? 1 : 0);
}

void DocumentEncoder::refuse(const std::string& place, const std::string& reason,
                             EncodedDocuments& result) const {
  if (options_.invalid == Invalid::Fail)
    fail(ExitCode::Data, "{}: {} (--invalid skip leaves such lines out)", place, reason);
  ++result.broken;
  if (result.warnings.size() < kWarnings)
    result.warnings.push_back(fmt::format("{}: {}; left out", place, reason));
}

void DocumentEncoder::end_document(EncodedDocuments& result) {
  result.ids.push_back(tokenizer_.end_of_document());
  if (options_.form != LineForm::Text) result.mask.push_back(options_.form == LineForm::Completion ? 1 : 0);
  result.documents.push_back({.end = result.ids.size(), .ends = true});
}

}  // namespace tessera
