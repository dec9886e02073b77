// SPDX-License-Identifier: Apache-2.0
#include "framework/base/turns.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <exception>

#include "framework/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_TURNS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_TURNS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TESSERA_TURNS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TESSERA_TURNS_TSAN 1
#endif
#endif
#ifdef TESSERA_TURNS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TESSERA_TURNS_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace tessera {
namespace {

// As large as a thread's, of which only what is used takes memory, above a page that no code may touch.
class PieceStack {
 public:
  PieceStack() : guard_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* memory = mmap(nullptr, guard_ + kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED, "there is no memory for a second stack of {} bytes", kBytes);
    memory_ = static_cast<std::byte*>(memory);
    mprotect(memory_, guard_, PROT_NONE);
  }
  PieceStack(const PieceStack&) = delete;
  PieceStack& operator=(const PieceStack&) = delete;
  ~PieceStack() {
    forget_frames();
    munmap(memory_, guard_ + kBytes);
  }

  void* bottom() const { return memory_ + guard_; }
  // The last frames of a piece are never returned from: what a sanitizer knows of them must go with them.
  void forget_frames() const {
#ifdef TESSERA_TURNS_ASAN
    __asan_unpoison_memory_region(bottom(), kBytes);
#endif
  }
  static constexpr size_t kBytes = size_t{8} << 20;

 private:
  size_t guard_;
  std::byte* memory_;
};

class Turns {
 public:
  Turns(const std::function<void()>& second, const std::function<void(int)>& on_turn)
      : second_(second), on_turn_(on_turn) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;
  ~Turns() {
#ifdef TESSERA_TURNS_TSAN
    if (places_[1].fiber) __tsan_destroy_fiber(places_[1].fiber);
#endif
  }

  void run(const std::function<void()>& first) {
    begin(0);
    run_piece(0, first);
    if (!ended_[1] && (started_ || !error_)) change();
    if (error_) std::rethrow_exception(error_);
  }

  void give() {
    if (ended_[static_cast<size_t>(1 - turn_)]) return;
    change();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // What a sanitizer must know of a place that a turn goes on from.
  struct Place {
    ucontext_t context = {};
    const void* bottom = nullptr;
    size_t bytes = 0;
    void* fake_stack = nullptr;
    void* fiber = nullptr;
  };

  void begin(int turn) {
    turn_ = turn;
    if (on_turn_) on_turn_(turn);
  }

  void run_piece(size_t index, const std::function<void()>& piece) {
    guarded(piece);
    ended_[index] = true;
  }

  // The first error is the one that counts.
  template <class F>
  void guarded(F&& piece) {
    try {
      piece();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  }

  // To the other piece; returns when the turn comes back.
  void change() {
    const int to = 1 - turn_;
    if (to == 1 && !started_) prepare();
    begin(to);
    leave(places_[static_cast<size_t>(1 - to)], places_[static_cast<size_t>(to)], false);
  }

  void prepare();
  static void enter();

  void leave(Place& from, Place& to, bool for_ever) {
    (void)for_ever;
#ifdef TESSERA_TURNS_ASAN
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &from.fake_stack, to.bottom, to.bytes);
#endif
#ifdef TESSERA_TURNS_TSAN
    __tsan_switch_to_fiber(to.fiber, 0);
#endif
    swapcontext(&from.context, &to.context);
    arrive(from, to);
  }

  // The bounds of the stack that was left are those of the thread's own the first time.
  static void arrive(Place& here, Place& left) {
    (void)here, (void)left;
#ifdef TESSERA_TURNS_ASAN
    __sanitizer_finish_switch_fiber(here.fake_stack, &left.bottom, &left.bytes);
#endif
  }

  const std::function<void()>& second_;
  const std::function<void(int)>& on_turn_;
  std::array<Place, 2> places_;
  std::array<bool, 2> ended_{};
  bool started_ = false;
  int turn_ = 0;
  std::exception_ptr error_;
};

thread_local Turns* t_turns = nullptr;

void Turns::prepare() {
  thread_local const PieceStack stack;
  stack.forget_frames();
  started_ = true;
  Place& place = places_[1];
  getcontext(&place.context);
  place.context.uc_stack.ss_sp = stack.bottom();
  place.context.uc_stack.ss_size = PieceStack::kBytes;
  place.context.uc_link = nullptr;
  place.bottom = stack.bottom();
  place.bytes = PieceStack::kBytes;
  makecontext(&place.context, &Turns::enter, 0);
#ifdef TESSERA_TURNS_TSAN
  places_[0].fiber = __tsan_get_current_fiber();
  place.fiber = __tsan_create_fiber(0);
#endif
}

void Turns::enter() {
  Turns& turns = *t_turns;
  arrive(turns.places_[1], turns.places_[0]);
  turns.run_piece(1, turns.second_);
  if (!turns.ended_[0]) turns.guarded([&] { turns.begin(0); });
  turns.leave(turns.places_[1], turns.places_[0], true);
}

}  // namespace

void take_turns(const std::function<void()>& first, const std::function<void()>& second,
                const std::function<void(int)>& on_turn) {
  CHECK(!t_turns, "a piece of work that takes turns cannot be cut into two again");
  Turns turns(second, on_turn);
  t_turns = &turns;
  struct Forget {
    ~Forget() { t_turns = nullptr; }
  } const forget;
  turns.run(first);
}

void give_turn() {
  if (t_turns && std::uncaught_exceptions() == 0) t_turns->give();
}

}  // namespace tessera
