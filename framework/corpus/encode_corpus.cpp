// SPDX-License-Identifier: Apache-2.0
#include "framework/corpus/encode_corpus.h"

#include "framework/corpus/ordered_workers.h"

namespace tessera {
namespace {

constexpr int64_t kWarnings = 10;

class CorpusWriter {
 public:
  CorpusWriter(const CorpusOptions& options, TokenFileWriter& writer) : options_(options), writer_(writer) {}

  CorpusReport report;

  void write(const EncodedDocuments& result, int64_t input_bytes) {
    size_t begin = 0;
    for (const EncodedDocuments::Document& document : result.documents) {
      const size_t count = document.end - begin;
      writer_.add(
          std::span(result.ids).subspan(begin, count),
          result.mask.empty() ? std::span<const uint8_t>() : std::span(result.mask).subspan(begin, count));
      if (document.ends) writer_.end_document();
      begin = document.end;
    }
    report.empty += result.empty;
    report.broken += result.broken;
    report.replaced += result.replaced;
    for (const std::string& warning : result.warnings) warn(warning);
    if (result.error) throw *result.error;
    report.input_bytes = input_bytes;
    options_.progress(input_bytes);
  }

  void warn(const std::string& warning) {
    if (++warnings_ <= kWarnings) options_.warn(warning);
    if (warnings_ == kWarnings) options_.warn("further documents that are left out are only counted");
  }

 private:
  const CorpusOptions& options_;
  TokenFileWriter& writer_;
  int64_t warnings_ = 0;
};

}  // namespace

CorpusReport encode_corpus(std::vector<InputFile> files, const Tokenizer& tokenizer,
                           const CorpusOptions& options, TokenFileWriter& writer) {
  JobSource source(std::move(files), tokenizer,
                   {.format = options.format, .invalid = options.documents.invalid, .sizes = options.sizes});
  CorpusWriter output(options, writer);
  {
    OrderedWorkers workers(
        tokenizer, options.documents, options.threads,
        [&](const EncodedDocuments& result, int64_t bytes) { output.write(result, bytes); });
    while (auto job = source.next()) workers.add(std::move(*job));
    workers.finish();
  }
  for (const std::string& warning : source.warnings()) output.warn(warning);
  output.report.empty += source.empty_files();
  output.report.broken += source.broken_files();
  return output.report;
}

}  // namespace tessera
