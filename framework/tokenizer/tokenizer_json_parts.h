// SPDX-License-Identifier: Apache-2.0
// The parts of tokenizer.json around the model. Each refuses what it does not know.
#pragma once
#include <optional>

#include "framework/tokenizer/bpe_tokenizer.h"
#include "framework/tokenizer/json_node.h"

namespace tessera {

// Fills splits, prefix and space. Returns whether words are bytes written in the alphabet of ByteLevel.
bool read_pre_tokenizer(const std::optional<JsonNode>& node, BpeDefinition& definition);

void read_normalizer(const std::optional<JsonNode>& node, BpeDefinition& definition);

// Decoding is the inverse of encoding, so a decoder says nothing new: it only must be one of the known kinds.
void check_decoder(const std::optional<JsonNode>& node, bool byte_level);

// Post-processors put control tokens around a prompt; documents of token files have an end token instead.
void check_post_processor(const std::optional<JsonNode>& node);

}  // namespace tessera
