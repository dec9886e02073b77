// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/sequence/sequence_attention.h"

#include "framework/parallel/sequence/gathered_attention.h"
#include "framework/parallel/sequence/ring_attention.h"
#include "framework/parallel/sequence/ulysses_attention.h"

namespace tessera {

std::unique_ptr<AttentionCore> make_sequence_attention(SequenceMode mode, Communicator& group,
                                                       const AttentionSettings& settings) {
  if (mode == SequenceMode::Ulysses) check_ulysses_heads(settings.share, group.size());
  if (group.size() == 1) return std::make_unique<LocalAttention>(settings);
  switch (mode) {
    case SequenceMode::Ring:
      return std::make_unique<RingAttention>(group, settings);
    case SequenceMode::Ulysses:
      return std::make_unique<UlyssesAttention>(group, settings);
    case SequenceMode::Gather:
      break;
  }
  return std::make_unique<GatheredAttention>(group, settings);
}

}  // namespace tessera
