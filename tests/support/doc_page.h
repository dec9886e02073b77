// SPDX-License-Identifier: Apache-2.0
// Tables of documentation pages that a test makes anew.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

// Expects that the page in file `path` has each text between the lines "<!-- NAME -->" and "<!-- end -->".
// TESSERA_UPDATE_DOCS=1 in the environment writes it so.
inline void expect_tables(const std::string& path,
                          const std::vector<std::pair<std::string, std::string>>& texts_by_name) {
  std::ifstream file(path, std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::string current = page;
  for (const auto& [name, text] : texts_by_name) {
    const std::string begin = "<!-- " + name + " -->\n";
    const size_t from = current.find(begin);
    ASSERT_NE(from, std::string::npos) << name;
    const size_t to = current.find("<!-- end -->", from);
    ASSERT_NE(to, std::string::npos) << name;
    current.replace(from + begin.size(), to - from - begin.size(), text);
  }
  if (std::getenv("TESSERA_UPDATE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << current;
  EXPECT_EQ(page, current) << path << " is not current: run this test with TESSERA_UPDATE_DOCS=1";
}

}  // namespace tessera
