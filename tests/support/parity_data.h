// SPDX-License-Identifier: Apache-2.0
// What the tests of layouts share: odd data, and how two runs must agree.
#pragma once
#include <string>
#include <vector>

#include "tests/support/run_fixture.h"

namespace tessera::test {

using Keys = std::vector<std::string>;
Keys operator+(Keys a, const Keys& b);

// Keys that name a token file of documents of 1 to 200 tokens with ids up to the odd vocabulary's last, made
// once for the whole program.
const Keys& varlen();

// About 30 % of the targets stay, chosen by logical position; one row of each batch loses all. A RunOptions
// edit.
void thin_out(int step, DataFeed::GlobalBatch& global);

// Initial weights bitwise, gradients of step 1 and all losses within 1e-5, the first norm within 1e-6.
void expect_parity(const RunRecord& run, const RunRecord& reference, const std::string& what);

}  // namespace tessera::test
