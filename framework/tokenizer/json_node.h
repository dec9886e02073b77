// SPDX-License-Identifier: Apache-2.0
// A part of a JSON document that knows where it stands, for strict readers: whoever reads an object names all
// the keys that it may have. Faults are Errors (exit 3) with file and place.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string place) : value_(&value), place_(std::move(place)) {}

  const std::string& place() const { return place_; }
  const nlohmann::json& value() const { return *value_; }
  bool is_null() const;
  bool is_string() const;
  bool is_object() const;

  // This is an object, and has no keys but these.
  void allow_keys(std::initializer_list<std::string_view> keys) const;
  JsonNode at(std::string_view key) const;                   // must be there
  std::optional<JsonNode> find(std::string_view key) const;  // none: absent or null
  std::vector<JsonNode> elements() const;                    // of an array
  std::string string() const;
  int64_t integer(int64_t lowest, int64_t highest) const;
  bool boolean() const;
  std::string string(std::string_view key, std::string_view absent) const;
  bool boolean(std::string_view key, bool absent) const;
  std::string type() const { return at("type").string(); }

  [[noreturn]] void refuse(std::string_view reason) const;

 private:
  const nlohmann::json* value_;
  std::string place_;
};

}  // namespace tessera
