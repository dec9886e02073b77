// SPDX-License-Identifier: Apache-2.0
#include "framework/train/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/svg.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Span = Timeline::Span;

constexpr double kNano = 1e9, kNanoOfMicro = 1e3;

std::string to_bytes(const RankTrace& trace) {
  Json json{{"place", trace.place}, {"start", trace.start},
            {"end", trace.end},     {"clock_error", trace.clock_error},
            {"times", trace.times}, {"spans", Json::array()}};
  for (const Span& span : trace.spans)
    json["spans"].push_back({static_cast<int>(span.row), static_cast<int>(span.activity), span.name,
                             span.detail, span.start, span.end});
  const std::vector<uint8_t> bytes = Json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

RankTrace from_bytes(const std::string& bytes) {
  const Json json = Json::from_cbor(bytes);
  RankTrace trace{.place = json["place"],
                  .start = json["start"],
                  .end = json["end"],
                  .clock_error = json["clock_error"],
                  .times = json["times"]};
  for (const Json& span : json["spans"])
    trace.spans.push_back({.row = static_cast<Timeline::Row>(span[0].get<int>()),
                           .activity = static_cast<Activity>(span[1].get<int>()),
                           .name = span[2],
                           .detail = span[3],
                           .start = span[4],
                           .end = span[5]});
  return trace;
}

double first_start(std::span<const RankTrace> traces) {
  return std::ranges::min(traces, {}, &RankTrace::start).start;
}

// Where each span of communication is drawn: the first row that is free when it starts.
class CommunicationRows {
 public:
  size_t place(const Span& span) {
    size_t row = 0;
    while (row < free_at_.size() && free_at_[row] > span.start) ++row;
    free_at_.resize(std::max(free_at_.size(), row + 1));
    free_at_[row] = span.end;
    return row;
  }
  size_t count() const { return free_at_.size(); }

 private:
  std::vector<double> free_at_;
};

Json metadata(const char* what, size_t process, size_t thread, Json args) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", std::move(args)}};
}

Json event(const Span& span, size_t process, size_t thread, double zero) {
  const std::string_view activity = name_of(span.activity);
  // Perfetto counts whole nanoseconds, and drops spans that overlap. Were start and length rounded each by
  // itself, spans that touch would.
  const double start = std::round(kNano * (span.start - zero)), end = std::round(kNano * (span.end - zero));
  Json event{{"name", span.name.empty() ? std::string(activity) : span.name},
             {"cat", activity},
             {"ph", "X"},
             {"ts", start / kNanoOfMicro},
             {"dur", (end - start) / kNanoOfMicro},
             {"pid", process},
             {"tid", thread}};
  Json args = Json::object();
  if (const auto action = action_from_text(span.name))
    args = {{"stage", action->stage}, {"unit", action->unit}, {"microbatch", action->microbatch}};
  if (!span.detail.empty()) args["call"] = span.detail;
  if (!args.empty()) event["args"] = std::move(args);
  return event;
}

// Intervals without overlaps, in order.
using Intervals = std::vector<std::pair<double, double>>;
Intervals merged(Intervals intervals) {
  std::ranges::sort(intervals);
  Intervals result;
  for (const auto& [start, end] : intervals) {
    if (!result.empty() && start <= result.back().second)
      result.back().second = std::max(result.back().second, end);
    else
      result.emplace_back(start, end);
  }
  return result;
}

double length_of(const Intervals& intervals) {
  double length = 0;
  for (const auto& [start, end] : intervals) length += end - start;
  return length;
}

double common_length(const Intervals& a, const Intervals& b) {
  double length = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    length += std::max(0.0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    (a[i].second < b[j].second ? i : j)++;
  }
  return length;
}

// From the first work of any rank to the last.
std::pair<double, double> period_of(const std::vector<std::vector<TimedAction>>& work) {
  double first = std::numeric_limits<double>::infinity(), last = 0;
  for (const auto& list : work)
    if (!list.empty()) {
      first = std::min(first, list.front().start);
      last = std::max(last, list.back().end);
    }
  return {std::min(first, last), last};
}

