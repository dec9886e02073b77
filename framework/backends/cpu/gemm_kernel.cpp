// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/gemm_block.h"
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/backends/cpu/gemm_kernel.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/gemm_finish-inl.h"
#include "framework/backends/cpu/gemm_pack-inl.h"
#include "framework/backends/cpu/gemm_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
using detail::GemmRegion;
using detail::GemmWorkspace;
using detail::kDepth;
using detail::kPackRows;

// kPackRows rows of a for one k block, packed piece by piece: while the tiles of one group are computed, the
// next is packed, and what a piece needs was asked from memory one tile earlier. So memory is hidden behind
// arithmetic, and only a piece of a is in cache unpacked, which matters when rows lie a power of two apart.
template <class S, class T>
class APanels {
 public:
  APanels(const GemmArgs& args, T* out, int64_t row, int64_t row_end, int64_t k, int64_t depth)
      : transposed_(args.transpose_a),
        stride_(args.lda),
        out_(out),
        row_(row),
        rows_(std::max<int64_t>(std::min(kPackRows, row_end - row), 0)),
        depth_(depth) {
    if (rows_ == 0) packed_ = depth_;
    const S* a = static_cast<const S*>(args.a);
    if (packed_ < depth_) a_ = a + (transposed_ ? k * stride_ + row : row * stride_ + k);
  }

  // Packs the next `count` of depth.
  void pack(int64_t count) {
    const int64_t end = std::min(packed_ + count, depth_);
    if (end == packed_) return;
    if (transposed_)
      pack_a_transposed(a_, stride_, rows_, packed_, end, depth_, out_);
    else
      pack_a(a_, stride_, rows_, packed_, end, depth_, out_);
    packed_ = end;
  }
  // Asks for what the next pack(count) reads.
  void prefetch(int64_t count, Prefetches& to) const {
    const int64_t piece = std::min(count, depth_ - packed_);
    if (piece == 0) return;
    if (transposed_)
      to.add_box(a_ + packed_ * stride_, stride_, piece, rows_);
    else
      to.add_box(a_ + packed_, stride_, rows_, piece);
  }

  const T* data() const { return out_; }
  int64_t row() const { return row_; }
  int64_t rows() const { return rows_; }

 private:
  const S* a_ = nullptr;
  bool transposed_;
  int64_t stride_;
  T* out_;
  int64_t row_, rows_, depth_, packed_ = 0;
};

// One region of c: for each block of columns and of k, pack b, then meet it with all rows of a.
template <class S, class T, class C>
class RegionProduct {
 public:
  RegionProduct(const GemmArgs& args, const GemmWorkspace& sizes, void* workspace)
      : args_(args), finish_(args, tile_) {
    char* place = static_cast<char*>(workspace);
    a_panels_[0] = reinterpret_cast<T*>(place);
    a_panels_[1] = reinterpret_cast<T*>(place + sizes.a_bytes / 2);
    b_panels_ = reinterpret_cast<T*>(place + sizes.a_bytes);
    if (sizes.partial_bytes > 0) partial_ = reinterpret_cast<T*>(place + sizes.a_bytes + sizes.b_bytes);
  }

  void run(const GemmRegion& region) {
    const int64_t rows = region.row_end - region.row_begin;
    const int64_t block_columns = detail::block_columns(args_.type, rows);
    const int64_t block_rows = partial_ ? detail::kPartialRows : rows;
    for (int64_t j = region.column_begin; j < region.column_end; j += block_columns)
      for (int64_t i = region.row_begin; i < region.row_end; i += block_rows)
        run_block(
            {i, std::min(i + block_rows, region.row_end), j, std::min(j + block_columns, region.column_end)});
  }

 private:
  static constexpr int64_t kColumns = kTileColumns<T>;

  // All of k for one block of c. With k = 0 there is one block of depth 0, whose sums are zero.
  void run_block(const GemmRegion& block) {
    int64_t k = 0;
    do {
      const int64_t depth = std::min(kDepth, args_.k - k);
      pack_b(k, depth, block.column_begin, block.column_end);
      APanels<S, T> rows(args_, a_panels_[0], block.row_begin, block.row_end, k, depth);
      rows.pack(depth);
      for (int turn = 1; rows.rows() > 0; turn ^= 1) {
        APanels<S, T> next(args_, a_panels_[turn], rows.row() + rows.rows(), block.row_end, k, depth);
        multiply(rows, next, k, depth, block);
        next.pack(depth);
        rows = next;
      }
      k += depth;
    } while (k < args_.k);
  }

