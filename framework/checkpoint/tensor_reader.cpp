// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/tensor_reader.h"

#include <algorithm>

#include "framework/base/check.h"
#include "framework/checkpoint/box_runs.h"

namespace tessera {
std::vector<Box> boxes_within(const Box& box, int64_t begin, int64_t end) {
  std::vector<Box> boxes = boxes_of_flat_range(Shape(box.extent), begin, end);
  for (Box& part : boxes)
    for (size_t d = 0; d < part.offset.size(); ++d) part.offset[d] += box.offset[d];
  return boxes;
}

TensorReader::TensorReader(std::filesystem::path folder, const Manifest& manifest,
                           std::vector<bool> parts_here)
    : folder_(std::move(folder)), manifest_(manifest), parts_here_(std::move(parts_here)) {}

const StoredInput& TensorReader::file_of(int64_t part) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& e) { return e.first == part; });
  if (found != open_.end()) return found->second;
  if (open_.size() == kOpenFiles) open_.pop_back();
  open_.emplace_front(part, StoredInput(folder_ / manifest_.parts[static_cast<size_t>(part)].name));
  return open_.front().second;
}

void TensorReader::read_run(const StoredPiece& piece, int64_t piece_bytes, int64_t begin,
                            std::span<std::byte> to) {
  const int64_t position = piece.position + begin;
  const auto size = static_cast<int64_t>(to.size());
  const auto read_exactly = [&](int64_t from, std::span<std::byte> bytes) {
    const StoredInput& file = file_of(piece.part);
    const int64_t count = file.read_at(from, bytes);
    CHECK_AS(ExitCode::Data, count == static_cast<int64_t>(bytes.size()),
             "{} ends after {} bytes, {} were expected", file.path().string(), from + count,
             from + static_cast<int64_t>(bytes.size()));
  };
  if (size >= kWindow / 4) return read_exactly(position, to);
  const bool inside = window_part_ == piece.part && position >= window_begin_ &&
                      position + size <= window_begin_ + window_size_;
  if (!inside) {
    window_.resize(static_cast<size_t>(kWindow));
    window_part_ = -1;
    window_size_ = std::min(kWindow, piece_bytes - begin);
    read_exactly(position, std::span(window_).first(static_cast<size_t>(window_size_)));
    window_part_ = piece.part;
    window_begin_ = position;
  }
  std::copy_n(window_.begin() + (position - window_begin_), size, to.begin());
}

void TensorReader::copy_common(const StoredPiece& piece, int64_t element, const Box& box,
                               std::span<std::byte> to) {
  const int64_t piece_bytes = piece.box.elements() * element;
  for_each_common_run(piece.box, box, [&](int64_t in_piece, int64_t in_box, int64_t elements) {
    read_run(piece, piece_bytes, in_piece * element,
             to.subspan(static_cast<size_t>(in_box * element), static_cast<size_t>(elements * element)));
  });
}

void TensorReader::read(const StoredTensor& tensor, const Box& box, int64_t begin, int64_t end,
                        std::span<std::byte> to) {
  const int64_t element = size_of(tensor.dtype);
  CHECK(static_cast<int64_t>(to.size()) == (end - begin) * element, "{} bytes of room for {} elements of {}",
        to.size(), end - begin, name_of(tensor.dtype));
  // Each of the boxes is contiguous in the target. Coverage was proved, so all of it is written.
  for (const Box& part : boxes_within(box, begin, end)) {
    const auto bytes = static_cast<size_t>(part.elements() * element);
    for (const StoredPiece& piece : tensor.pieces)
      if (is_here(piece.part)) copy_common(piece, element, part, to.first(bytes));
    to = to.subspan(bytes);
  }
}

}  // namespace tessera
