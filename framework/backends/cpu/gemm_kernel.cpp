// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/gemm_block.h"
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/backends/cpu/gemm_kernel.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/gemm_pack-inl.h"
#include "framework/backends/cpu/gemm_tile-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
using detail::GemmRegion;
using detail::GemmWorkspace;
using detail::kDepth;
using detail::kPackRows;
using detail::round_up;

template <class S, class T>
class RegionProduct {
 public:
  RegionProduct(const GemmArgs& args, const GemmWorkspace& sizes, void* workspace)
      : args_(args), a_(static_cast<const S*>(args.a)), b_(static_cast<const S*>(args.b)) {
    char* place = static_cast<char*>(workspace);
    a_panels_[0] = reinterpret_cast<T*>(place);
    a_panels_[1] = reinterpret_cast<T*>(place + sizes.a_bytes / 2);
    b_panels_ = reinterpret_cast<T*>(place + sizes.a_bytes);
    partial_ = reinterpret_cast<T*>(place + sizes.a_bytes + sizes.b_bytes);
  }

  void run(const GemmRegion& region) {
    const int64_t rows = region.row_end - region.row_begin;
    const int64_t block_columns = detail::block_columns(args_.type, rows);
    const int64_t block_rows =
        detail::needs_partial(args_) ? detail::kPartialRows : std::max<int64_t>(rows, 1);
    for (int64_t j = region.column_begin; j < region.column_end; j += block_columns) {
      const int64_t j_end = std::min(j + block_columns, region.column_end);
      for (int64_t i = region.row_begin; i < region.row_end; i += block_rows)
        run_block({i, std::min(i + block_rows, region.row_end), j, j_end});
    }
  }

 private:
  // All of k for one block of c.
  void run_block(const GemmRegion& block) {
    int64_t k = 0;
    do {
      const int64_t depth = std::min(kDepth, args_.k - k);
      pack_b(k, depth, block.column_begin, block.column_end);
      APanels now(*this, a_panels_[0], block.row_begin, block.row_end, k, depth);
      now.pack(depth);
      for (int64_t i = block.row_begin, turn = 1; i < block.row_end; i += kPackRows, turn ^= 1) {
        APanels next(*this, a_panels_[turn], i + kPackRows, block.row_end, k, depth);
        multiply(now, next, block);
        now = next;
      }
      k += depth;
    } while (k < args_.k);
  }

  // kPackRows rows of a, packed piece by piece. While tiles of one group are computed, the next is packed,
  // and what that needs was asked from memory one tile earlier: memory is hidden behind arithmetic without
  // keeping more than a piece of a in cache, which rows a power of two apart would not allow.
  class APanels {
   public:
    APanels(const RegionProduct& product, T* out, int64_t row, int64_t row_end, int64_t k, int64_t depth)
        : product_(&product),
          out_(out),
          row_(row),
          rows_(std::max<int64_t>(std::min(kPackRows, row_end - row), 0)),
          k_(k),
          depth_(depth) {}

    void pack(int64_t count) {
      const int64_t end = std::min(packed_ + count, depth_);
      if (rows_ == 0 || end == packed_) return;
      const GemmArgs& args = product_->args_;
      if (args.transpose_a)
        pack_a_transposed(product_->a_ + k_ * args.lda + row_, args.lda, rows_, packed_, end, depth_, out_);
      else
        pack_a(product_->a_ + row_ * args.lda + k_, args.lda, rows_, packed_, end, depth_, out_);
      packed_ = end;
    }
    // Asks for what the next pack(count) reads.
    void prefetch(int64_t count) const {
      const int64_t end = std::min(packed_ + count, depth_);
      if (rows_ == 0 || end == packed_) return;
      const GemmArgs& args = product_->args_;
      if (args.transpose_a)
        prefetch_box(product_->a_ + (k_ + packed_) * args.lda + row_, args.lda, end - packed_, rows_);
      else
        prefetch_box(product_->a_ + row_ * args.lda + k_ + packed_, args.lda, rows_, end - packed_);
    }
    const T* panels() const { return out_; }
    int64_t row() const { return row_; }
    int64_t rows() const { return rows_; }
    int64_t depth() const { return depth_; }
    int64_t k() const { return k_; }

