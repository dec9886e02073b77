// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/packing.h"

#include <algorithm>
#include <cmath>

namespace tessera {

std::optional<RowPlace> Packing::from(int64_t epoch, int64_t block) const {
  for (; block < blocks(epoch); ++block)  // a block of empty documents has no rows
    if (rows(epoch, block) > 0) return RowPlace{.epoch = epoch, .block = block, .row = 0};
  return std::nullopt;
}

std::optional<RowPlace> Packing::after(const RowPlace& place) const {
  if (place.row + 1 < rows(place.epoch, place.block))
    return RowPlace{.epoch = place.epoch, .block = place.block, .row = place.row + 1};
  return from(place.epoch, place.block + 1);
}

int64_t evaluation_share(int64_t count, const std::array<double, 2>& split) {
  int64_t eval = std::llround(static_cast<double>(count) * (split[1] / (split[0] + split[1])));
  if (split[1] > 0) eval = std::max<int64_t>(eval, 1);
  if (split[0] > 0) eval = std::min(eval, count - 1);
  return std::max<int64_t>(eval, 0);
}

}  // namespace tessera
