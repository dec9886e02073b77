// SPDX-License-Identifier: Apache-2.0
#include "framework/base/timeline.h"

#include <chrono>

namespace tessera {
namespace {

// Whether what is done inside an activity counts as it.
bool absorbs(Activity activity) {
  return activity != Activity::Other && activity != Activity::Compute && activity != Activity::Update;
}

}  // namespace

std::string_view name_of(Activity activity) {
  constexpr std::string_view kNames[kActivities] = {"other", "compute", "update",     "communication",
                                                    "idle",  "data",    "checkpoint", "evaluation"};
  return kNames[static_cast<size_t>(activity)];
}

Timeline::Timeline() : thread_(std::this_thread::get_id()), since_(now()) {}

double Timeline::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ActivityTimes Timeline::totals() {
  turn_to(current_, now());
  return totals_;
}

void Timeline::turn_to(Activity activity, double at) {
  totals_[static_cast<size_t>(current_)] += at - since_;
  since_ = at;
  current_ = activity;
}

void Timeline::add(Span span) {
  if (recording()) spans_.push_back(std::move(span));
}

Timeline::Scope::Scope(Timeline* timeline, Activity activity)
    : timeline_(timeline && timeline->is_own_thread() ? timeline : nullptr), activity_(activity) {
  if (!timeline_) return;
  before_ = timeline_->current_;
  start_ = now();
  timeline_->turn_to(absorbs(before_) ? before_ : activity, start_);
}

Timeline::Scope::~Scope() {
  if (!timeline_) return;
  const double end = now();
  timeline_->turn_to(before_, end);
  if (timeline_->recording_)
    timeline_->spans_.push_back(
        {.activity = activity_, .name = std::move(name_), .start = start_, .end = end});
}

}  // namespace tessera
