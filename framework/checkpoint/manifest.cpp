// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/base/check.h"
#include "framework/checkpoint/coverage.h"
#include "framework/checkpoint/tensor_map.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "tessera checkpoint";
constexpr int64_t kVersion = 1;
constexpr int kDeepestJson = 64;
constexpr int64_t kLargestFile = int64_t{1} << 60;

// The frame around the body, whose exact bytes the checksum covers.
constexpr std::string_view kOpening = "{\"checksum\": \"xxh3-128:";
constexpr std::string_view kMiddle = "\",\n\"body\": ";
constexpr std::string_view kClosing = "}\n";

Json parsed(std::string_view text) {
  const auto shallow = [](int depth, Json::parse_event_t, Json&) {
    CHECK_AS(ExitCode::Data, depth <= kDeepestJson, "JSON nested deeper than {} levels", kDeepestJson);
    return true;
  };
  try {
    return Json::parse(text, shallow);
  } catch (const Json::exception& error) {
    fail(ExitCode::Data, "not valid JSON: {}", error.what());
  }
}

Json state_object(std::string_view state) {
  try {
    Json object = parsed(state);
    CHECK(object.is_object(), "the training state of a checkpoint must be a JSON object");
    return object;
  } catch (const Error& error) {
    fail(ExitCode::Communication, "the training state of a checkpoint must be a JSON object: {}",
         error.what());
  }
}

Json to_json(const StoredFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", to_hex(file.checksum)}};
}

Json to_json(const StoredPiece& piece) {
  return {{"part", piece.part},         {"dataset", piece.dataset},   {"position", piece.position},
          {"offset", piece.box.offset}, {"extent", piece.box.extent}, {"xxh3_128", to_hex(piece.checksum)}};
}

std::vector<Box> boxes_of(const StoredTensor& tensor) {
  std::vector<Box> boxes;
  boxes.reserve(tensor.pieces.size());
  for (const StoredPiece& piece : tensor.pieces) boxes.push_back(piece.box);
  return boxes;
}

Json to_json(const std::string& name, const StoredTensor& tensor) {
  const std::optional<std::string> fault = coverage_fault(tensor.shape, boxes_of(tensor));
  CHECK(!fault, "{} cannot be saved: {}", name, *fault);
  Json pieces = Json::array();
  for (const StoredPiece& piece : tensor.pieces) pieces.push_back(to_json(piece));
  return {{"name", name},
          {"dtype", name_of(tensor.dtype)},
          {"shape", std::vector<int64_t>(tensor.shape.dims().begin(), tensor.shape.dims().end())},
          {"covered_once", tensor.shape.elements()},
          {"pieces", std::move(pieces)}};
}

// --- reading ------------------------------------------------------------------------------------------

const Json& member(const Json& object, const char* key) {
  CHECK_AS(ExitCode::Data, object.is_object(), "'{}' is missing: its parent is not an object", key);
  const auto found = object.find(key);
  CHECK_AS(ExitCode::Data, found != object.end(), "'{}' is missing", key);
  return *found;
}

int64_t integer(const Json& value, const char* what, int64_t most) {
  CHECK_AS(ExitCode::Data, value.is_number_integer(), "'{}' is not an integer", what);
  // Integers above 2^63 arrive as unsigned numbers.
  const bool fits = !value.is_number_unsigned() ||
                    value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  CHECK_AS(ExitCode::Data, fits && value.get<int64_t>() >= 0 && value.get<int64_t>() <= most,
           "'{}' is {}, not between 0 and {}", what, value.dump(), most);
  return value.get<int64_t>();
}

const std::string& text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  CHECK_AS(ExitCode::Data, value.is_string(), "'{}' is not a string", key);
  return value.get_ref<const std::string&>();
}

const Json& list(const Json& object, const char* key) {
  const Json& value = member(object, key);
  CHECK_AS(ExitCode::Data, value.is_array(), "'{}' is not a list", key);
  return value;
}

