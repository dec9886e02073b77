// SPDX-License-Identifier: Apache-2.0
#include "models/common/names.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr std::string_view kBlocks = "blocks.";

// The digits of "blocks.12.mlp.up"; empty for a name outside the blocks.
std::string_view block_number(std::string_view name) {
  if (!name.starts_with(kBlocks)) return {};
  const std::string_view rest = name.substr(kBlocks.size());
  const std::string_view digits = rest.substr(0, rest.find('.'));
  return std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }) ? digits
                                                                                  : std::string_view();
}

// The rule's text with its N, the part between dots, replaced by a block number.
std::string with_block(std::string_view pattern, std::string_view number) {
  const size_t at = pattern.find(".N.");
  if (at == std::string_view::npos) return std::string(pattern);
  return std::string(pattern.substr(0, at + 1)) + std::string(number) + std::string(pattern.substr(at + 2));
}

}  // namespace

std::optional<ForeignTensor> foreign_tensor(std::span<const NameRule> rules, std::string_view ours) {
  const size_t dot = ours.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view stem = ours.substr(0, dot), kind = ours.substr(dot);
  if (kind != ".weight" && kind != ".bias") return std::nullopt;
  const std::string_view number = block_number(stem);
  for (const NameRule& rule : rules) {
    const bool in_block = rule.ours.starts_with(kBlocks);
    if (in_block == number.empty() || with_block(rule.ours, number) != stem) continue;
    return ForeignTensor{.name = with_block(rule.theirs, number) + std::string(kind),
                         .transposed = rule.transposed && kind == ".weight",
                         .part = rule.part,
                         .parts = rule.parts};
  }
  return std::nullopt;
}

}  // namespace tessera
