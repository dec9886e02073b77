// SPDX-License-Identifier: Apache-2.0
// `tessera checkpoint inspect|verify|diff`: looks at, proves and compares checkpoints, without ranks and
// without loading a model.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/checkpoint/compare.h"
#include "framework/checkpoint/load.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct CheckpointArguments {
  std::string folder, other;
  bool json = false, bitwise = false;
};

constexpr const char* kCheckpointExamples = R"(examples:
  tessera checkpoint inspect runs/tiny                 the newest checkpoint of a run
  tessera checkpoint verify runs/tiny/checkpoints/step_00000100
  tessera checkpoint diff runs/a runs/b --bitwise

A folder is a checkpoint's, or a run's: then its newest checkpoint is meant. Exit code 3: missing or damaged.)";

std::string shape_text(const Shape& shape) {
  return shape.to_string();
}

std::string size_text(int64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump());
}

// --- inspect ------------------------------------------------------------------------------------------

Json inspect_json(const fs::path& folder, const Manifest& manifest) {
  Json json;
  json["path"] = folder.string();
  json["step"] = manifest.step.value;
  json["bytes"] = manifest.bytes();
  json["state"] = Json::parse(manifest.state);
  json["parts"] = Json::array();
  for (const StoredFile& part : manifest.parts)
    json["parts"].push_back({{"name", part.name}, {"bytes", part.bytes}});
  json["tensors"] = Json::array();
  for (const auto& [name, tensor] : manifest.tensors)
    json["tensors"].push_back(
        {{"name", name},
         {"dtype", name_of(tensor.dtype)},
         {"shape", std::vector<int64_t>(tensor.shape.dims().begin(), tensor.shape.dims().end())},
         {"bytes", tensor.bytes()},
         {"pieces", tensor.pieces.size()}});
  return json;
}

// The trainer's state, a line a member; a long one (the config) keeps its own lines, indented.
void print_state(const Manifest& manifest) {
  for (const auto& [name, value] : values_of_state(manifest.state)) {
    switch (value.kind) {
      case StateValue::Kind::Integer:
        fmt::print("{:<14} {}\n", name, value.integer);
        break;
      case StateValue::Kind::Real:
        fmt::print("{:<14} {}\n", name, value.real);
        break;
      case StateValue::Kind::Text:
        if (value.text.find('\n') == std::string::npos) {
          fmt::print("{:<14} {}\n", name, value.text);
          break;
        }
        fmt::print("{}\n", name);
        for (size_t begin = 0; begin < value.text.size();) {
          const size_t end = std::min(value.text.find('\n', begin), value.text.size());
          fmt::print("    {}\n", value.text.substr(begin, end - begin));
          begin = end + 1;
        }
        break;
    }
  }
}