   private:
    const RegionProduct* product_;
    T* out_;
    int64_t row_, rows_, k_, depth_, packed_ = 0;
  };

  template <class E>
  static void prefetch_box(const E* start, int64_t stride, int64_t rows, int64_t columns) {
    constexpr int64_t line = 64 / sizeof(E);
    for (int64_t r = 0; r < rows; ++r, start += stride) {
      for (int64_t c = 0; c < columns; c += line) hwy::Prefetch(start + c);
      hwy::Prefetch(start + columns - 1);
    }
  }

  void pack_b(int64_t k, int64_t depth, int64_t begin, int64_t end) {
    T* out = b_panels_;
    for (int64_t j = begin; j < end; j += kTileColumns<T>, out += kTileColumns<T> * depth) {
      const int64_t columns = std::min(kTileColumns<T>, end - j);
      if (args_.transpose_b)
        pack_b_panel_transposed(b_ + j * args_.ldb + k, args_.ldb, columns, depth, out);
      else
        pack_b_panel(b_ + k * args_.ldb + j, args_.ldb, columns, depth, out);
    }
  }

  void multiply(const APanels& now, APanels& next, const GemmRegion& block) {
    alignas(64) T tile[kTileRows * kTileColumns<T>];
    const int64_t depth = now.depth();
    const int64_t tile_rows = (now.rows() + kTileRows - 1) / kTileRows;
    const int64_t tile_columns =
        (block.column_end - block.column_begin + kTileColumns<T> - 1) / kTileColumns<T>;
    const int64_t piece = round_up((depth + tile_rows * tile_columns - 1) / (tile_rows * tile_columns), 16);
    next.prefetch(piece);
    const T* a = now.panels();
    for (int64_t r = 0; r < now.rows(); r += kTileRows, a += kTileRows * depth) {
      const int64_t rows = std::min(kTileRows, now.rows() - r);
      const T* b = b_panels_;
      for (int64_t j = block.column_begin; j < block.column_end;
           j += kTileColumns<T>, b += kTileColumns<T> * depth) {
        const int64_t columns = std::min(kTileColumns<T>, block.column_end - j);
        prefetch_box(static_cast<T*>(args_.c) + (now.row() + r) * args_.ldc + j, args_.ldc, rows, columns);
        if (rows == 1)
          multiply_panels<1>(a, b, depth, tile);
        else if (rows <= 4)
          multiply_panels<4>(a, b, depth, tile);
        else
          multiply_panels<kTileRows>(a, b, depth, tile);
        finish(tile, now.row() + r, rows, j, columns, now.k());
        next.pack(piece);
        next.prefetch(piece);
      }
    }
    next.pack(depth);
  }

  void finish(const T* HWY_RESTRICT tile, int64_t i, int64_t rows, int64_t j, int64_t columns, int64_t k) {
    T* HWY_RESTRICT c = static_cast<T*>(args_.c) + i * args_.ldc + j;
    const hn::ScalableTag<T> d;
    constexpr int64_t lanes = kLanes<T>;
    for (int64_t r = 0; r < rows; ++r, c += args_.ldc, tile += 3 * lanes) {
      if (columns == kTileColumns<T>) {
        if (k == 0) {
          for (int v = 0; v < 3; ++v) hn::StoreU(hn::Load(d, tile + v * lanes), d, c + v * lanes);
        } else {
          for (int v = 0; v < 3; ++v)
            hn::StoreU(hn::Add(hn::Load(d, tile + v * lanes), hn::LoadU(d, c + v * lanes)), d, c + v * lanes);
        }
      } else {
        for (int64_t q = 0; q < columns; ++q) c[q] = k == 0 ? tile[q] : tile[q] + c[q];
      }
    }
  }

  const GemmArgs& args_;
  const S* a_;
  const S* b_;
  T* a_panels_[2];
  T* b_panels_;
  T* partial_;
};

void gemm_region(const GemmArgs& args, const GemmRegion& region, const GemmWorkspace& sizes,
                 void* workspace) {
  RegionProduct<float, float>(args, sizes, workspace).run(region);
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
