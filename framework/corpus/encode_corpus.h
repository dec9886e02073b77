// SPDX-License-Identifier: Apache-2.0
// The documents of many files to one token file. Threads encode while this one reads and writes; the result
// does not depend on their number. Memory is a few jobs for each thread, whatever the size of the input.
#pragma once
#include <functional>

#include "framework/corpus/encode_job.h"
#include "framework/corpus/job_source.h"
#include "framework/dataset/token_file_writer.h"

namespace tessera {

struct CorpusOptions {
  DocumentOptions documents;
  InputFormat format = InputFormat::ByEnding;
  int threads = 1;
  JobSizes sizes;
  std::function<void(int64_t input_bytes)> progress = [](int64_t) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};  // a handful, then silence
};

struct CorpusReport {
  int64_t empty = 0, broken = 0;  // documents that were left out
  int64_t replaced = 0;           // ill-formed sequences of UTF-8 that became U+FFFD
  int64_t input_bytes = 0;        // of the files on disk
};

// Adds all documents to `writer`, which the caller finishes, and which keeps a mask unless the lines are
// LineForm::Text. Throws (exit 3) the first fault in the order of
// the input.
CorpusReport encode_corpus(std::vector<InputFile> files, const Tokenizer& tokenizer,
                           const CorpusOptions& options, TokenFileWriter& writer);

}  // namespace tessera
