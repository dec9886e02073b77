// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/tensor_reader.h"

#include <algorithm>

#include "framework/base/check.h"

namespace tessera {
namespace {

// The offset of the element at global index `at` among the packed elements of `box`.
int64_t offset_in(const Box& box, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset = offset * box.extent[d] + (at[d] - box.offset[d]);
  return offset;
}

// Calls visit(first global index, elements) for every run of `common` that is contiguous in both boxes.
template <class Visit>
void for_each_run(const Box& common, const Box& a, const Box& b, Visit&& visit) {
  const size_t rank = common.offset.size();
  // Dims from `inner` on make one run: below the first, both boxes must be as wide as the common part.
  size_t inner = rank;
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= common.extent[inner];
    if (a.extent[inner] != common.extent[inner] || b.extent[inner] != common.extent[inner]) break;
  }
  std::vector<int64_t> at = common.offset;
  for (;;) {
    visit(at, run);
    size_t d = inner;
    while (d > 0 && ++at[d - 1] == common.offset[d - 1] + common.extent[d - 1]) {
      at[d - 1] = common.offset[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace

TensorReader::TensorReader(std::filesystem::path folder, const Manifest& manifest)
    : folder_(std::move(folder)), manifest_(manifest) {}

const InputFile& TensorReader::file_of(int64_t part) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& e) { return e.first == part; });
  if (found != open_.end()) return found->second;
  if (open_.size() == kOpenFiles) open_.pop_back();
  open_.emplace_front(part, InputFile(folder_ / manifest_.parts[static_cast<size_t>(part)].name));
  return open_.front().second;
}

void TensorReader::read_run(const StoredPiece& piece, int64_t piece_bytes, int64_t begin,
                            std::span<std::byte> to) {
  const int64_t position = piece.position + begin;
  const auto size = static_cast<int64_t>(to.size());
  const auto read_exactly = [&](int64_t from, std::span<std::byte> bytes) {
    const InputFile& file = file_of(piece.part);
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

void TensorReader::copy_common(const Source& source, const Target& target) {
  const Box common = intersection(source.piece->box, target.box);
  if (common.elements() == 0) return;
  const int64_t piece_bytes = source.piece->box.elements() * source.element;
  for_each_run(common, source.piece->box, target.box, [&](const std::vector<int64_t>& at, int64_t elements) {
    const int64_t from = offset_in(source.piece->box, at) * source.element;
    const int64_t to = offset_in(target.box, at) * source.element;
    read_run(*source.piece, piece_bytes, from,
             target.bytes.subspan(static_cast<size_t>(to), static_cast<size_t>(elements * source.element)));
  });
}

void TensorReader::read(const StoredTensor& tensor, const Box& box, int64_t begin, int64_t end,
                        std::span<std::byte> to) {
  const int64_t element = size_of(tensor.dtype);
  CHECK(static_cast<int64_t>(to.size()) == (end - begin) * element, "{} bytes of room for {} elements of {}",
        to.size(), end - begin, name_of(tensor.dtype));
  // Each box of the flat range is contiguous in the target. Coverage was proved, so all of it is written.
  for (Box& part : boxes_of_flat_range(Shape(box.extent), begin, end)) {
    for (size_t d = 0; d < part.offset.size(); ++d) part.offset[d] += box.offset[d];
    const auto bytes = static_cast<size_t>(part.elements() * element);
    const Target target{std::move(part), to.first(bytes)};
    for (const StoredPiece& piece : tensor.pieces) copy_common({&piece, element}, target);
    to = to.subspan(bytes);
  }
}

}  // namespace tessera
