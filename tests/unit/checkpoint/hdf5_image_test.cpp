// SPDX-License-Identifier: Apache-2.0
// Images hold what HDF5 wrote and leave room for the data. That HDF5 reads the files is shown by
// end_to_end/checkpoint_h5py.py.
#include "framework/checkpoint/hdf5_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "framework/base/check.h"
#include "framework/checkpoint/hash.h"

namespace tessera {
namespace {

std::vector<Hdf5Dataset> datasets() {
  return {{"/a/x/0", DType::F32, {7, 33}, {{"offset", std::vector<int64_t>{0, 0}}}},
          {"/a/x/1", DType::BF16, {1003}},
          {"/b", DType::F64, {}},
          {"/c", DType::U8, {100000}},
          {"/d", DType::F16, {1, 1, 1, 1}}};
}

Digest digest_of_image(const Hdf5Image& image) {
  std::vector<std::byte> bytes(static_cast<size_t>(image.size()));
  image.read(0, bytes);
  Hasher hasher;
  hasher.add(bytes);
  return hasher.digest();
}

TEST(Hdf5Image, GivesEachDatasetRoomOfItsOwn) {
  const std::vector<Hdf5Dataset> list = datasets();
  const Hdf5DataImage made = make_data_image(list, {{"about", std::string("a test")}});
  ASSERT_EQ(made.positions.size(), list.size());
  std::vector<std::pair<int64_t, int64_t>> extents;
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t bytes = list[i].shape.elements() * size_of(list[i].dtype);
    extents.emplace_back(made.positions[i], made.positions[i] + bytes);
    if (bytes >= 4096) {
      EXPECT_EQ(made.positions[i] % 4096, 0) << list[i].path;
    }
    // The image holds nothing there: HDF5 wrote no data.
    std::vector<std::byte> inside(static_cast<size_t>(bytes), std::byte{1});
    made.image.read(made.positions[i], inside);
    EXPECT_TRUE(std::all_of(inside.begin(), inside.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
  std::sort(extents.begin(), extents.end());
  for (size_t i = 0; i + 1 < extents.size(); ++i) EXPECT_LE(extents[i].second, extents[i + 1].first);
  EXPECT_LE(extents.back().second, made.image.size());
}

TEST(Hdf5Image, SameInputSameBytesAlsoFromManyThreads) {
  const std::vector<Hdf5Dataset> list = datasets();
  const Digest first = digest_of_image(make_data_image(list, {}).image);
  std::vector<Digest> digests(4);
  std::vector<std::thread> threads;
  for (Digest& digest : digests)
    threads.emplace_back([&] { digest = digest_of_image(make_data_image(list, {}).image); });
  for (std::thread& thread : threads) thread.join();
  for (const Digest& digest : digests) EXPECT_EQ(digest, first);
  EXPECT_NE(digest_of_image(make_data_image(std::span(list).first(4), {}).image), first);
}

// Two nodes write the same index, and their clocks are not one.
TEST(Hdf5Image, SameInputSameBytesInAnotherSecond) {
  const std::vector<Hdf5VirtualDataset> list{
      {"/parameters/blocks.0/x", DType::F32, {4}, {{"part_00000.h5", "/x/0", {{0}, {4}}}}}};
  const std::pair<std::string, std::string> link{"/masters/x", "/parameters/blocks.0/x"};
  const auto index = [&] {
    return digest_of_image(make_index_image(list, std::span(&link, 1), {{"step", int64_t{3}}}));
  };
  const auto data = [] { return digest_of_image(make_data_image(datasets(), {}).image); };
  const Digest first_index = index(), first_data = data();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(index(), first_index);
  EXPECT_EQ(data(), first_data);
}

TEST(Hdf5Image, FaultsNameTheDataset) {
  const std::vector<Hdf5Dataset> twice{{"/a", DType::F32, {3}}, {"/a", DType::F32, {3}}};
  try {
    make_data_image(twice, {});
    ADD_FAILURE() << "made the same dataset twice";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("create dataset '/a'"), std::string::npos) << error.what();
  }
  const std::vector<Hdf5Dataset> empty{{"/a", DType::F32, {0}}};
  EXPECT_THROW(make_data_image(empty, {}), Error);
  // The library is usable after a fault.
  EXPECT_GT(make_data_image(datasets(), {}).image.size(), 100000);
}

TEST(Hdf5Image, ReadsBackWhatWasWrittenAcrossPages) {
  Hdf5Image image;
  std::vector<std::byte> bytes(10000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  image.write(4090, bytes);
  std::vector<std::byte> read(10020, std::byte{9});
  image.read(4080, read);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), read.begin() + 10));
  EXPECT_EQ(read[9], std::byte{0});
  EXPECT_EQ(read[10010], std::byte{0});
}

TEST(Hash, KnownAnswersAndPiecewiseUse) {
  EXPECT_EQ(to_hex(digest_of(std::string_view())),
            "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing
  const std::string text(1003, 'a');
  Hasher hasher;
  hasher.add(std::as_bytes(std::span(text).first(7)));
  hasher.add(std::as_bytes(std::span(text).subspan(7)));
  EXPECT_EQ(hasher.digest(), digest_of(std::string_view(text)));
  EXPECT_EQ(digest_from_hex(to_hex(hasher.digest())), hasher.digest());
  for (const char* bad : {"", "99aa", "99AA06d3014798d86001c324468d497f", "99aa06d3014798d86001c324468d497g"})
    EXPECT_THROW(digest_from_hex(bad), Error) << bad;
}

}  // namespace
}  // namespace tessera
