// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>

#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/pieces.h"

namespace tessera::cpu {
namespace {

template <class F, class T>
void convert(const F* from, T* to, int64_t count) {
  if constexpr (std::is_same_v<F, double> || std::is_same_v<T, double>) {
    for (int64_t i = 0; i < count; ++i) to[i] = T(static_cast<Real<T>>(static_cast<Real<F>>(from[i])));
  } else if constexpr (kIsWide<F>) {
    written<T>(from, to, count);
  } else {
    std::array<float, kPiece> buffer;
    const float* wide = read<F>(from, buffer.data(), count);
    if constexpr (kIsWide<T>)
      std::copy_n(wide, count, to);
    else
      narrow(wide, to, count);
  }
}

void copy_bytes(int threads, const Tensor& from, const Tensor& to) {
  const int64_t size = size_of(from.dtype());
  for_pieces(threads, {&from, &to}, [&](int64_t row, int64_t column, int64_t count) {
    const char* source = static_cast<const char*>(from.address()) + (row * from.row_stride() + column) * size;
    char* out = static_cast<char*>(to.address()) + (row * to.row_stride() + column) * size;
    std::memmove(out, source, static_cast<size_t>(count * size));
  });
}

}  // namespace

void CpuBackend::copy(const Tensor& from, const Tensor& to) {
  if (from.dtype() == to.dtype()) return copy_bytes(threads(), from, to);
  visit_float(from.dtype(), [&]<class F>() {
    visit_float(to.dtype(), [&]<class T>() {
      if constexpr (!std::is_same_v<F, T>)
        for_pieces(threads(), {&from, &to}, [&](int64_t row, int64_t column, int64_t count) {
          convert(piece<F>(from, row, column), piece<T>(to, row, column), count);
        });
    });
  });
}

void CpuBackend::upload(std::span<const std::byte> from, const Tensor& to) {
  CHECK(to.packed() && to.bytes() == static_cast<int64_t>(from.size()), "upload: {} bytes into {}",
        from.size(), to.describe());
  if (!from.empty()) std::memcpy(to.address(), from.data(), from.size());
}

void CpuBackend::download(const Tensor& from, std::span<std::byte> to) {
  CHECK(from.packed() && from.bytes() == static_cast<int64_t>(to.size()), "download: {} into {} bytes",
        from.describe(), to.size());
  if (!to.empty()) std::memcpy(to.data(), from.address(), to.size());
}

}  // namespace tessera::cpu