std::vector<int64_t> dims(const Json& object, const char* key) {
  std::vector<int64_t> values;
  CHECK_AS(ExitCode::Data, list(object, key).size() <= Shape::kMaxRank, "'{}' has more than {} entries", key,
           Shape::kMaxRank);
  for (const Json& value : list(object, key)) values.push_back(integer(value, key, kLargestFile));
  return values;
}

StoredFile file_from(const Json& object, const std::string& expected_name) {
  StoredFile file;
  file.name = text(object, "name");
  CHECK_AS(ExitCode::Data, file.name == expected_name, "a file is named '{}' where '{}' belongs", file.name,
           expected_name);
  file.bytes = integer(member(object, "bytes"), "bytes", kLargestFile);
  file.checksum = digest_from_hex(text(object, "xxh3_128"));
  return file;
}

StoredPiece piece_from(const Json& object, const StoredTensor& tensor, const Manifest& manifest) {
  StoredPiece piece;
  CHECK_AS(ExitCode::Data, !manifest.parts.empty(), "there are pieces but no parts");
  piece.part = integer(member(object, "part"), "part", static_cast<int64_t>(manifest.parts.size()) - 1);
  piece.dataset = text(object, "dataset");
  piece.position = integer(member(object, "position"), "position", kLargestFile);
  piece.box = {dims(object, "offset"), dims(object, "extent")};
  piece.checksum = digest_from_hex(text(object, "xxh3_128"));
  // Extents within the shape, whose bytes were checked, so that the product below fits. The rest of "inside"
  // is part of the coverage proof.
  const auto rank = static_cast<size_t>(tensor.shape.rank());
  bool inside = piece.box.offset.size() == rank && piece.box.extent.size() == rank;
  for (size_t d = 0; inside && d < rank; ++d)
    inside = piece.box.extent[d] >= 1 && piece.box.extent[d] <= tensor.shape[static_cast<int>(d)];
  CHECK_AS(ExitCode::Data, inside, "a piece does not lie inside {}", tensor.shape.to_string());
  const int64_t bytes = piece.box.elements() * size_of(tensor.dtype);
  const StoredFile& part = manifest.parts[static_cast<size_t>(piece.part)];
  CHECK_AS(ExitCode::Data, bytes <= part.bytes && piece.position <= part.bytes - bytes,
           "a piece of {} bytes at {} does not lie inside {} of {} bytes", bytes, piece.position, part.name,
           part.bytes);
  return piece;
}

Shape shape_from(const Json& object, DType dtype) {
  const std::vector<int64_t> values = dims(object, "shape");
  int64_t bytes = size_of(dtype);
  bool fits = true;
  for (const int64_t value : values) fits = fits && !__builtin_mul_overflow(bytes, value, &bytes);
  CHECK_AS(ExitCode::Data, fits && bytes <= kLargestFile, "a shape is larger than {} bytes", kLargestFile);
  return Shape(std::span<const int64_t>(values));
}

void tensor_from(const Json& object, Manifest& manifest) {
  const std::string& name = text(object, "name");
  CHECK_AS(ExitCode::Data, is_tensor_name(name), "'{}' cannot be the name of a tensor", name);
  try {
    StoredTensor tensor;
    tensor.dtype = dtype_named(text(object, "dtype"));
    tensor.shape = shape_from(object, tensor.dtype);
    CHECK_AS(ExitCode::Data,
             integer(member(object, "covered_once"), "covered_once", kLargestFile) == tensor.shape.elements(),
             "'covered_once' is not its {} elements", tensor.shape.elements());
    for (const Json& piece : list(object, "pieces"))
      tensor.pieces.push_back(piece_from(piece, tensor, manifest));
    const std::optional<std::string> fault = coverage_fault(tensor.shape, boxes_of(tensor));
    CHECK_AS(ExitCode::Data, !fault, "{}", *fault);
    const bool fresh = manifest.tensors.emplace(name, std::move(tensor)).second;
    CHECK_AS(ExitCode::Data, fresh, "it is listed twice");
  } catch (const Error& error) {
    fail(ExitCode::Data, "tensor {}: {}", name, error.what());
  }
}

