// SPDX-License-Identifier: Apache-2.0
#include "framework/corpus/job_source.h"

#include <algorithm>

#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

bool is_lines(const InputFile& file, InputFormat format) {
  if (format != InputFormat::ByEnding) return format == InputFormat::Lines;
  const std::string ending = without_compression(file.path).extension().string();
  return ending == ".jsonl" || ending == ".ndjson";
}

}  // namespace

JobSource::JobSource(std::vector<InputFile> files, const Tokenizer& tokenizer, Options options)
    : files_(std::move(files)), tokenizer_(tokenizer), options_(options) {}

std::optional<EncodeJob> JobSource::next() {
  while (true) {
    if (stream_) {
      if (auto job = next_of_file()) return job;
      done_bytes_ += stream_->file_bytes();
      stream_.reset();
    }
    if (next_file_ == files_.size()) return std::nullopt;
    if (!open_next()) ++next_file_;
  }
}

// False: the file is left out.
bool JobSource::open_next() {
  const InputFile& file = files_[next_file_];
  lines_ = is_lines(file, options_.format);
  if (!lines_ && options_.invalid == Invalid::Skip && tokenizer_.type() != "bytes" && !is_valid(file.path)) {
    ++broken_;
    warnings_.push_back(fmt::format("{}: not UTF-8; left out", file.path.string()));
    return false;
  }
  stream_ = open_input(file.path);
  buffer_.clear();
  at_end_ = false;
  begins_ = true;
  place_ = lines_ ? 1 : 0;
  ++next_file_;
  return true;
}

// A text file is left out as a whole or not at all, so it is read through before its first job.
bool JobSource::is_valid(const std::filesystem::path& path) const {
  const auto stream = open_input(path);
  std::string text;
  while (stream->read(text, options_.sizes.usual)) {
    const size_t valid = valid_utf8(text);
    const std::string_view rest = std::string_view(text).substr(valid);
    if (!rest.empty() && utf8_length(rest) == 0) return false;
    text.erase(0, valid);
  }
  return text.empty();
}

// Whether the buffer holds this many bytes, or all that are left.
bool JobSource::fill(size_t bytes) {
  while (!at_end_ && buffer_.size() < bytes) at_end_ = !stream_->read(buffer_, bytes - buffer_.size());
  return buffer_.size() >= bytes;
}

std::optional<EncodeJob> JobSource::next_of_file() {
  const size_t size = lines_ ? lines_size() : text_size();
  if (size > 0) return job_of(size);
  if (!lines_ && begins_) ++empty_;
  return std::nullopt;
}

EncodeJob JobSource::job_of(size_t size) {
  EncodeJob job{.kind = lines_ ? EncodeJob::Kind::Lines : EncodeJob::Kind::Text,
                .text = buffer_.substr(0, size),
                .file = files_[next_file_ - 1].path.string(),
                .place = place_,
                .begins = begins_,
                .goes_on = goes_on_,
                .breaks_off = breaks_off_};
  goes_on_ = std::exchange(breaks_off_, false);
  buffer_.erase(0, size);
  job.ends = at_end_ && buffer_.empty();
  job.input_bytes = done_bytes_ + stream_->file_bytes();
  begins_ = false;
  place_ += lines_ ? std::count(job.text.begin(), job.text.end(), '\n') : static_cast<int64_t>(size);
  return job;
}

// Whole lines; the last of a file may lack its end.
size_t JobSource::lines_size() {
  for (size_t wanted = options_.sizes.usual;; wanted *= 2) {
    const bool more = fill(wanted);
    if (!more) return buffer_.size();
    const size_t end = buffer_.rfind('\n');
    if (end != std::string::npos) return end + 1;
  }
}

size_t JobSource::text_size() {
  for (size_t wanted = options_.sizes.usual;; wanted *= 2) {
    // One byte more tells whether the document ends here.
    if (!fill(wanted + 1)) return buffer_.size();
    if (const size_t cut = tokenizer_.last_cut(std::string_view(buffer_).substr(0, wanted)); cut > 0)
      return cut;
    if (wanted >= options_.sizes.longest) return break_off();
  }
}

// Between two characters, if these are characters.
size_t JobSource::break_off() {
  breaks_off_ = true;
  size_t size = buffer_.size() - 1;
  for (int i = 0; i < 3 && is_utf8_continuation(buffer_[size]); ++i) --size;
  return size;
}

}  // namespace tessera
