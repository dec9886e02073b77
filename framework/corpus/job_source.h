// SPDX-License-Identifier: Apache-2.0
// Reads input files and cuts them into jobs of about a megabyte: whole lines of JSONL, and parts of text
// files, each of which is a document. A part ends where the tokenizer lets a document be cut. Long text that
// offers no such place is cut anywhere, and its jobs are marked as not independent.
#pragma once
#include <optional>

#include "framework/corpus/encode_job.h"
#include "framework/corpus/input_stream.h"
#include "framework/dataset/text_files.h"

namespace tessera {

enum class InputFormat : uint8_t { ByEnding, Text, Lines };  // ByEnding: .jsonl and .ndjson are lines

struct JobSizes {
  size_t usual = size_t{1} << 20;     // bytes of a job
  size_t longest = size_t{16} << 20;  // of text that offers no place to cut it
};

class JobSource {
 public:
  struct Options {
    InputFormat format = InputFormat::ByEnding;
    Invalid invalid = Invalid::Fail;
    JobSizes sizes;
  };

  JobSource(std::vector<InputFile> files, const Tokenizer& tokenizer, Options options);

  std::optional<EncodeJob> next();  // none: all files are read
  int64_t empty_files() const { return empty_; }
  int64_t broken_files() const { return broken_; }  // left out: not UTF-8
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  bool open_next();
  bool is_valid(const std::filesystem::path& path) const;
  bool fill(size_t bytes);
  std::optional<EncodeJob> next_of_file();
  EncodeJob job_of(size_t size);
  size_t text_size();
  size_t break_off();
  size_t lines_size();

  std::vector<InputFile> files_;
  const Tokenizer& tokenizer_;
  Options options_;
  size_t next_file_ = 0;
  std::unique_ptr<InputStream> stream_;  // of the file before next_file_
  bool lines_ = false, at_end_ = false;
  std::string buffer_;                         // read, and not yet in a job
  int64_t place_ = 0;                          // of the buffer: byte, or line from 1
  bool goes_on_ = false, breaks_off_ = false;  // of the next job
  bool begins_ = true;                         // text: the buffer begins the document
  int64_t done_bytes_ = 0;                     // of files before this one
  int64_t empty_ = 0, broken_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace tessera
