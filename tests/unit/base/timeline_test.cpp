// SPDX-License-Identifier: Apache-2.0
#include "framework/base/timeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace tessera {
namespace {

void pass_at_least(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

double of(const ActivityTimes& times, Activity activity) {
  return times[static_cast<size_t>(activity)];
}

TEST(Timeline, TotalsAreAllOfTheTimeThatPassed) {
  const double before = Timeline::now();
  Timeline timeline;
  const double start = Timeline::now();
  {
    const Timeline::Scope data(&timeline, Activity::Data);
    pass_at_least(0.002);
    const Timeline::Scope wait(&timeline, Activity::Communication);  // counts as data
    pass_at_least(0.002);
  }
  {
    const Timeline::Scope work(&timeline, Activity::Compute);
    pass_at_least(0.003);
    const Timeline::Scope wait(&timeline, Activity::Communication);  // does not count as work
    pass_at_least(0.005);
  }
  const double asked = Timeline::now();
  const ActivityTimes times = timeline.totals();
  const double end = Timeline::now();
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  EXPECT_LE(sum, end - before + 1e-9);
  EXPECT_GE(sum, asked - start - 1e-9);
  EXPECT_GE(of(times, Activity::Data), 0.004);
  EXPECT_GE(of(times, Activity::Compute), 0.003);
  EXPECT_GE(of(times, Activity::Communication), 0.005);
  EXPECT_EQ(of(times, Activity::Checkpoint), 0);
}

TEST(Timeline, SpansAreKeptOnlyWhileItRecords) {
  Timeline timeline;
  { const Timeline::Scope scope(&timeline, Activity::Compute); }
  EXPECT_TRUE(timeline.take_spans().empty());
  timeline.record(true);
  {
    Timeline::Scope work(&timeline, Activity::Compute);
    work.set_name("0F1");
    const Timeline::Scope wait(&timeline, Activity::Communication);
  }
  const auto spans = timeline.take_spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[1].name, "0F1");
  EXPECT_EQ(spans[1].activity, Activity::Compute);
  EXPECT_LE(spans[1].start, spans[0].start);
  EXPECT_LE(spans[0].end, spans[1].end);
  EXPECT_TRUE(timeline.take_spans().empty());
}

TEST(Timeline, OtherThreadsAndNoTimelineAreIgnored) {
  Timeline timeline;
  timeline.record(true);
  std::thread([&] {
    const Timeline::Scope scope(&timeline, Activity::Checkpoint);
    timeline.add({.name = "beside"});
  }).join();
  { const Timeline::Scope scope(nullptr, Activity::Checkpoint); }
  EXPECT_TRUE(timeline.take_spans().empty());
  EXPECT_EQ(of(timeline.totals(), Activity::Checkpoint), 0);
}

}  // namespace
}  // namespace tessera
