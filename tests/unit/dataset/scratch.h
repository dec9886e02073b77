// SPDX-License-Identifier: Apache-2.0
// Small helpers to fill the folder of a test.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "framework/base/check.h"
#include "framework/dataset/token_file_writer.h"
#include "tests/support/scratch_folder.h"

namespace tessera::test {

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// Token files with documents of these lengths; token number i has id i * 7 % vocab.
inline void write_documents(const std::filesystem::path& prefix, const std::vector<int64_t>& lengths,
                            int64_t vocab = 1003) {
  TokenFileWriter writer(prefix, "bytes", vocab);
  int64_t at = 0;
  for (const int64_t length : lengths) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(at++ * 7 % vocab));
    writer.add(ids);
    writer.end_document();
  }
  writer.finish();
}

// The message of the Error that f throws, which must have this exit code.
template <class F>
std::string message_of(ExitCode code, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace tessera::test
