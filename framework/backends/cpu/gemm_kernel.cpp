// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/gemm_block.h"
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/backends/cpu/gemm_kernel.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/gemm_pack-inl.h"
#include "framework/backends/cpu/gemm_tile-inl.h"
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
    a_panels_ = reinterpret_cast<T*>(place);
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
      for (int64_t i = block.row_begin; i < block.row_end; i += kPackRows) {
        const int64_t rows = std::min(kPackRows, block.row_end - i);
        pack_a(i, rows, k, depth);
        multiply(i, rows, k, depth, block);
      }
      k += depth;
    } while (k < args_.k);
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

  void pack_a(int64_t i, int64_t rows, int64_t k, int64_t depth) {
    if (args_.transpose_a)
      return pack_a_transposed(a_ + k * args_.lda + i, args_.lda, rows, depth, a_panels_);
    T* out = a_panels_;
    for (int64_t r = 0; r < rows; r += 4, out += 4 * depth)
      pack_a_rows(a_ + (i + r) * args_.lda + k, args_.lda, std::min<int64_t>(4, rows - r), depth, out);
  }

  void multiply(int64_t i, int64_t rows, int64_t k, int64_t depth, const GemmRegion& block) {
    alignas(64) T tile[kTileRows * kTileColumns<T>];
    const T* a = a_panels_;
    for (int64_t r = 0; r < rows; r += kTileRows, a += kTileRows * depth) {
      const int64_t tile_rows = std::min(kTileRows, rows - r);
      const T* b = b_panels_;
      for (int64_t j = block.column_begin; j < block.column_end;
           j += kTileColumns<T>, b += kTileColumns<T> * depth) {
        if (tile_rows == 1)
          multiply_panels<1>(a, b, depth, tile);
        else if (tile_rows <= 4)
          multiply_panels<4>(a, b, depth, tile);
        else
          multiply_panels<kTileRows>(a, b, depth, tile);
        finish(tile, i + r, tile_rows, j, std::min(kTileColumns<T>, block.column_end - j), k);
      }
    }
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
  T* a_panels_;
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
