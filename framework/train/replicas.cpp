// SPDX-License-Identifier: Apache-2.0
#include "framework/train/replicas.h"

#include <map>
#include <sstream>

#include "framework/base/random.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

uint64_t checksum(Backend& backend, const Tensor& x) {
  std::string bytes(static_cast<size_t>(x.bytes()), '\0');
  backend.download(x, std::as_writable_bytes(std::span(bytes)));
  return random_key(0, bytes).value;  // XXH3
}

// Runs of rows that are held as a whole where they are held: all of the box, or, where boxes overlap, each
// multiple of their cut.
int64_t rows_of_run(const Parameter& parameter) {
  for (const ShardSpec::Split& split : parameter.spec.shard.splits)
    if (split.users > 0 && split.dim == 0) return split.multiple;
  return parameter.box.extent[0];
}

// Lines "slot/name first row, columns: checksum" of all that a rank holds.
std::string holdings(Rank& rank) {
  std::string lines;
  const auto add = [&](std::string_view slot, const Parameter& parameter, const Tensor& data) {
    const Box& box = parameter.box;
    const int64_t rows = rows_of_run(parameter);
    for (int64_t row = 0; row < box.extent[0]; row += rows)
      lines += fmt::format("{}/{} {}+{} {}\t{:016x}\n", slot, parameter.spec.name, box.offset[0] + row, rows,
                           box.offset.size() > 1 ? box.offset[1] : 0,
                           checksum(rank.backend(), data.narrow(row, rows)));
  };
  for (const Parameter& parameter : rank.store().parameters()) {
    add("parameters", parameter, parameter.value);
    if (parameter.master.dtype() != parameter.value.dtype()) add("masters", parameter, parameter.master);
  }
  rank.optimizer().visit_state([&](const Parameter& parameter, std::string_view slot, const Tensor& state) {
    add(slot, parameter, state);
  });
  return lines;
}

}  // namespace

void check_replicas(Rank& rank, Steps step) {
  const std::vector<std::string> all = rank.world().all_gather_host(holdings(rank));
  std::map<std::string, std::pair<std::string, int>> first;  // place: checksum and who has it
  for (int holder = 0; holder < static_cast<int>(all.size()); ++holder) {
    std::istringstream lines(all[static_cast<size_t>(holder)]);
    for (std::string line; std::getline(lines, line);) {
      const size_t tab = line.find('\t');
      const std::string place = line.substr(0, tab), sum = line.substr(tab + 1);
      const auto& [known, who] = first.emplace(place, std::pair(sum, holder)).first->second;
      if (known != sum)
        fail(ExitCode::Communication, "step {}: ranks {} and {} hold different copies of {}", step.value, who,
             holder, place.substr(0, place.find(' ')));
    }
  }
}

}  // namespace tessera