  void pack_b(int64_t k, int64_t depth, int64_t begin, int64_t end) {
    if (depth == 0) return;
    const S* b = static_cast<const S*>(args_.b);
    if (!args_.transpose_b)
      return HWY_NAMESPACE::pack_b(b + k * args_.ldb + begin, args_.ldb, end - begin, depth, b_panels_);
    T* out = b_panels_;
    for (int64_t j = begin; j < end; j += kColumns, out += kColumns * depth)
      pack_b_panel_transposed(b + j * args_.ldb + k, args_.ldb, std::min(kColumns, end - j), depth, out);
  }

  void multiply(const APanels<S, T>& a, APanels<S, T>& next, int64_t k, int64_t depth,
                const GemmRegion& block) {
    const bool first = k == 0, last = k + depth == args_.k;
    const int64_t width = block.column_end - block.column_begin;
    const int64_t tiles = ((a.rows() + kTileRows - 1) / kTileRows) * ((width + kColumns - 1) / kColumns);
    const int64_t piece = detail::round_up((depth + tiles - 1) / tiles, 16);
    for (int64_t r = 0; r < a.rows(); r += kTileRows) {
      const int64_t rows = std::min(kTileRows, a.rows() - r);
      for (int64_t j = 0; j < width; j += kColumns) {
        const TilePlace at{a.row() + r, rows, block.column_begin + j, std::min(kColumns, width - j)};
        prefetches_.clear();
        finish_.prefetch(at, last, partial_ ? partial_sums(at, block) : nullptr, width, prefetches_);
        next.prefetch(piece, prefetches_);
        multiply_tile(rows, a.data() + r * depth, b_panels_ + j * depth, depth);
        finish_.finish(at, first, last, partial_sums(at, block), partial_ ? width : args_.ldc);
        next.pack(piece);
      }
    }
  }

  void multiply_tile(int64_t rows, const T* a, const T* b, int64_t depth) {
    if (rows == 1)
      multiply_panels<1>(a, b, depth, tile_, prefetches_);
    else if (rows <= 4)
      multiply_panels<4>(a, b, depth, tile_, prefetches_);
    else
      multiply_panels<kTileRows>(a, b, depth, tile_, prefetches_);
  }

  T* partial_sums(const TilePlace& at, const GemmRegion& block) const {
    if (partial_)
      return partial_ + (at.row - block.row_begin) * (block.column_end - block.column_begin) + at.column -
             block.column_begin;
    if constexpr (std::is_same_v<T, C>)
      return static_cast<T*>(args_.c) + at.row * args_.ldc + at.column;
    else
      return nullptr;
  }

  const GemmArgs& args_;
  T* a_panels_[2];
  T* b_panels_;
  T* partial_ = nullptr;
  alignas(64) T tile_[kTileRows * kColumns];
  Prefetches prefetches_;
  TileFinish<S, T, C> finish_;
};

template <class S, class T, class C>
void run_region(const GemmArgs& args, const GemmRegion& region, const GemmWorkspace& sizes, void* workspace) {
  RegionProduct<S, T, C>(args, sizes, workspace).run(region);
}

void gemm_region(const GemmArgs& args, const GemmRegion& region, const GemmWorkspace& sizes,
                 void* workspace) {
  const bool wide = args.c_type == DType::F32;
  if (args.type == DType::F64)
    run_region<double, double, double>(args, region, sizes, workspace);
  else if (args.type == DType::F32)
    run_region<float, float, float>(args, region, sizes, workspace);
  else if (args.type == DType::BF16)
    (wide ? run_region<BFloat16, float, float> : run_region<BFloat16, float, BFloat16>)(args, region, sizes,
                                                                                        workspace);
  else
    (wide ? run_region<Float16, float, float> : run_region<Float16, float, Float16>)(args, region, sizes,
                                                                                     workspace);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::detail {
namespace {
HWY_EXPORT(gemm_region);
}

void gemm_region(const GemmArgs& args, const GemmRegion& region, const GemmWorkspace& sizes,
                 void* workspace) {
  HWY_DYNAMIC_DISPATCH(gemm_region)(args, region, sizes, workspace);
}

}  // namespace tessera::cpu::detail
#endif
