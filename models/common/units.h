// SPDX-License-Identifier: Apache-2.0
// Puts the modules of one unit together on the weights of a store.
#pragma once
#include "framework/nn/attention_core.h"
#include "framework/nn/branch.h"
#include "framework/nn/norm.h"
#include "framework/nn/projection.h"
#include "framework/nn/residual.h"
#include "framework/parallel/tensor/boundary.h"
#include "models/common/decoder.h"

namespace tessera {

class UnitBuilder {
 public:
  UnitBuilder(const DecoderConfig& config, const ParameterStore& store, const UnitOptions& options)
      : config_(config), store_(store), options_(options) {}

  std::unique_ptr<Module> embedding() const;
  std::unique_ptr<Module> block(int64_t index) const;
  std::unique_ptr<Module> head() const;

 private:
  std::unique_ptr<Norm> norm(const std::string& name) const;
  std::unique_ptr<BranchBody> attention(int64_t index, const std::string& name) const;
  std::unique_ptr<BranchBody> mlp(const std::string& name) const;
  // Into a branch, and out of it.
  std::unique_ptr<Projection> column(const std::string& name, bool bias) const;
  std::unique_ptr<Projection> row(const std::string& name, bool bias) const;
  std::unique_ptr<AttentionCore> core(const AttentionSettings& settings) const;
  Boundary boundary() const;
  HiddenDropout dropout(const std::string& purpose) const;
  const Weight* optional_weight(bool present, const std::string& name) const;
  Tensor rope_table() const;

  const DecoderConfig& config_;
  const ParameterStore& store_;
  const UnitOptions& options_;
};

}  // namespace tessera
