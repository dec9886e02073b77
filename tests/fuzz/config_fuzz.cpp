// SPDX-License-Identifier: Apache-2.0
// Any bytes at all, as a config file and as --set arguments on top of a valid one: the reader refuses them
// with a usage error, or gives a config that is printed, read back to itself, and resolved for some ranks.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "framework/base/check.h"
#include "framework/config/load.h"
#include "framework/config/resolve.h"

namespace {

using namespace tessera;

constexpr std::string_view kValid = R"(
run = {name = "fuzz", output_dir = "/out"}
train = {micro_batch_size = 2, global_batch_size = 7, seq_length = 33, steps = 20}
optimizer = {lr = 1e-3}
[model]
architecture = "llama"
vocab_size = 1003
hidden_size = 64
intermediate_size = 176
num_hidden_layers = 3
num_attention_heads = 4
[[data.sources]]
path = "/data/corpus.txt"
)";

[[noreturn]] void stop(std::string_view what, const std::string& text) {
  std::cerr << what << ":\n" << text << "\n";
  std::abort();
}

std::optional<std::string> variable(const std::string& name) {
  if (name == "A") return "a ${A} \"";
  if (name == "BAD") return "\xff";
  return std::nullopt;
}

// Runs `body` and says whether it went through; only usage errors may come out of it.
template <class Body>
bool succeeds(Body&& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::Usage) stop("not a usage error", error.what());
    return false;
  }
}

void check_round_trip(const RunConfig& config) {
  const std::string text = to_toml(config);
  RunConfig again;
  const auto read = [&] { again = parse_config(text, {"/run/config.toml", {}, {}}).config; };
  if (!succeeds(read)) stop("a printed config is refused", text);
  if (!(again == config) || !differences(config, again).empty())
    stop("a printed config reads back changed", text);
}

void check(std::string_view text, const std::vector<std::string>& overrides) {
  LoadedConfig loaded;
  if (!succeeds([&] { loaded = parse_config(text, {"/run/config.toml", overrides, variable}); })) return;
  check_round_trip(loaded.config);
  for (const int64_t ranks : {1, 3}) {
    RunConfig config = loaded.config;
    if (succeeds([&] { resolve_parallel(config, ranks); })) check_round_trip(config);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, {});
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < size && lines.size() < 16;) {
    const size_t end = std::min(text.find('\n', begin), size);
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!lines.empty()) check(kValid, {lines.front()});
  if (lines.size() > 1) check(kValid, lines);
  return 0;
}
