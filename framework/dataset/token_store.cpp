// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/token_store.h"

#include "framework/base/check.h"

namespace tessera {

int64_t TokenStore::document_of(int64_t position) const {
  CHECK(position >= 0 && position < tokens(), "token {} of {}", position, tokens());
  int64_t low = 0, high = documents();  // the first document whose end is above `position`
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (document_end(middle) > position)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace tessera
