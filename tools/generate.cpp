// SPDX-License-Identifier: Apache-2.0
// `tessera generate`: samples text from a checkpoint.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/base/check.h"
#include "framework/base/cores.h"
#include "framework/checkpoint/load.h"
#include "framework/comm/in_process/in_process.h"
#include "framework/config/load.h"
#include "framework/train/data_feed.h"
#include "framework/train/generator.h"
#include "framework/train/launch.h"
#include "framework/train/resume.h"
#include "models/registry.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

namespace fs = std::filesystem;

struct GenerateArguments {
  std::string checkpoint, prompt;
  int64_t max_tokens = 200;
  SamplingOptions sampling;
  bool json = false;
};

constexpr const char* kGenerateExamples = R"(examples:
  tessera generate --checkpoint runs/tiny --prompt "Once upon a time"
  tessera generate --checkpoint runs/tiny/checkpoints/step_00000100 --prompt "It was" --temperature 0
equal seeds give equal text; a text longer than the model's context goes on from its latest half)";

std::optional<int> read_arguments(std::span<const std::string> arguments, GenerateArguments& read) {
  CLI::App app{"Samples text from a checkpoint.", "tessera generate"};
  app.footer(kGenerateExamples);
  app.add_option("--checkpoint", read.checkpoint,
                 "A run folder (its newest checkpoint) or a checkpoint folder")
      ->required();
  app.add_option("--prompt", read.prompt, "Text to go on from")->required();
  app.add_option("--max-tokens", read.max_tokens, "Tokens to draw (200)")->check(CLI::NonNegativeNumber);
  app.add_option("--temperature", read.sampling.temperature, "0 takes the likeliest token (1)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--top-k", read.sampling.top_k, "Only the k likeliest tokens; 0: all (0)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", read.sampling.top_p, "Only the likeliest that together reach p (1)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", read.sampling.seed, "Seed of the draws (1234)");
  app.add_flag("--json", read.json, "One JSON object on stdout instead of the text");
  return parse(app, arguments);
}

Checkpoint open(const fs::path& folder, Communicator& world, Log& log) {
  CHECK_AS(ExitCode::Data, fs::is_directory(folder), "{}: there is no such folder", folder.string());
  if (fs::exists(folder / "manifest.json")) return open_checkpoint(folder, world, log);
  const fs::path directory = fs::is_directory(folder / "checkpoints") ? folder / "checkpoints" : folder;
  const auto newest = find_newest(directory, world, log);
  CHECK_AS(ExitCode::Data, newest.has_value(), "there is no checkpoint under {}", folder.string());
  return *newest;
}

void load_values(Generator& generator, const Checkpoint& checkpoint, Communicator& world, Backend& backend) {
  TensorMap wanted;
  for (const Parameter& parameter : generator.store().parameters())
    wanted["parameters/" + parameter.spec.name] = {
        .dtype = parameter.value.dtype(),
        .shape = parameter.spec.shape,
        .pieces = {{.box = parameter.box, .data = parameter.value}}};
  load_tensors(checkpoint, wanted, world, backend);
}

struct Generated {
  std::vector<int32_t> tokens;
  double seconds = 0;
};

Generated run(Generator& generator, const Tokenizer& tokenizer, const GenerateArguments& arguments) {
  std::vector<int32_t> prompt = tokenizer.encode(arguments.prompt);
  if (prompt.empty()) prompt.push_back(tokenizer.end_of_document());
  Generated result;
  StreamDecoder text(tokenizer);
  const auto start = std::chrono::steady_clock::now();
  generator.generate(prompt, arguments.max_tokens, arguments.sampling, [&](int32_t token) {
    if (token == tokenizer.end_of_document()) return false;
    result.tokens.push_back(token);
    if (!arguments.json) {
      fmt::print("{}", text.add(token));
      std::fflush(stdout);
    }
    return true;
  });
  if (!arguments.json) fmt::print("{}", text.end());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

// Unlike the text of a document, it begins as it goes on from the prompt.
std::string continuation(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) text += tokenizer.text_of(token);
  return text;
}

void print_json(const Generated& generated, const Tokenizer& tokenizer, const GenerateArguments& arguments,
                Steps step) {
  nlohmann::ordered_json json;
  json["step"] = step.value;
  json["prompt"] = arguments.prompt;
  json["text"] = continuation(tokenizer, generated.tokens);
  json["tokens"] = generated.tokens;
  json["tokens_per_second"] = static_cast<double>(generated.tokens.size()) / generated.seconds;
  // A byte model may stop in the middle of a character: such bytes are replaced, the token ids are exact.
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int generate_command(std::span<const std::string> command_line) {
  GenerateArguments arguments;
  if (const auto answered = read_arguments(command_line, arguments)) return *answered;
  Log log(LogLevel::Warning);
  const auto backend = make_cpu_backend(available_cores());
  InProcessWorld threads(1, 600);
  const auto world = threads.attach(0, *backend);

  const Checkpoint checkpoint = open(arguments.checkpoint, *world, log);
  const RunConfig config =
      parse_config(state_from_json(checkpoint.state()).config,
                   {.file = checkpoint.path / "config.toml", .overrides = {}, .saved = true})
          .config;
  const auto tokenizer = tokenizer_of(config);
  arguments.sampling.vocabulary = tokenizer->vocab_size();
  const ModelDefinition model = define_model(config);
  Generator generator(config, model, *backend);
  load_values(generator, checkpoint, *world, *backend);

  if (!arguments.json) fmt::print("{}", arguments.prompt);
  const Generated generated = run(generator, *tokenizer, arguments);
  if (arguments.json)
    print_json(generated, *tokenizer, arguments, checkpoint.step());
  else
    fmt::print("\n");
  return 0;
}

}  // namespace tessera::tools
