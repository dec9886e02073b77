// SPDX-License-Identifier: Apache-2.0
// Gradients whose terms lie on several tensor ranks: of norms when each rank sees a part of the tokens, of
// gains that all heads share, of key heads that query heads of two ranks use. They are summed in logical
// form: each rank adds its terms where its box lies in the whole tensor. Megatron-LM keeps a list of flags on
// parameters for this; here the declared table decides (nn/parameter.h).
#pragma once
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/nn/parameter.h"
#include "framework/ops/backend.h"

namespace tessera {

// True when ranks along `axis` hold terms of one sum for some of the parameter's elements.
bool has_terms_along(const ParameterSpec& spec, Axis axis, int ranks);

class SharedGradients {
 public:
  // The store and the group must outlive it.
  SharedGradients(ParameterStore& store, Communicator& tensor_group, Backend& backend);

  // One sum over the group, after the reduction over data ranks: every holder then has the same bits.
  void sum();
  int64_t elements() const { return elements_; }  // of one rank's message

 private:
  struct Entry {
    const Parameter* parameter;
    int64_t begin;  // in the message
  };

  Communicator& group_;
  Backend& backend_;
  std::vector<Entry> entries_;
  int64_t elements_ = 0;
  DType dtype_ = DType::F32;
};

}  // namespace tessera
