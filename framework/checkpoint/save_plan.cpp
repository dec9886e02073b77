// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/save_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/checkpoint/coverage.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using BoxesByTensor = std::map<std::string, std::vector<Box>>;

// One rank's pieces, in the order of its declaration, with the tensors noted in the plan.
std::vector<PlannedPiece> pieces_from(const std::string& declaration, int rank, SavePlan& plan) {
  std::vector<PlannedPiece> pieces;
  for (const Json& entry : Json::parse(declaration)) {
    const auto name = entry[0].get<std::string>();
    const SavePlan::Info info{dtype_named(entry[1].get<std::string>()),
                              Shape(std::span<const int64_t>(entry[2].get<std::vector<int64_t>>()))};
    const auto [known, fresh] = plan.tensors.emplace(name, info);
    CHECK(fresh || (known->second.dtype == info.dtype && known->second.shape == info.shape),
          "rank {} saves {} as {} of {}, another rank as {} of {}", rank, name, name_of(info.dtype),
          info.shape.to_string(), name_of(known->second.dtype), known->second.shape.to_string());
    for (const Json& box : entry[3]) {
      PlannedPiece piece{.rank = rank,
                         .index = pieces.size(),
                         .tensor = name,
                         .dataset = {},
                         .dtype = info.dtype,
                         .box = {box[0].get<std::vector<int64_t>>(), box[1].get<std::vector<int64_t>>()}};
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

void add_to_part(PlannedPart& part, int rank, std::vector<PlannedPiece> pieces,
                 std::map<std::string, int64_t>& counts, SavePlan& plan) {
  if (pieces.empty()) return;
  part.ranks.push_back(rank);
  for (PlannedPiece& piece : pieces) {
    piece.dataset = fmt::format("/{}/{}", piece.tensor, counts[piece.tensor]++);
    plan.data_bytes += piece.bytes();
    ++plan.pieces;
    part.pieces.push_back(std::move(piece));
  }
}

void check_coverage(const SavePlan& plan) {
  BoxesByTensor boxes;
  for (const PlannedPart& part : plan.parts)
    for (const PlannedPiece& piece : part.pieces) boxes[piece.tensor].push_back(piece.box);
  for (const auto& [name, info] : plan.tensors) {
    const std::optional<std::string> fault = coverage_fault(info.shape, boxes[name]);
    CHECK(!fault, "{} {} cannot be saved: {}", name, info.shape.to_string(), *fault);
  }
}

}  // namespace

int SavePlan::turns() const {
  size_t most = 0;
  for (const PlannedPart& part : parts) most = std::max(most, part.ranks.size());
  return static_cast<int>(most);
}

int64_t SavePlan::estimated_bytes() const {
  // A page of alignment and HDF5 metadata for each piece, its line in the manifest, its entry in the index.
  constexpr int64_t kPerPiece = 6144, kPerFile = 65536;
  return data_bytes + pieces * kPerPiece + static_cast<int64_t>(parts.size() + 2) * kPerFile;
}

std::string declaration_of(const TensorMap& tensors) {
  Json entries = Json::array();
  for (const auto& [name, tensor] : tensors) {
    Json boxes = Json::array();
    for (const Piece& piece : tensor.pieces)
      if (piece.writes && piece.box.elements() > 0)
        boxes.push_back(Json::array({piece.box.offset, piece.box.extent}));
    const std::vector<int64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
    entries.push_back(Json::array({name, name_of(tensor.dtype), dims, std::move(boxes)}));
  }
  return entries.dump();
}

SavePlan make_save_plan(const std::vector<std::string>& declarations, int max_files, const Sites& sites) {
  CHECK_AS(ExitCode::Usage, max_files >= 1, "checkpoint.max_files is {}, it must be at least 1", max_files);
  SavePlan plan;
  const auto ranks = static_cast<int64_t>(declarations.size());
  for (const int leader : std::set<int>(sites.leader.begin(), sites.leader.end())) {
    const std::vector<int> members = sites.ranks_of(leader);
    const auto count = static_cast<int64_t>(members.size());
    const int64_t parts = std::min(count, std::max<int64_t>(1, max_files * count / ranks));
    for (int64_t number = 0; number < parts; ++number) {
      PlannedPart part;
      std::map<std::string, int64_t> counts;
      const Range range = part_of(count, parts, number);
      for (int64_t index = range.begin; index < range.end; ++index) {
        const int rank = members[static_cast<size_t>(index)];
        add_to_part(part, rank, pieces_from(declarations[static_cast<size_t>(rank)], rank, plan), counts,
                    plan);
      }
      if (!part.pieces.empty()) plan.parts.push_back(std::move(part));
    }
  }
  CHECK(!plan.parts.empty(), "there is nothing to save: no rank writes a piece");
  check_coverage(plan);
  return plan;
}

}  // namespace tessera
