// SPDX-License-Identifier: Apache-2.0
// `tessera bench comm`: time and bytes of each all-reduce algorithm, beside its formula.
#include "framework/train/bench_comm.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/base/size_text.h"
#include "framework/train/run_ranks.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

constexpr AllReduceAlgorithm kCommAlgorithms[] = {AllReduceAlgorithm::Direct, AllReduceAlgorithm::Ring,
                                                  AllReduceAlgorithm::Tree, AllReduceAlgorithm::Hierarchical,
                                                  AllReduceAlgorithm::ParameterServer};
constexpr int kMostCommRanks = 16;

struct CommArguments {
  std::vector<int> ranks;
  std::vector<uint64_t> sizes{uint64_t{4} << 10, uint64_t{256} << 10, uint64_t{4} << 20, uint64_t{16} << 20};
  std::vector<std::string> algorithms;
  int repeats = 7, nodes = 1;
  std::optional<double> link_mbit;
  bool threads_anyway = false, json = false;
};

constexpr const char* kCommExamples = R"(examples:
  tessera bench comm
  tessera bench comm --ranks 2,3,7 --sizes 1KB,1MB --algorithm ring,tree
  tessera bench comm --ranks 8 --nodes 2 --algorithm hierarchical --json
  mpirun -n 4 tessera bench comm --sizes 16MB
Sizes: KB, MB and GB are 2^10, 2^20 and 2^30 bytes. D is the size; * marks what comm.all_reduce = "auto" takes.
Formulas: docs/communication.md.)";

std::optional<int> read_arguments(std::span<const std::string> command_line, CommArguments& read) {
  std::vector<std::string> names;
  for (const AllReduceAlgorithm algorithm : kCommAlgorithms) names.emplace_back(name_of(algorithm));
  CLI::App app{"Time and bytes of each all-reduce algorithm, beside its formula.", "tessera bench comm"};
  app.footer(kCommExamples);
  app.add_option("--ranks", read.ranks,
                 "Thread ranks; powers of two up to what the machine takes unless given")
      ->delimiter(',')
      ->check(CLI::Range(2, kMostCommRanks));
  app.add_option("--sizes", read.sizes, "Bytes of fp32 data, at least 4")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--algorithm", read.algorithms, "All unless given")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--repeats", read.repeats, "Timed calls of each")->check(CLI::PositiveNumber);
  app.add_option("--nodes", read.nodes, "Thread ranks stand for those of so many equal nodes")
      ->check(CLI::PositiveNumber);
  app.add_option("--link-mbit", read.link_mbit,
                 "10^6 bits a second of the links between nodes: adds the time in which the bytes cross them")
      ->check(CLI::PositiveNumber);
  app.add_flag("--threads-anyway", read.threads_anyway, "More thread ranks than 4 a core");
  app.add_flag("--json", read.json, "One JSON object on stdout");
  return parse(app, command_line);
}

struct CommRow {
  int ranks;
  AllReduceBenchmark result;
};

double link_seconds(const CommArguments& arguments, const AllReduceBenchmark& result) {
  return static_cast<double>(result.busiest_node_bytes) * 8 / (*arguments.link_mbit * 1e6);
}

void print_comm_table(const CommArguments& arguments, const std::vector<CommRow>& rows) {
  fmt::print("{:>5}  {:>9}  {:<17} {:>11} {:>11}  {:>13}  {:>8} {:>5}", "ranks", "D", "algorithm", "median",
             "fastest", "busiest sends", "formula", "hops");
  fmt::print("{}\n", arguments.link_mbit ? "    over the link" : "");
  for (const auto& [ranks, result] : rows) {
    const auto size = static_cast<double>(result.bytes);
    fmt::print(
        "{:>5}  {:>9}  {:<17} {:>8.3f} ms {:>8.3f} ms  {:>11.3f} D  {:>6.3f} D {:>5}", ranks,
        bytes_text(result.bytes), fmt::format("{}{}", name_of(result.algorithm), result.chosen ? " *" : ""),
        1e3 * result.seconds, 1e3 * result.fastest_seconds,
        static_cast<double>(result.busiest_rank_bytes) / size, result.formula_bytes / size, result.hops);
    fmt::print("{}\n", arguments.link_mbit
                           ? fmt::format("  {:>8.3f} ms", 1e3 * link_seconds(arguments, result))
                           : "");
  }
}

