// SPDX-License-Identifier: Apache-2.0
// Configs that differ only in their layout, from strings such as "tp=2 pp=2 train.micro_batch_size=2".
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/load.h"
#include "framework/train/compare.h"

namespace tessera {

// The --set arguments that a layout string stands for: words of key=value, where a bare key belongs to
// [parallel]. Spaces inside quotes, brackets and braces belong to the value. Throws Error(Usage).
std::vector<std::string> layout_overrides(std::string_view layout);

struct LayoutConfigs {
  std::vector<CompareLayout> layouts;  // not yet resolved; the first is the reference
  std::vector<std::string> notes;
};
// One config a string; none stands for the config's own layout. The first is the reference, or, when there
// is only one, the config itself on one rank.
LayoutConfigs layout_configs(const ConfigRequest& request, const std::vector<std::string>& layouts);

// Resolves each for its own mesh. All train the same global batch: that of the first layout that was asked
// for, where the config leaves it to the mesh. Throws Error(Usage) when a layout asks for another one.
void resolve_layouts(std::vector<CompareLayout>& layouts);

}  // namespace tessera
