// SPDX-License-Identifier: Apache-2.0
// Crafted schedule files: refused with exit code 2, or a schedule whose text reads back as the same. The
// first byte chooses the ranks and micro-batches that the lists are for.
#include <cstdlib>
#include <string>

#include "framework/base/check.h"
#include "framework/train/schedule_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  if (size == 0) return 0;
  const int ranks = 1 + data[0] % 4, microbatches = 1 + data[0] / 4 % 4;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const Schedule schedule = schedule_of_file("file", text, ranks, microbatches);
    const std::string shown = to_text(schedule);
    if (to_text(schedule_of_file("shown", shown, ranks, microbatches)) != shown) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::Usage) std::abort();
  }
  return 0;
}
