// SPDX-License-Identifier: Apache-2.0
// A schedule that a user wrote: read, and proved as far as it goes, before a run allocates anything.
#pragma once
#include <string>

#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

// The lists in the text of a file, whose name errors begin with: whole stages without messages, which the
// passes add to. Throws Error(Usage), with line and column, unless each of `ranks` has a list for
// `microbatches` that with the others runs every stage once.
Schedule schedule_of_file(const std::string& file, const std::string& text, int ranks, int microbatches);

}  // namespace tessera