Intervals spans_of(const RankTrace& trace, Timeline::Row row, Activity activity) {
  Intervals intervals;
  for (const Span& span : trace.spans)
    if (span.row == row && span.activity == activity) intervals.emplace_back(span.start, span.end);
  return merged(std::move(intervals));
}

}  // namespace

std::vector<RankTrace> gather_traces(Communicator& world, RankTrace own, const ClockOffset& clock) {
  own.clock_error = clock.error;
  own.start -= clock.seconds;
  own.end -= clock.seconds;
  for (Span& span : own.spans) {
    span.start -= clock.seconds;
    span.end -= clock.seconds;
  }
  std::vector<RankTrace> traces;
  for (const std::string& bytes : world.all_gather_host(to_bytes(own))) traces.push_back(from_bytes(bytes));
  return traces;
}

std::string to_chrome_json(std::span<const RankTrace> traces, Steps step) {
  const double zero = first_start(traces);
  double error = 0;
  Json events = Json::array();
  // Perfetto knows a thread by its number alone, takes the one with the number of a process for its main
  // thread, and 0 for no thread.
  size_t next_thread = traces.size() + 1;
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    const RankTrace& trace = traces[rank];
    const size_t process = rank + 1;
    error = std::max(error, trace.clock_error);
    events.push_back(metadata("process_name", process, process,
                              {{"name", fmt::format("rank {} ({})", rank, trace.place)}}));
    events.push_back(metadata("process_sort_index", process, process, {{"sort_index", rank}}));
    events.push_back(metadata("thread_name", process, process, {{"name", "compute"}}));
    std::vector<const Span*> spans;
    for (const Span& span : trace.spans) spans.push_back(&span);
    std::ranges::stable_sort(spans, {}, [](const Span* span) { return span->start; });
    CommunicationRows rows;
    for (const Span* span : spans) {
      const bool own = span->row == Timeline::Row::Own;
      events.push_back(event(*span, process, own ? process : next_thread + rows.place(*span), zero));
    }
    for (size_t row = 0; row < rows.count(); ++row)
      events.push_back(
          metadata("thread_name", process, next_thread + row,
                   {{"name", row == 0 ? "communication" : fmt::format("communication {}", row + 1)}}));
    next_thread += rows.count();
  }
  const Json trace{{"displayTimeUnit", "ms"},
                   {"otherData", {{"step", step.value}, {"clock_error_seconds", error}}},
                   {"traceEvents", std::move(events)}};
  return trace.dump() + "\n";
}

namespace {

// Spans of one action make one. Of two that took turns, each has the time of its own turns: first the one,
// then the other.
void add_span(std::vector<TimedAction>& list, const TimedAction& span) {
  const size_t count = list.size();
  if (count >= 1 && list[count - 1].action == span.action) {
    list[count - 1].end = span.end;
  } else if (count >= 2 && list[count - 2].action == span.action) {
    TimedAction& other = list[count - 1];
    const double more = span.end - span.start, took = other.end - other.start;
    list[count - 2].end += more;
    other = {other.action, list[count - 2].end, list[count - 2].end + took};
  } else {
    list.push_back(span);
  }
}

}  // namespace

std::vector<std::vector<TimedAction>> measured_work(std::span<const RankTrace> traces) {
  const double zero = first_start(traces);
  std::vector<std::vector<TimedAction>> work;
  for (const RankTrace& trace : traces) {
    auto& list = work.emplace_back();
    for (const Span& span : trace.spans) {
      const auto action = action_from_text(span.name);
      if (span.row != Timeline::Row::Own || !action || !is_work(action->kind)) continue;
      add_span(list,
               {{action->kind, action->stage, -1, action->microbatch}, span.start - zero, span.end - zero});
    }
  }
  return work;
}

