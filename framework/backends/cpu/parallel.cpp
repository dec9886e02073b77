// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/parallel.h"

#include <exception>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace tessera::cpu::detail {

void run_team(int threads, void (*body)(void* context, int thread), void* context) {
#ifdef _OPENMP
  if (threads > 1 && !omp_in_parallel()) {
    std::exception_ptr error;
    // OpenMP may give fewer threads than asked for, so a thread takes every size-th piece.
#pragma omp parallel num_threads(threads)
    {
      const int size = omp_get_num_threads();
      for (int thread = omp_get_thread_num(); thread < threads; thread += size) {
        try {
          body(context, thread);
        } catch (...) {
#pragma omp critical(tessera_team_error)
          if (!error) error = std::current_exception();
        }
      }
    }
    if (error) std::rethrow_exception(error);
    return;
  }
#endif
  for (int thread = 0; thread < threads; ++thread) body(context, thread);
}

}  // namespace tessera::cpu::detail
