// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/timed_work.h"

namespace tessera {
namespace {

class TimedState final : public Work::State {
 public:
  TimedState(std::shared_ptr<Work::State> inner, Timeline& timeline, std::string detail, double start)
      : inner_(std::move(inner)),
        timeline_(timeline),
        detail_(std::move(detail)),
        subject_(detail_.empty() ? "" : timeline.subject()),
        start_(start) {}

  void wait() override {
    {
      const Timeline::Scope scope(&timeline_, Activity::Communication);
      inner_->wait();
    }
    if (detail_.empty()) return;
    timeline_.add({.row = Timeline::Row::Communication,
                   .activity = Activity::Communication,
                   .name = subject_.empty() ? detail_ : subject_,
                   .detail = detail_,
                   .start = start_,
                   .end = inner_->finished()});
  }
  bool done() override { return inner_->done(); }
  double finished() override { return inner_->finished(); }

 private:
  std::shared_ptr<Work::State> inner_;
  Timeline& timeline_;
  std::string detail_, subject_;
  double start_;
};

}  // namespace

Work timed(Work work, Timeline& timeline, std::string detail, double start) {
  std::shared_ptr<Work::State> state = work.release();
  if (!state) return {};
  return Work(std::make_shared<TimedState>(std::move(state), timeline, std::move(detail), start));
}

}  // namespace tessera
