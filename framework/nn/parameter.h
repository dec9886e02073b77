// SPDX-License-Identifier: Apache-2.0
// The one table of logical tensors. Initialisation, ZeRO, the gradient norm, decay, checkpoints, export and
// the planner read it; no flags travel on tensors. Names are those of docs/checkpoints.md and are API.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/mesh/shard_spec.h"
#include "framework/tensor/tensor.h"

namespace tessera {

enum class Role : uint8_t { Matrix, Embedding, Norm, Bias, Buffer };
std::string_view name_of(Role role);

struct Init {
  enum class Kind : uint8_t { Zeros, Ones, Normal };
  Kind kind = Kind::Zeros;
  double std = 0;  // of Normal
};

// One logical tensor, as it is declared by a model. There is no default role: who declares decides.
struct ParameterSpec {
  std::string name;  // "blocks.3.mlp.up.weight"
  Shape shape;       // logical: whole, unpadded, unfused
  Role role;
  Init init;
  ShardSpec shard = {};
  int unit = 0;  // the first schedule unit that uses it; its gradient is final after that unit's W
  std::optional<int> second_unit = {};  // a later one that uses it too: a tied output
  bool trainable = true;
  std::string fused = {};  // consecutive tensors with the same mark lie side by side as one matrix or vector

  // Matrices and embeddings decay; norms, biases and buffers do not.
  bool decays() const { return role == Role::Matrix || role == Role::Embedding; }
};

// What a module computes with: one logical tensor, or several fused ones. Stable address; the tensors in it
// may come and go (a gathered shard), so read them at every call.
struct Weight {
  Tensor value = {};     // compute type
  Tensor gradient = {};  // accumulator type; undefined when frozen
  bool trainable = true;
};

// One logical tensor on this rank. master is fp32 (F64 in gradient checks) and is `value` itself when the
// compute type is the master's.
struct Parameter {
  ParameterSpec spec;
  Box box;                                        // this rank's part of the logical tensor
  Tensor value = {}, master = {}, gradient = {};  // views into flat buffers, shaped as the box
};

// Owns each name once on a rank. Who allocates the flat buffers (parallel/data) binds the tensors.
class ParameterStore {
 public:
  // Works out this rank's box of each spec. Throws on a repeated name or mark, and on a fused group whose
  // parts are not consecutive, differ in columns or mix frozen with trainable.
  ParameterStore(std::vector<ParameterSpec> specs, const Mesh& mesh, int rank);

  std::span<Parameter> parameters() { return parameters_; }
  std::span<const Parameter> parameters() const { return parameters_; }
  Parameter& at(std::string_view name);
  const Parameter& at(std::string_view name) const;
  bool contains(std::string_view name) const { return index_.contains(std::string(name)); }

  // The weight of one name, or of a fused group by its mark. The reference stays valid as long as the store.
  const Weight& weight(std::string_view name_or_mark) const;
  // Points the weights that these parameters (by their place in parameters()) are, or are parts of, at the
  // present tensors; called by who binds or gathers them. Throws when the parts of a fused group do not lie
  // side by side in memory.
  void refresh_weights(std::span<const size_t> parameters);

 private:
  struct Group {
    std::string mark;
    size_t first, count;  // consecutive parameters
    Weight weight;
  };
  void add_to_group(size_t index);

  std::vector<Parameter> parameters_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<Weight> weights_;                  // of each parameter
  std::vector<Group> groups_;                    // of fused ones
  std::vector<std::optional<size_t>> group_of_;  // each parameter's
  std::map<std::string, size_t, std::less<>> index_of_mark_;
};

// What an optimizer sees: a flat range of one parameter, whatever the ZeRO stage.
struct ParameterShard {
  const Parameter* parameter;
  Tensor value, master, gradient;  // flat, equal length
  int64_t begin = 0;               // of the range in the parameter's local box, row-major
};

}  // namespace tessera
