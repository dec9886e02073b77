// SPDX-License-Identifier: Apache-2.0
// Conversations in JSONL: an object a line with "messages", a list of objects that have a "role" and a
// "content", both strings.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ChatMessage {
  std::string role, content;
};

// On failure `reason` says what is wrong. Other keys of the line are passed over; other keys of a message
// (tool calls, names, content that is a list of parts) are failures, as the conversation would read
// differently without them. Keys that stand twice, no message, and text that is no valid UTF-8 are failures,
// too.
bool read_chat_messages(std::string_view line, std::vector<ChatMessage>& messages, std::string& reason);

// The id of a control token by its name. Throws (exit 2) when the tokenizer has no such control token.
class Tokenizer;
int32_t control_id(const Tokenizer& tokenizer, std::string_view name);

}  // namespace tessera