void print_comm_json(const CommArguments& arguments, const std::vector<CommRow>& rows) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const auto& [ranks, result] : rows) {
    nlohmann::ordered_json entry;
    entry["ranks"] = ranks;
    entry["bytes"] = result.bytes;
    entry["algorithm"] = name_of(result.algorithm);
    entry["chosen_by_auto"] = result.chosen;
    entry["seconds"] = result.seconds;
    entry["fastest_seconds"] = result.fastest_seconds;
    entry["busiest_rank_bytes"] = result.busiest_rank_bytes;
    entry["formula_bytes"] = result.formula_bytes;
    entry["hops"] = result.hops;
    entry["busiest_node_bytes"] = result.busiest_node_bytes;
    if (arguments.link_mbit) entry["link_seconds"] = link_seconds(arguments, result);
    results.push_back(std::move(entry));
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"results", results}}.dump());
}

// The numbers of ranks to run with.
std::vector<int> rank_counts(const CommArguments& arguments, const LaunchInfo& launch) {
  if (launch.launched && launch.size.value_or(1) > 1) {
    CHECK_AS(ExitCode::Usage, arguments.ranks.empty() && arguments.nodes == 1,
             "--ranks and --nodes are for thread ranks; the launcher started {} processes", *launch.size);
    return {*launch.size};
  }
  if (!arguments.ranks.empty()) return arguments.ranks;
  std::vector<int> counts;
  for (int ranks = 2; ranks <= std::min(kMostCommRanks, most_thread_ranks()); ranks *= 2)
    counts.push_back(ranks);
  return counts;
}

// Equal nodes of neighbouring ranks.
std::vector<int> nodes_of(int ranks, int nodes) {
  CHECK_AS(ExitCode::Usage, ranks % nodes == 0, "--nodes {}: {} ranks cannot lie on {} equal nodes", nodes,
           ranks, nodes);
  std::vector<int> by_rank;
  for (int rank = 0; rank < ranks; ++rank) by_rank.push_back(rank / (ranks / nodes));
  return by_rank;
}

}  // namespace

int bench_comm_command(std::span<const std::string> command_line) {
  CommArguments arguments;
  if (const auto answered = read_arguments(command_line, arguments)) return *answered;
  for (const uint64_t size : arguments.sizes)
    CHECK_AS(ExitCode::Usage, size >= 4 && size % 4 == 0,
             "--sizes: {} bytes are no whole number of fp32 values", size);
  const LaunchInfo launch = read_launch(environment);
  std::vector<RunRanksOptions> runs;
  for (const int ranks : rank_counts(arguments, launch)) {
    runs.push_back({.ranks = ranks, .launch = launch, .threads_anyway = arguments.threads_anyway});
    if (!launch.launched) runs.back().nodes = nodes_of(ranks, arguments.nodes);
    check_launch(runs.back());
  }
  RunConfig config;
  config.run.threads_per_rank = 1;
  std::vector<CommRow> rows;
  for (const RunRanksOptions& run : runs)
    run_ranks(config, run, [&](Communicator& world, Backend& backend) {
      for (const uint64_t size : arguments.sizes)
        for (const AllReduceAlgorithm algorithm : kCommAlgorithms) {
          const auto& asked = arguments.algorithms;
          if (!asked.empty() && std::find(asked.begin(), asked.end(), name_of(algorithm)) == asked.end())
            continue;
          const AllReduceBenchmark result =
              bench_all_reduce(world, backend, algorithm, static_cast<int64_t>(size / 4), arguments.repeats);
          if (world.rank() == 0) rows.push_back({run.ranks, result});
        }
    });
  if (rows.empty()) return 0;  // another rank prints
  arguments.json ? print_comm_json(arguments, rows) : print_comm_table(arguments, rows);
  return 0;
}

}  // namespace tessera::tools
