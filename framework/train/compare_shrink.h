// SPDX-License-Identifier: Apache-2.0
// A small copy of a big model for `tessera compare --shrink`: the same structure on the same kind of mesh, in
// odd sizes that the mesh divides only where it must. Every layout gets the same small model.
#pragma once
#include <filesystem>

#include "framework/train/compare.h"

namespace tessera {

// `layouts` as layout_configs gives them, not yet resolved; afterwards they are small and still unresolved.
// Their meshes are made smaller until each has at most `most_ranks`: dp first, then the largest other axis,
// halved (rounded up) and again, and no axis that was above 1 falls below 2. Throws Error(Usage) when that is
// not enough.
void shrink_layouts(std::vector<CompareLayout>& layouts, int64_t most_ranks, int steps);

// Documents of random length and random tokens, in a token file of a folder of its own that lives as long as
// this object. The layouts read them instead of their own sources.
class SyntheticTokens {
 public:
  explicit SyntheticTokens(std::vector<CompareLayout>& layouts);
  ~SyntheticTokens();
  SyntheticTokens(const SyntheticTokens&) = delete;
  SyntheticTokens& operator=(const SyntheticTokens&) = delete;

 private:
  std::filesystem::path folder_;
};

}  // namespace tessera
