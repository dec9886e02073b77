// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "tools/command_line.h"
#include "tools/commands.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return tessera::tools::report_errors([&] { return tessera::tools::train_command(arguments); });
}
