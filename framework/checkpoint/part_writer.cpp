// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/part_writer.h"

#include <algorithm>

#include "framework/base/check.h"
#include "framework/checkpoint/file.h"

namespace tessera {
namespace {

Hdf5DataImage lay_out(const PlannedPart& part) {
  std::vector<Hdf5Dataset> datasets;
  datasets.reserve(part.pieces.size());
  for (const PlannedPiece& piece : part.pieces) {
    Hdf5Attributes attributes;
    if (!piece.box.offset.empty()) attributes.emplace_back("offset", piece.box.offset);
    datasets.push_back({piece.dataset, piece.dtype, Shape(piece.box.extent), std::move(attributes)});
  }
  const Hdf5Attributes about{
      {"about", std::string("Pieces of a checkpoint; index.h5 beside this file shows whole tensors.")}};
  return make_data_image(datasets, about);
}

}  // namespace

PartWriter::PartWriter(std::filesystem::path file, const PlannedPart& part, int rank,
                       const std::atomic<bool>& stop)
    : path_(std::move(file)), part_(part), rank_(rank), stop_(stop), laid_out_(lay_out(part)) {
  for (size_t i = 0; i < part_.pieces.size(); ++i) {
    extents_.push_back({i, laid_out_.positions[i]});
    if (part_.pieces[i].rank == rank_) positions_.push_back(laid_out_.positions[i]);
  }
  checksums_.resize(positions_.size());
  std::sort(extents_.begin(), extents_.end(),
            [](const Extent& a, const Extent& b) { return a.position < b.position; });
}

bool PartWriter::has_turn(int turn) const {
  const auto index = static_cast<size_t>(turn);
  return index < part_.ranks.size() && part_.ranks[index] == rank_;
}

void PartWriter::check_stop() const {
  CHECK(!stop_.load(std::memory_order_relaxed), "writing {} was stopped", path_.string());
}

void PartWriter::write_image(StoredOutput& file, int64_t begin, int64_t end) {
  std::vector<std::byte> block(static_cast<size_t>(std::min(end - begin, int64_t{1} << 20)));
  while (begin < end) {
    const auto part = std::span(block).first(std::min(block.size(), static_cast<size_t>(end - begin)));
    laid_out_.image.read(begin, part);
    file.write_at(begin, part);
    whole_.add(part);
    begin += static_cast<int64_t>(part.size());
  }
}

void PartWriter::write_piece(StoredOutput& file, const Extent& extent, const PieceBytes& bytes) {
  const PlannedPiece& piece = part_.pieces[extent.piece];
  Hasher own;
  for (int64_t begin = 0; begin < piece.bytes(); begin += kBlock) {
    check_stop();
    const auto block = bytes(piece.index, begin, std::min(begin + kBlock, piece.bytes()));
    own.add(block);
    whole_.add(block);
    file.write_at(extent.position + begin, block);
  }
  checksums_[piece.index] = own.digest();
}

void PartWriter::write(const PieceBytes& bytes) {
  StoredOutput file(path_, first() ? StoredOutput::Mode::Create : StoredOutput::Mode::Existing);
  int64_t end = 0;  // of what was passed so far
  for (const Extent& extent : extents_) {
    const PlannedPiece& piece = part_.pieces[extent.piece];
    CHECK(extent.position >= end, "HDF5 placed {} over another dataset", piece.dataset);
    if (first()) write_image(file, end, extent.position);
    if (piece.rank == rank_) write_piece(file, extent, bytes);
    end = extent.position + piece.bytes();
  }
  if (first()) {
    write_image(file, end, laid_out_.image.size());
    file.resize(laid_out_.image.size());
  }
  file.sync_and_close();
}

StoredFile PartWriter::seal(bool verify, std::span<const Digest> checksums) {
  const bool sole = part_.ranks.size() == 1;
  StoredFile written{path_.filename().string(), laid_out_.image.size(), whole_.digest()};
  if (sole && !verify) return written;

  StoredInput file(path_);
  file.drop_cache();
  Hasher whole;
  std::vector<std::byte> block(static_cast<size_t>(kBlock));
  int64_t position = 0;
  // Reads [position, end) and hashes it as a part of the file, and as a piece where that is asked for.
  const auto pass = [&](int64_t end, Hasher* piece) {
    while (position < end) {
      check_stop();
      const auto part = std::span(block).first(std::min(block.size(), static_cast<size_t>(end - position)));
      const int64_t count = file.read_at(position, part);
      CHECK_AS(ExitCode::Data, count == static_cast<int64_t>(part.size()),
               "{} ends after {} bytes when it is read back, {} were written", path_.string(),
               position + count, written.bytes);
      whole.add(part);
      if (piece != nullptr) piece->add(part);
      position += count;
    }
  };
  for (const Extent& extent : extents_) {
    pass(extent.position, nullptr);
    Hasher piece;
    pass(extent.position + part_.pieces[extent.piece].bytes(), &piece);
    CHECK_AS(ExitCode::Data, piece.digest() == checksums[extent.piece],
             "{} reads back with other bytes of {} than were written: the storage is at fault",
             path_.string(), part_.pieces[extent.piece].dataset);
  }
  pass(written.bytes, nullptr);
  if (sole)
    CHECK_AS(ExitCode::Data, whole.digest() == written.checksum,
             "{} reads back with other bytes than were written: the storage is at fault", path_.string());
  written.checksum = whole.digest();
  return written;
}

StoredFile measured_file(const std::filesystem::path& path, const std::atomic<bool>* stop) {
  const StoredInput file(path);
  std::vector<std::byte> block(static_cast<size_t>(PartWriter::kBlock));
  StoredFile result{path.filename().string(), 0, {}};
  Hasher hasher;
  for (;;) {
    CHECK(stop == nullptr || !stop->load(std::memory_order_relaxed), "reading {} was stopped", path.string());
    const int64_t count = file.read_at(result.bytes, block);
    if (count == 0) break;
    hasher.add(std::span(block).first(static_cast<size_t>(count)));
    result.bytes += count;
  }
  result.checksum = hasher.digest();
  return result;
}

}  // namespace tessera
