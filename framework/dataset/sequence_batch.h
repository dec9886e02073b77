// SPDX-License-Identifier: Apache-2.0
// The part of a batch that one rank of the sequence axis holds: its chunks of every row, in the order of
// mesh/sequence_cut.h. Every rank of the axis reads the same rows and keeps its own part; targets are those
// of the whole row, so the token behind a cut is known on both sides.
#pragma once
#include "framework/dataset/host_batch.h"

namespace tessera {

// `whole` has rows of cut.length positions. Rows cut over one rank come back as they are.
HostBatch cut_batch(HostBatch whole, const SequenceCut& cut);

}  // namespace tessera
