// SPDX-License-Identifier: Apache-2.0
// A tokenizer of one's own from files of text: counts the words of all documents, then learns byte pairs.
#pragma once
#include "framework/corpus/encode_corpus.h"
#include "framework/tokenizer/bpe_trainer.h"

namespace tessera {

struct WordCounts {
  std::vector<CountedWord> words;  // in the order of their bytes
  int64_t documents = 0;
  CorpusReport report;
};

// Reads all documents on this thread; options.threads is not used. Words of more than 128 bytes are left out,
// and when there are more than 10 million different words, so are those that came up once so far: memory is
// bounded.
WordCounts count_words(std::vector<InputFile> files, const CorpusOptions& options);

}  // namespace tessera
