// SPDX-License-Identifier: Apache-2.0
#include "framework/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tessera {

int available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0)
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, CPU_COUNT(&mask));
}

}  // namespace tessera
