// SPDX-License-Identifier: Apache-2.0
// The commands of `tessera`, one source each. A command gets the arguments after its own name, prints its
// results on stdout and returns an exit code; faults are thrown as tessera::Error and reported in one place.
#pragma once
#include <span>
#include <string>

namespace tessera::tools {

int train_command(std::span<const std::string> arguments);  // the `train` program
int tokenize_command(std::span<const std::string> arguments);
int generate_command(std::span<const std::string> arguments);
int checkpoint_command(std::span<const std::string> arguments);
int bench_command(std::span<const std::string> arguments);
int bench_schedule_command(std::span<const std::string> arguments);  // `tessera bench schedule`
int bench_comm_command(std::span<const std::string> arguments);      // `tessera bench comm`
int compare_command(std::span<const std::string> arguments);
int data_command(std::span<const std::string> arguments);
int report_command(std::span<const std::string> arguments);

}  // namespace tessera::tools