// The body whose checksum was right.
std::string_view checked_body(std::string_view whole) {
  const size_t frame = kOpening.size() + kDigestHexLength + kMiddle.size();
  CHECK_AS(ExitCode::Data,
           whole.size() >= frame + kClosing.size() && whole.starts_with(kOpening) &&
               whole.substr(kOpening.size() + kDigestHexLength).starts_with(kMiddle) &&
               whole.ends_with(kClosing),
           "it is cut short, damaged, or not a Tessera manifest");
  const Digest expected = digest_from_hex(whole.substr(kOpening.size(), kDigestHexLength));
  const std::string_view body = whole.substr(frame, whole.size() - frame - kClosing.size());
  CHECK_AS(ExitCode::Data, digest_of(body) == expected, "its checksum differs: it is damaged");
  return body;
}

}  // namespace

int64_t Manifest::bytes() const {
  int64_t total = index.bytes;
  for (const StoredFile& part : parts) total += part.bytes;
  return total;
}

std::string part_name(int64_t part) {
  return fmt::format("part_{:05}.h5", part);
}

std::string to_text(const Manifest& manifest) {
  // One line a part and a tensor, so that people and line tools can read it.
  std::string body = fmt::format(
      "{{\"format\": \"{}\", \"version\": {}, \"step\": {},\n\"state\": {},\n\"index\": {},\n\"parts\": [",
      kFormat, kVersion, manifest.step.value, state_object(manifest.state).dump(),
      to_json(manifest.index).dump());
  const char* separator = "\n";
  for (const StoredFile& part : manifest.parts) {
    body += std::exchange(separator, ",\n") + to_json(part).dump();
  }
  body += "],\n\"tensors\": [";
  separator = "\n";
  for (const auto& [name, tensor] : manifest.tensors) {
    body += std::exchange(separator, ",\n") + to_json(name, tensor).dump();
  }
  body += "]}";
  return fmt::format("{}{}{}{}{}", kOpening, to_hex(digest_of(body)), kMiddle, body, kClosing);
}

Manifest manifest_from_text(std::string_view whole) {
  const Json body = parsed(checked_body(whole));
  CHECK_AS(ExitCode::Data, text(body, "format") == kFormat, "its format is '{}', not '{}'",
           text(body, "format"), kFormat);
  const int64_t version = integer(member(body, "version"), "version", std::numeric_limits<int64_t>::max());
  CHECK_AS(ExitCode::Data, version == kVersion, "its format version is {}; this program reads version {}",
           version, kVersion);
  Manifest manifest;
  manifest.step = Steps(integer(member(body, "step"), "step", std::numeric_limits<int64_t>::max()));
  CHECK_AS(ExitCode::Data, member(body, "state").is_object(), "'state' is not an object");
  manifest.state = member(body, "state").dump();
  manifest.index = file_from(member(body, "index"), std::string(kIndexName));
  for (const Json& part : list(body, "parts"))
    manifest.parts.push_back(file_from(part, part_name(static_cast<int64_t>(manifest.parts.size()))));
  for (const Json& tensor : list(body, "tensors")) tensor_from(tensor, manifest);
  CHECK_AS(ExitCode::Data, !manifest.tensors.empty(), "it lists no tensors");
  return manifest;
}

std::vector<std::pair<std::string, StateValue>> values_of_state(std::string_view state) {
  std::vector<std::pair<std::string, StateValue>> values;
  const Json object = state_object(state);
  for (const auto& [key, value] : object.items()) {
    StateValue result;
    if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() >> 63 != 0)) {
      result.kind = StateValue::Kind::Integer;
      result.integer = value.get<int64_t>();
    } else if (value.is_number()) {
      result.kind = StateValue::Kind::Real;
      result.real = value.get<double>();
    } else {
      result.text = value.is_string() ? value.get<std::string>() : value.dump();
    }
    values.emplace_back(key, std::move(result));
  }
  return values;
}

}  // namespace tessera
