// SPDX-License-Identifier: Apache-2.0
// What all commands share: CLI11 with our exit codes, and the report of a fault.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace tessera::tools {

// Parses; returns the exit code when the command is already answered (--help: 0), nothing to go on. A usage
// error throws Error(Usage).
std::optional<int> parse(CLI::App& app, std::span<const std::string> arguments);

// Runs a command and turns exceptions into `error: ...` on stderr and the exit code of CONFIG.
int report_errors(const std::function<int()>& command);

// The process environment, for the layers below that take it as a function.
std::optional<std::string> environment(const std::string& name);

}  // namespace tessera::tools
