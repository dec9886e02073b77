// SPDX-License-Identifier: Apache-2.0
// What the tests of layouts share: odd data, and how two runs must agree.
#pragma once
#include <ostream>
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

// Either family on odd sizes: a vocabulary of 1003, two key heads, rows of 37, dropout; gpt is tied.
Keys odd_model(const std::string& family, int layers);

// A layout beside one rank.
struct LayoutCase {
  const char* name;
  const char* family;
  Keys keys;
  Keys common = {};      // of the reference too
  bool bitwise = false;  // gradients of step 1 and losses have the bits of one rank
};
std::ostream& operator<<(std::ostream& out, const LayoutCase& c);

// expect_parity over five steps of odd_model with thinned targets.
void expect_same_model(const LayoutCase& c, int layers);

}  // namespace tessera::test
