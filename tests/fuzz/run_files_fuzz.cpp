// SPDX-License-Identifier: Apache-2.0
// Crafted files of a run's folder, as `tessera report` and `tessera data` read them: refused with exit code
// 3, or read, and shown. A zero byte ends metrics.jsonl and begins data.jsonl.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "framework/base/check.h"
#include "framework/train/data_ledger.h"
#include "framework/train/run_report.h"
#include "tests/fuzz/memory_file.h"
#include "tests/support/scratch_folder.h"

namespace {

using namespace tessera;

struct RunFiles {
  test::ScratchFolder folder;
  MemoryFile metrics{folder / "metrics.jsonl"}, ledger{folder / "data.jsonl"};
};

template <class Use>
void refuse_or(Use use) {
  try {
    use();
  } catch (const Error& error) {
    if (error.code() != ExitCode::Data) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const RunFiles run;
  const std::span<const uint8_t> bytes(data, size);
  const auto metrics_size = static_cast<size_t>(std::find(data, data + size, 0) - data);
  run.metrics.write(bytes.first(metrics_size));
  run.ledger.write(bytes.subspan(std::min(metrics_size + 1, size)));
  refuse_or([] {
    const std::array<RunHistory, 2> runs{read_run_history(run.folder.path()), RunHistory{}};
    (void)figures_json(runs);
    (void)report_page(runs, false);
    (void)report_page(runs, true);
  });
  for (const int64_t step : {1, 4, 1000})
    refuse_or([step] { (void)DataLedger(run.folder.path()).before(Steps(step)); });
  return 0;
}
