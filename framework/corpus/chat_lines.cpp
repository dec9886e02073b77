// SPDX-License-Identifier: Apache-2.0
#include "framework/corpus/chat_lines.h"

#include <nlohmann/json.hpp>
#include <set>

#include "framework/base/check.h"
#include "framework/tokenizer/tokenizer.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// The line as JSON, or discarded with a reason.
Json parse_line(std::string_view line, std::string& reason) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second &&
        twice.empty())
      twice = parsed.get<std::string>();
    return true;
  };
  try {
    Json json = Json::parse(line.begin(), line.end(), watch);
    if (twice.empty()) return json;
    reason = fmt::format("\"{}\" stands twice", twice);
  } catch (const Json::exception& error) {
    reason = error.what();
  }
  return Json(Json::value_t::discarded);
}

bool read_message(const Json& json, size_t number, ChatMessage& message, std::string& reason) {
  const auto wrong = [&](std::string_view what) {
    reason = fmt::format("message {}: {}", number, what);
    return false;
  };
  if (!json.is_object()) return wrong("not a JSON object");
  for (const char* key : {"role", "content"}) {
    if (!json.contains(key)) return wrong(fmt::format("no \"{}\"", key));
    if (!json.at(key).is_string()) return wrong(fmt::format("\"{}\" is not a string", key));
  }
  for (const auto& [key, value] : json.items())
    if (key != "role" && key != "content") return wrong(fmt::format("\"{}\" is not read", key));
  message = {.role = json.at("role").get<std::string>(), .content = json.at("content").get<std::string>()};
  return true;
}

}  // namespace

bool read_chat_messages(std::string_view line, std::vector<ChatMessage>& messages, std::string& reason) {
  messages.clear();
  const Json json = parse_line(line, reason);
  if (json.is_discarded()) return false;
  const bool has = json.is_object() && json.contains("messages");
  if (!has || !json.at("messages").is_array() || json.at("messages").empty()) {
    reason = !json.is_object() ? "not a JSON object"
             : !has            ? "no \"messages\""
                               : "\"messages\" is no list, or an empty one";
    return false;
  }
  for (const Json& message : json.at("messages")) {
    messages.emplace_back();
    if (!read_message(message, messages.size(), messages.back(), reason)) return false;
  }
  return true;
}

int32_t control_id(const Tokenizer& tokenizer, std::string_view name) {
  std::vector<int32_t> ids;
  const auto encoder = tokenizer.encoder(Tokenizer::Controls::AreControls);
  encoder->add(name, ids);
  encoder->end(ids);
  CHECK_AS(ExitCode::Usage, ids.size() == 1 && tokenizer.text_of(ids[0]).empty(),
           "\"{}\" is no control token of {}", name, tokenizer.name());
  return ids[0];
}

}  // namespace tessera
