// SPDX-License-Identifier: Apache-2.0
// Learns byte pairs: of all neighbours in the counted words the most frequent pair becomes a token, until
// there are enough (Sennrich et al. 2016, arXiv:1508.07909). Of equally frequent pairs the one with the lower
// ids is first, so the result is a function of the counts, whatever order they come in.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

struct CountedWord {
  std::string bytes;
  int64_t count = 0;
};

struct TrainedBpe {
  std::vector<std::string> tokens;  // bytes, by id: the 256 bytes, then what merges make
  std::vector<std::pair<std::string, std::string>>
      merges;  // in the order of their ranks; two may make one token
};

// Up to `vocab_size` tokens; fewer when no pair stands in the text twice.
TrainedBpe train_bpe(const std::vector<CountedWord>& words, int64_t vocab_size);

// A tokenizer.json of byte-level BPE that cuts words as Llama 3 does and ends documents with <|endoftext|>,
// whose id comes after the tokens, and after it those of further control tokens.
std::string write_tokenizer_json(const TrainedBpe& trained, const std::vector<std::string>& controls = {});

}  // namespace tessera
