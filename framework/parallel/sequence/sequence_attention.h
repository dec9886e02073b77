// SPDX-License-Identifier: Apache-2.0
// Attention of sequences that are cut over the ranks of a group (mesh/sequence_cut.h), in three ways that
// give the same result and keep the same: q, k, v, y and lse of the local part. docs/parallelism.md has what
// each sends and holds.
#pragma once
#include <memory>

#include "framework/comm/communicator.h"
#include "framework/nn/attention_core.h"

namespace tessera {

// `group` is that of the sequence axis and outlives the core; every rank of it makes the same calls. Batches
// are cut for this rank of the group, or whole where the group has one rank. Throws ExitCode::Usage when
// Ulysses cannot divide the heads.
std::unique_ptr<AttentionCore> make_sequence_attention(SequenceMode mode, Communicator& group,
                                                       const AttentionSettings& settings);

}  // namespace tessera
