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

// Lines "slot/name first element+count, box<tab>checksum" of all that a rank holds. Where boxes overlap they
// are cut by rows: each multiple of the cut that a range holds whole stands for itself, with its place in the
// logical tensor.
void add_lines(std::string& lines, std::string_view slot, const Parameter& parameter, Range held,
               const Tensor& flat, Backend& backend) {
  const Box& box = parameter.box;
  const auto line = [&](int64_t first, int64_t count, int64_t row, int64_t column, int64_t at) {
    lines += fmt::format("{}/{} {}+{} {} {}\t{:016x}\n", slot, parameter.spec.name, first, count, row, column,
                         checksum(backend, flat.narrow(at, count)));
  };
  int64_t run = 0;
  for (const ShardSpec::Split& split : parameter.spec.shard.splits)
    if (split.users > 0) run = split.multiple * (box.elements() / box.extent[0]);
  if (run == 0) {
    line(held.begin, held.size(), box.offset[0], box.offset.size() > 1 ? box.offset[1] : 0, 0);
    return;
  }
  const int64_t before = box.offset[0] * (box.elements() / box.extent[0]);
  for (int64_t at = 0; at + run <= box.elements(); at += run)
    if (at >= held.begin && at + run <= held.end) line(before + at, run, 0, 0, at - held.begin);
}

std::string holdings(Rank& rank) {
  rank.wait_for_values();
  std::string lines;
  Backend& backend = rank.backend();
  const auto add = [&](std::string_view slot, const ParameterShard& range, const Tensor& data) {
    add_lines(lines, slot, *range.parameter, {range.begin, range.begin + data.elements()}, data, backend);
  };
  for (const ParameterShard& range : rank.buffers().ranges()) {
    add("parameters", range, range.value);
    if (range.master.dtype() != range.value.dtype()) add("masters", range, range.master);
  }
  // Whole values, where shards were gathered.
  for (const Parameter& parameter : rank.store().parameters())
    if (parameter.value.defined() && parameter.box.elements() > 0)
      add_lines(lines, "values", parameter, {0, parameter.box.elements()}, parameter.value.flat(), backend);
  rank.optimizer().visit_state([&](const ParameterShard& shard, std::string_view slot, const Tensor& state) {
    add(slot, shard, state);
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
