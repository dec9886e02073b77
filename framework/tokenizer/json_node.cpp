// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/json_node.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"

namespace tessera {

bool JsonNode::is_null() const {
  return value_->is_null();
}

bool JsonNode::is_string() const {
  return value_->is_string();
}

bool JsonNode::is_object() const {
  return value_->is_object();
}

void JsonNode::refuse(std::string_view reason) const {
  fail(ExitCode::Data, "{}: {}", place_, reason);
}

void JsonNode::allow_keys(std::initializer_list<std::string_view> keys) const {
  if (!is_object()) refuse(fmt::format("is {} and no object", value_->type_name()));
  for (const auto& [key, value] : value_->items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      refuse(fmt::format("the key \"{}\" is not known here", key));
}

JsonNode JsonNode::at(std::string_view key) const {
  if (!is_object()) refuse(fmt::format("is {} and no object", value_->type_name()));
  const auto found = value_->find(key);
  if (found == value_->end()) refuse(fmt::format("\"{}\" is missing", key));
  return {*found, fmt::format("{}/{}", place_, key)};
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!is_object()) refuse(fmt::format("is {} and no object", value_->type_name()));
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonNode(*found, fmt::format("{}/{}", place_, key));
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_->is_array()) refuse(fmt::format("is {} and no array", value_->type_name()));
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i)
    nodes.emplace_back((*value_)[i], fmt::format("{}/{}", place_, i));
  return nodes;
}

std::string JsonNode::string() const {
  if (!is_string()) refuse(fmt::format("is {} and no string", value_->type_name()));
  return value_->get<std::string>();
}

int64_t JsonNode::integer(int64_t lowest, int64_t highest) const {
  if (!value_->is_number_integer()) refuse(fmt::format("is {} and no integer", value_->type_name()));
  const bool fits =
      !value_->is_number_unsigned() || value_->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  const int64_t number = fits ? value_->get<int64_t>() : INT64_MAX;
  if (number < lowest || number > highest)
    refuse(fmt::format("{} is not in {} to {}", value_->dump(), lowest, highest));
  return number;
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) refuse(fmt::format("is {} and neither true nor false", value_->type_name()));
  return value_->get<bool>();
}

std::string JsonNode::string(std::string_view key, std::string_view absent) const {
  const auto node = find(key);
  return node ? node->string() : std::string(absent);
}

bool JsonNode::boolean(std::string_view key, bool absent) const {
  const auto node = find(key);
  return node ? node->boolean() : absent;
}

}  // namespace tessera