int inspect(const CheckpointArguments& arguments) {
  const fs::path folder = checkpoint_folder(arguments.folder);
  const Manifest manifest = read_manifest(folder);
  if (arguments.json) {
    print_json(inspect_json(folder, manifest));
    return 0;
  }
  fmt::print("{}\n{:<14} {}\n", folder.string(), "step", manifest.step.value);
  print_state(manifest);
  struct Group {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<std::string, Group> groups;
  fmt::print("\n{:<58} {:>6} {:>20} {:>12} {:>7}\n", "tensor", "type", "shape", "bytes", "pieces");
  for (const auto& [name, tensor] : manifest.tensors) {
    fmt::print("{:<58} {:>6} {:>20} {:>12} {:>7}\n", name, name_of(tensor.dtype), shape_text(tensor.shape),
               tensor.bytes(), tensor.pieces.size());
    Group& group = groups[name.substr(0, name.rfind('/') == std::string::npos ? 0 : name.rfind('/'))];
    ++group.tensors;
    group.elements += tensor.shape.elements();
    group.bytes += tensor.bytes();
  }
  fmt::print("\n");
  for (const auto& [name, group] : groups)
    fmt::print("{:<14} {} tensors, {} elements, {}\n", name, group.tensors, group.elements,
               size_text(group.bytes));
  fmt::print("{:<14} {} parts and index.h5, {}\n", "files", manifest.parts.size(),
             size_text(manifest.bytes()));
  return 0;
}

// --- verify -------------------------------------------------------------------------------------------

// Throws at the first fault. The manifest's own checksum and the coverage are checked by reading it.
Manifest verified(const fs::path& folder) {
  Manifest manifest = read_manifest(folder);
  check_file(folder, manifest.index);
  for (const StoredFile& part : manifest.parts) check_file(folder, part);
  return manifest;
}

int verify(const CheckpointArguments& arguments) {
  const fs::path folder = checkpoint_folder(arguments.folder);
  const Manifest manifest = verified(folder);
  int64_t pieces = 0;
  for (const auto& [name, tensor] : manifest.tensors) {
    check_pieces(folder, manifest, name);
    pieces += static_cast<int64_t>(tensor.pieces.size());
  }
  if (arguments.json) {
    print_json({{"path", folder.string()},
                {"step", manifest.step.value},
                {"verified", true},
                {"files", manifest.parts.size() + 2},
                {"tensors", manifest.tensors.size()},
                {"pieces", pieces},
                {"bytes", manifest.bytes()}});
  } else {
    fmt::print(
        "{}: whole. Step {}, {} files of {}, {} tensors in {} pieces, each element stored exactly once\n",
        folder.string(), manifest.step.value, manifest.parts.size() + 2, size_text(manifest.bytes()),
        manifest.tensors.size(), pieces);
  }
  return 0;
}

// --- diff ---------------------------------------------------------------------------------------------

Json finite_or_text(double value) {
  return std::isfinite(value) ? Json(value) : Json("infinity");
}

Json diff_json(const Comparison& comparison, const CheckpointArguments& arguments) {
  Json json{{"equal", comparison.equal(arguments.bitwise)},
            {"bitwise", arguments.bitwise},
            {"only_in_a", comparison.only_in_a},
            {"only_in_b", comparison.only_in_b}};
  json["tensors"] = Json::array();
  for (const TensorDifference& tensor : comparison.tensors) {
    if (tensor.same_bits()) continue;
    Json entry{{"name", tensor.name},
               {"dtype", {name_of(tensor.dtype_a), name_of(tensor.dtype_b)}},
               {"shape", {shape_text(tensor.shape_a), shape_text(tensor.shape_b)}}};
    if (tensor.comparable()) {
      entry["elements"] = tensor.elements;
      entry["different_bits"] = tensor.different_bits;
      entry["different_values"] = tensor.different_values;
      entry["max_absolute"] = finite_or_text(tensor.max_absolute);
      entry["max_relative"] = finite_or_text(tensor.max_relative);
    }
    json["tensors"].push_back(std::move(entry));
  }
  return json;
}

void print_difference(const TensorDifference& tensor) {
  if (!tensor.comparable()) {
    fmt::print("{:<58} shape {} and {}\n", tensor.name, shape_text(tensor.shape_a),
               shape_text(tensor.shape_b));
    return;
  }
  if (tensor.dtype_a != tensor.dtype_b)
    fmt::print("{:<58} type {} and {}\n", tensor.name, name_of(tensor.dtype_a), name_of(tensor.dtype_b));
  if (tensor.different_bits > 0)
    fmt::print("{:<58} {} of {} elements differ, by at most {:.3e}, relative {:.3e}\n", tensor.name,
               tensor.different_bits, tensor.elements, tensor.max_absolute, tensor.max_relative);
}

int diff(const CheckpointArguments& arguments) {
  const fs::path folder_a = checkpoint_folder(arguments.folder),
                 folder_b = checkpoint_folder(arguments.other);
  const Manifest a = verified(folder_a), b = verified(folder_b);
  const Comparison comparison = compare_checkpoints(folder_a, a, folder_b, b);
  if (arguments.json) {
    print_json(diff_json(comparison, arguments));
    return 0;
  }
  fmt::print("a: {}, step {}\nb: {}, step {}\n", folder_a.string(), a.step.value, folder_b.string(),
             b.step.value);
  for (const std::string& name : comparison.only_in_a) fmt::print("{:<58} only in a\n", name);
  for (const std::string& name : comparison.only_in_b) fmt::print("{:<58} only in b\n", name);
  for (const TensorDifference& tensor : comparison.tensors) print_difference(tensor);
  const bool equal = comparison.equal(arguments.bitwise);
  fmt::print("{}: {} tensors in both\n",
             equal ? (arguments.bitwise ? "equal bit for bit" : "equal in value") : "different",
             comparison.tensors.size());
  return 0;
}

}  // namespace

int checkpoint_command(std::span<const std::string> arguments) {
  CheckpointArguments read;
  CLI::App app{"Looks at, proves and compares checkpoints.", "tessera checkpoint"};
  app.footer(kCheckpointExamples);
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* command = app.add_subcommand(name, help);
    command->footer(kCheckpointExamples);
    command->add_flag("--json", read.json, "One JSON object on stdout");
    command->add_option("folder", read.folder, "A checkpoint's or a run's folder")->required();
    return command;
  };
  const CLI::App* inspect_app = add("inspect", "Step, state, tensors and sizes (reads the manifest only)");
  const CLI::App* verify_app = add("verify", "Checks every checksum, and that each element is stored once");
  CLI::App* diff_app = add("diff", "Compares the tensors of two checkpoints");
  diff_app->add_option("other", read.other, "The checkpoint to compare with")->required();
  diff_app->add_flag("--bitwise", read.bitwise, "Equal means the same bits: -0 is not 0, NaN has a payload");
  CLI::App* reshard_app = app.add_subcommand("reshard", "(later)");
  reshard_app->allow_extras();
  if (const std::optional<int> answered = parse(app, arguments)) return *answered;
  CHECK_AS(ExitCode::Usage, !*reshard_app,
           "tessera checkpoint reshard is not built yet; a checkpoint needs no resharding to be loaded on "
           "another mesh");
  if (*inspect_app) return inspect(read);
  return *verify_app ? verify(read) : diff(read);
}

}  // namespace tessera::tools
