// SPDX-License-Identifier: Apache-2.0
// Gradients whose terms lie on several tensor ranks: of norms when each rank sees a part of the tokens, of
// gains that all heads share, of key heads that query heads of two ranks use. They are summed in logical
// form, bucket by bucket: each rank adds its terms where its box lies in the whole tensor. Megatron-LM keeps
// flags on parameters for this; here the declared table decides (nn/parameter.h).
#pragma once
#include <map>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/data/flat_buffers.h"

namespace tessera {

// True when ranks along `axis` hold terms of one sum for some of the parameter's elements.
bool has_terms_along(const ParameterSpec& spec, Axis axis, int ranks);

class SharedGradients {
 public:
  // All must outlive it.
  SharedGradients(const ParameterStore& store, const FlatBuffers& buffers, Communicator& tensor_group,
                  Backend& backend);

  bool any() const { return !buckets_.empty(); }
  bool has(int bucket) const { return buckets_.contains(bucket); }
  // Sums what the bucket's parameters hold; finish() writes the sums into the bucket's whole gradients, so
  // that every holder has the same bits. A bucket without such gradients gives a work that is done.
  Work start(int bucket);
  void finish(int bucket, const Tensor& whole);

 private:
  struct Entry {
    const Parameter* parameter;
    int64_t in_bucket, in_message;
  };
  struct OfBucket {
    std::vector<Entry> entries;
    int64_t elements = 0;
    Tensor message = {};  // between start and finish
  };

  Communicator& group_;
  Backend& backend_;
  std::map<int, OfBucket> buckets_;
};

}  // namespace tessera
