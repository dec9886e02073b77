// SPDX-License-Identifier: Apache-2.0
// Bytes of event files, against values that were published or put together by hand. What whole runs write is
// read back by tests/end_to_end/event_files.py.
#include "framework/train/event_file.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "framework/base/check.h"
#include "tests/support/scratch_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string bytes(std::initializer_list<int> values) {
  std::string result;
  for (const int value : values) result += static_cast<char>(value);
  return result;
}

TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // this and the next: RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// Every event file of TensorFlow starts with the same twelve bytes.
TEST(EventRecord, OfAVersionIsThatOfOtherWriters) {
  const std::string record = event_record(version_event(1.5));
  EXPECT_EQ(record.substr(0, 12), bytes({0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22}));
  EXPECT_EQ(record.substr(12, 9), bytes({0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f}));
  EXPECT_EQ(record.substr(21, 15), "\x1a\x0d" + std::string("brain.Event:2"));
  EXPECT_EQ(record.substr(36), bytes({0x2a, 0x28, 0x64, 0x6c}));
}

TEST(EventRecord, StepsTakeAsManyBytesAsTheyNeed) {
  const std::string time = bytes({0x09, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(start_event(0, Steps(1)), time + bytes({0x10, 1, 0x3a, 2, 8, 1}));
  EXPECT_EQ(start_event(0, Steps(300)), time + bytes({0x10, 0xac, 0x02, 0x3a, 2, 8, 1}));
}

TEST(EventRecord, HoldsScalarsTextsAndHistograms) {
  EventSummary summary;
  summary.add_scalar("a/b", 0.1);  // 0x3dcccccd in fp32
  std::string expected = bytes({0x0a, 10, 0x0a, 3, 'a', '/', 'b', 0x15, 0xcd, 0xcc, 0xcc, 0x3d});
  EXPECT_EQ(summary.message(), expected);
  summary.add_text("t", "x\ny");
  expected += bytes({0x0a, 32, 0x0a, 1, 't', 0x42, 17, 0x08, 7, 0x12, 0, 0x42, 11}) + "    x\n    y" +
              bytes({0x4a, 8, 0x0a, 6, 0x0a, 4}) + "text";
  EXPECT_EQ(summary.message(), expected);
  const double limits[] = {2.0}, counts[] = {1.0};
  summary.add_histogram(
      "h", {.limits = limits, .counts = counts, .minimum = 1, .maximum = 2, .sum = 1.5, .sum_of_squares = 2});
  expected += bytes({0x0a, 70, 0x0a, 1, 'h', 0x2a, 65});
  expected += bytes({0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}) + bytes({0x11, 0, 0, 0, 0, 0, 0, 0, 0x40});
  expected += bytes({0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}) + bytes({0x21, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f});
  expected += bytes({0x29, 0, 0, 0, 0, 0, 0, 0, 0x40}) + bytes({0x32, 8, 0, 0, 0, 0, 0, 0, 0, 0x40});
  expected += bytes({0x3a, 8, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f});
  EXPECT_EQ(summary.message(), expected);
}

class EventFileTest : public testing::Test {
 protected:
  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_ / "runs";
};

// Also when both are made within a second, and when the clock goes back.
TEST_F(EventFileTest, NewFilesComeAfterAllThatAreThere) {
  std::set<fs::path> names;
  const auto make = [&] {
    const EventFile file(folder_ / "run", Steps(1));
    for (const auto& entry : fs::directory_iterator(folder_ / "run"))
      if (names.insert(entry.path()).second) {
        EXPECT_EQ(entry.path(), *names.rbegin());
      }
  };
  make();
  make();
  const fs::path future = folder_ / "run/events.out.tfevents.8000000000.host";
  fs::copy_file(*names.begin(), future);
  names.insert(future);
  make();
  EXPECT_EQ(names.size(), 4u);
  EXPECT_EQ(names.rbegin()->filename(), "events.out.tfevents.8000000001");
}

TEST_F(EventFileTest, AFolderThatCannotBeMadeIsADataError) {
  std::ofstream(folder_) << "a file is in the way";
  try {
    const EventFile file(folder_ / "run", Steps(1));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data);
    EXPECT_NE(std::string(error.what()).find((folder_ / "run").string() + ": Not a directory"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
