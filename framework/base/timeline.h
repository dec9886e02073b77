// SPDX-License-Identifier: Apache-2.0
// What a rank's own thread does with its time. At every moment one activity is on, so that the totals add up
// to the time that has passed; they cost two looks at the clock a scope. While it records, every scope and
// every piece of communication beside the work leaves a span as well.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tessera {

enum class Activity : uint8_t {
  Other,          // none of those below
  Compute,        // work of units
  Update,         // norm and optimizer
  Communication,  // blocked by a collective, a gather of parameters or a store
  Idle,           // blocked until another rank has done its part of the step
  Data,           // reading samples and copying them to the device
  Checkpoint,
  Evaluation,
};
inline constexpr size_t kActivities = 8;
std::string_view name_of(Activity activity);

// Seconds of each activity.
using ActivityTimes = std::array<double, kActivities>;

class Timeline {
 public:
  enum class Row : uint8_t { Own, Communication };  // the rank's thread; what goes on beside it
  struct Span {
    Row row = Row::Own;
    Activity activity = Activity::Other;
    std::string name = {};      // of an action: its text form
    std::string detail = {};    // of communication: the group and the call
    double start = 0, end = 0;  // as now() gives them
  };

  // Belongs to the thread that makes it: calls of other threads do nothing.
  Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Seconds of a clock that never steps, one for all processes of a host.
  static double now();

  // From construction until now.
  ActivityTimes totals();

  // Spans are kept until they are taken.
  void record(bool on) { recording_ = on; }
  bool recording() const { return recording_ && is_own_thread(); }
  std::vector<Span> take_spans() { return std::exchange(spans_, {}); }
  void add(Span span);
  // What communication that starts from here on is for, in a trace.
  void set_subject(std::string subject) { subject_ = std::move(subject); }
  const std::string& subject() const { return subject_; }

  // An activity for as long as it lives. Within a wait, data, checkpoint or evaluation inner scopes count as
  // that.
  class Scope {
   public:
    // `timeline` may be null.
    Scope(Timeline* timeline, Activity activity);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    // Of the span that it leaves. Only while recording() is a text worth making.
    void set_name(std::string name) { name_ = std::move(name); }

   private:
    Timeline* timeline_;
    Activity before_ = Activity::Other, activity_;
    double start_ = 0;
    std::string name_;
  };

 private:
  bool is_own_thread() const { return std::this_thread::get_id() == thread_; }
  void turn_to(Activity activity, double at);

  const std::thread::id thread_;
  Activity current_ = Activity::Other;
  double since_;
  ActivityTimes totals_{};
  bool recording_ = false;
  std::vector<Span> spans_;
  std::string subject_;
};

}  // namespace tessera