CostModel measured_costs(const std::vector<std::vector<TimedAction>>& work, int stages) {
  struct Mean {
    double sum = 0;
    int count = 0;
    double value() const { return count ? sum / count : 0; }
  };
  std::vector<std::map<ActionKind, Mean>> means(static_cast<size_t>(stages));
  for (const auto& list : work)
    for (const TimedAction& timed : list) {
      // A repeated forward costs what the first did.
      const bool forward = is_forward(timed.action.kind) || timed.action.kind == ActionKind::Recompute;
      Mean& mean =
          means[static_cast<size_t>(timed.action.stage)][forward ? ActionKind::Forward : timed.action.kind];
      mean.sum += timed.end - timed.start;
      ++mean.count;
    }
  std::vector<std::vector<WorkCost>> costs;
  for (auto& of : means)
    costs.push_back(
        {{.forward = of[ActionKind::Forward].value(),
          .backward_input = of[ActionKind::BackwardInput].value() + of[ActionKind::Backward].value(),
          .backward_weight = of[ActionKind::BackwardWeight].value()}});
  return CostModel(std::move(costs));
}

std::string to_svg(std::span<const RankTrace> traces, const Schedule& plain, Steps step) {
  const auto work = measured_work(traces);
  const Simulation planned = simulate(with_messages(plain), measured_costs(work, plain.stages));
  // Both begin with their first work.
  const double first = period_of(work).first;
  auto measured = work;
  for (auto& list : measured)
    for (TimedAction& timed : list) {
      timed.start -= first;
      timed.end -= first;
    }
  const Panel panels[] = {{fmt::format("step {}, planned: bubble {:.1f} %, of work that takes what it took",
                                       step.value, 100 * planned.bubble()),
                           planned.work},
                          {fmt::format("step {}, measured", step.value), measured}};
  return to_svg(panels);
}

double overlap(const RankTrace& trace) {
  const Intervals beside = spans_of(trace, Timeline::Row::Communication, Activity::Communication);
  // What blocks the thread inside its work is no work.
  const Intervals work = spans_of(trace, Timeline::Row::Own, Activity::Compute);
  const Intervals blocked = spans_of(trace, Timeline::Row::Own, Activity::Communication);
  Intervals hidden_by;
  double at = 0;
  const auto under_way = [&](double start, double end) {
    if (end > start) hidden_by.emplace_back(start, end);
  };
  for (const auto& [start, end] : work) {
    at = start;
    for (const auto& [from, to] : blocked) {
      if (to <= start || from >= end) continue;
      under_way(at, from);
      at = std::max(at, to);
    }
    under_way(at, end);
  }
  const double all = length_of(beside);
  return all > 0 ? common_length(beside, hidden_by) / all : 1;
}

std::string to_table(std::span<const RankTrace> traces) {
  const auto work = measured_work(traces);
  const auto [first, last] = period_of(work);
  std::string text = "rank  bubble   compute  update   communication  idle     data     other    overlap\n";
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    const RankTrace& trace = traces[rank];
    double all = 0, busy = 0;
    for (const double seconds : trace.times) all += seconds;
    for (const TimedAction& timed : work[rank]) busy += timed.end - timed.start;
    const auto share = [](double part, double whole) {
      return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0.0);
    };
    const auto of_step = [&](Activity activity) {
      return share(trace.times[static_cast<size_t>(activity)], all);
    };
    text += fmt::format("{:<4}  {:<7}  {:<7}  {:<7}  {:<13}  {:<7}  {:<7}  {:<7}  {:.1f} %\n", rank,
                        share(last - first - busy, last - first), of_step(Activity::Compute),
                        of_step(Activity::Update), of_step(Activity::Communication), of_step(Activity::Idle),
                        of_step(Activity::Data), of_step(Activity::Other), 100 * overlap(trace));
  }
  return text;
}

}  // namespace tessera
