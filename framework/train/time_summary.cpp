// SPDX-License-Identifier: Apache-2.0
#include "framework/train/time_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tessera {
namespace {

template <class Visit>
void for_each_line(const std::filesystem::path& path, Visit&& visit) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {  // without its end it is not whole
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step_seconds") || !json["step_seconds"].is_number()) continue;
    visit(json["step_seconds"].get<double>(), json.value("skipped", nlohmann::json()) == true);
  }
}

double sum(const ActivityTimes& times) {
  return std::accumulate(times.begin(), times.end(), 0.0);
}

std::string words_of(Activity activity) {
  if (activity == Activity::Communication) return "communication not hidden";
  return std::string(name_of(activity));
}

}  // namespace

double Goodput::share(double outside) const {
  const double all = kept + lost + skipped + outside;
  return all > 0 ? kept / all : 0;
}

Goodput read_goodput(const std::filesystem::path& metrics, const std::filesystem::path& lost) {
  Goodput goodput;
  for_each_line(metrics, [&](double seconds, bool skipped) {
    (skipped ? goodput.skipped : goodput.kept) += seconds;
    goodput.kept_steps += skipped ? 0 : 1;
  });
  for_each_line(lost, [&](double seconds, bool) {
    goodput.lost += seconds;
    ++goodput.lost_steps;
  });
  return goodput;
}

std::string to_line(std::span<const ActivityTimes> ranks) {
  const auto count = static_cast<double>(ranks.size());
  double all = 0;
  for (const ActivityTimes& times : ranks) all += sum(times);
  std::string text =
      fmt::format("{:.3f} s of {} rank{}: ", all / count, ranks.size(), ranks.size() == 1 ? "" : "s");
  for (size_t a = 0; a < kActivities; ++a) {
    double seconds = 0, least = ranks[0][a], most = least;
    for (const ActivityTimes& times : ranks) {
      seconds += times[a];
      least = std::min(least, times[a]);
      most = std::max(most, times[a]);
    }
    text += fmt::format("{}{} {:.1f} % ({:.4f} s", a == 0 ? "" : ", ", words_of(static_cast<Activity>(a)),
                        all > 0 ? 100 * seconds / all : 0, seconds / count);
    if (ranks.size() > 1) text += fmt::format("; {:.4f} to {:.4f}", least, most);
    text += ")";
  }
  return text;
}

void report_time(Communicator& world, Log& log, const RunFolder& folder, const ActivityTimes& own,
                 double in_steps) {
  std::vector<ActivityTimes> ranks;
  for (const std::string& bytes :
       world.all_gather_host({reinterpret_cast<const char*>(own.data()), sizeof own})) {
    CHECK(bytes.size() == sizeof own, "a rank sent {} bytes of times", bytes.size());
    std::memcpy(ranks.emplace_back().data(), bytes.data(), sizeof own);
  }
  if (world.rank() != 0) return;
  log.info("time: " + to_line(ranks));
  const Goodput goodput = read_goodput(folder.metrics_file(), folder.lost_metrics_file());
  const double outside = sum(own) - in_steps;
  log.info(
      fmt::format("goodput {:.2f} %: {} steps that count took {:.3f} s, {} that were lost {:.3f} s, skipped "
                  "ones {:.3f} s, "
                  "all else of this process {:.3f} s",
                  100 * goodput.share(outside), goodput.kept_steps, goodput.kept, goodput.lost_steps,
                  goodput.lost, goodput.skipped, outside));
}

}  // namespace tessera
