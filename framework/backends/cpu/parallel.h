// SPDX-License-Identifier: Apache-2.0
// Loops over a team of threads. The split depends on counts alone, so results do not depend on timing.
// A call from inside a team runs serially: teams do not nest. Several rank threads may call at once, each has
// a team of its own, whose threads wait for work until the caller's thread ends. When all pieces are done, an
// exception of one is thrown again to the caller.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace tessera::cpu {

namespace detail {
void run_team(int threads, void (*body)(void* context, int thread), void* context);
}

// Calls body(thread) once for each thread in [0, threads).
template <class F>
void run_team(int threads, F&& body) {
  using Body = std::remove_reference_t<F>;
  detail::run_team(
      threads, [](void* context, int thread) { (*static_cast<Body*>(context))(thread); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// Calls body(begin, end) on at most `threads` contiguous pieces that cover [0, count). Cuts fall on
// multiples of `grain`, which is also the least amount worth a thread.
template <class F>
void parallel_for(int threads, int64_t count, int64_t grain, F&& body) {
  if (count <= 0) return;
  const int64_t units = (count + grain - 1) / grain;
  const int team = static_cast<int>(std::min<int64_t>(threads, units));
  if (team <= 1) return body(int64_t{0}, count);
  run_team(team, [&](int thread) {
    const int64_t begin = units * thread / team * grain;
    const int64_t end = std::min(units * (thread + 1) / team * grain, count);
    body(begin, end);
  });
}

// Calls body(begin, end) on pieces of `grain`, handed out as threads become free: for pieces of unequal
// cost. A piece must not depend on which thread runs it.
template <class F>
void parallel_for_dynamic(int threads, int64_t count, int64_t grain, F&& body) {
  if (count <= 0) return;
  const int64_t units = (count + grain - 1) / grain;
  std::atomic<int64_t> next{0};
  run_team(static_cast<int>(std::min<int64_t>(threads, units)), [&](int) {
    for (int64_t unit = next++; unit < units; unit = next++)
      body(unit * grain, std::min((unit + 1) * grain, count));
  });
}

}  // namespace tessera::cpu
