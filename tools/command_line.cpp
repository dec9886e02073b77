// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <new>

#include "framework/base/check.h"

namespace tessera::tools {

std::optional<int> parse(CLI::App& app, std::span<const std::string> arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    fmt::print("{}", app.help("", CLI::AppFormatMode::All));
    return 0;
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::Usage, "{} (see {} --help)", error.what(), app.get_name());
  }
  return std::nullopt;
}

int report_errors(const std::function<int()>& command) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of a file's size then fails, and says why
  try {
    return command();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  }
  return static_cast<int>(ExitCode::Communication);
}

std::optional<std::string> environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace tessera::tools
