// SPDX-License-Identifier: Apache-2.0
// `tessera tokenize`: text files (a document each) and JSONL (a document a line) to PREFIX.bin + PREFIX.idx.
// Memory does not grow with the input; the result appears whole or not at all.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/dataset/json_lines.h"
#include "framework/dataset/text_files.h"
#include "framework/dataset/token_file_writer.h"
#include "framework/tokenizer/tokenizer.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

// Small enough that text, ids and tokens of one piece stay in the cache.
constexpr size_t kPiece = size_t{1} << 16;
constexpr int64_t kWarnings = 10;

struct Options {
  std::string tokenizer, tokenizer_path, output;
  std::vector<std::string> inputs;
  std::string format = "auto", text_key = "text", invalid = "error";
  bool json = false;
};

struct Counts {
  int64_t empty = 0, broken = 0;  // documents that were left out
  int64_t bytes = 0;              // of input files
};

// Megabytes done, rewritten in place; nothing when stderr is no terminal.
class Progress {
 public:
  explicit Progress(int64_t total) : total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void show(int64_t done) {
    if (!terminal_ || Clock::now() < next_) return;
    next_ = Clock::now() + std::chrono::milliseconds(200);
    shown_ = true;
    fmt::print(stderr, "\r{:.1f} of {:.1f} MB\033[K", static_cast<double>(done) / 1e6,
               static_cast<double>(total_) / 1e6);
  }

 private:
  using Clock = std::chrono::steady_clock;
  int64_t total_;
  bool terminal_, shown_ = false;
  Clock::time_point next_{};
};

class Conversion {
 public:
  Conversion(const Options& options, const Tokenizer& tokenizer, int64_t total_bytes)
      : options_(options),
        tokenizer_(tokenizer),
        writer_(options.output, std::string(tokenizer.type()), tokenizer.vocab_size()),
        progress_(total_bytes) {}

  void add_file(const InputFile& file) {
    const std::string extension = file.path.extension().string();
    const bool lines = options_.format == "auto" ? extension == ".jsonl" || extension == ".ndjson"
                                                 : options_.format == "jsonl";
    if (lines)
      add_json_lines(file);
    else
      add_text(file);
    counts_.bytes += file.size;
  }

  void finish() {
    CHECK_AS(ExitCode::Data, writer_.documents() > 0, "no text in the {} input file(s): {} empty, {} broken",
             options_.inputs.size(), counts_.empty, counts_.broken);
    writer_.finish();
  }

  const Counts& counts() const { return counts_; }
  const TokenFileWriter& writer() const { return writer_; }

 private:
  void add_text(const InputFile& input) {
    const File file = File::open_to_read(input.path);
    if (input.size == 0) {
      ++counts_.empty;
      return;
    }
    std::string buffer;
    int64_t offset = 0;
    while (offset < input.size || !buffer.empty()) {
      // Twice a piece, so that there is text behind the place where it is cut.
      const auto part = std::min(static_cast<int64_t>(2 * kPiece), input.size - offset);
      const size_t before = buffer.size();
      buffer.resize(before + static_cast<size_t>(part));
      file.read(offset, std::as_writable_bytes(std::span(buffer)).subspan(before));
      offset += part;
      encode_all_but_tail(buffer, offset == input.size);
      progress_.show(counts_.bytes + offset);
    }
    end_document();
  }

  void add_json_lines(const InputFile& input) {
    LineReader lines(input.path);
    std::string_view line;
    std::string text, reason;
    while (lines.next(line)) {
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      if (!read_json_text(line, options_.text_key, text, reason)) {
        refuse_line(input, lines.number(), reason);
      } else if (text.empty()) {
        ++counts_.empty;
      } else {
        encode_all_but_tail(text, true);
        end_document();
      }
      progress_.show(counts_.bytes + lines.bytes_read());
    }
  }

  void refuse_line(const InputFile& input, int64_t line, const std::string& reason) {
    if (options_.invalid == "error")
      fail(ExitCode::Data, "{}:{}: {} (--invalid skip leaves such lines out)", input.path.string(), line,
           reason);
    ++counts_.broken;
    if (counts_.broken <= kWarnings)
      fmt::print(stderr, "warning: {}:{}: {}; left out\n", input.path.string(), line, reason);
    if (counts_.broken == kWarnings) fmt::print(stderr, "warning: further lines are only counted\n");
  }

  // Encodes `text` piece by piece and removes what was encoded; keeps a tail unless this is the end.
  void encode_all_but_tail(std::string& text, bool end) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t size = tokenizer_.cut(rest, kPiece);
      if (size == rest.size() && !end) break;  // perhaps more text belongs to this piece
      ids_.clear();
      tokenizer_.encode(rest.substr(0, size), ids_);
      writer_.add(ids_);
      rest.remove_prefix(size);
    }
    text.erase(0, text.size() - rest.size());
  }

  void end_document() {
    const int32_t end = tokenizer_.end_of_document();
    writer_.add(std::span(&end, 1));
    writer_.end_document();
  }

  const Options& options_;
  const Tokenizer& tokenizer_;
  TokenFileWriter writer_;
  Progress progress_;
  Counts counts_;
  std::vector<int32_t> ids_;
};

void print_report(const Options& options, const Conversion& conversion, double seconds) {
  const TokenFileWriter& writer = conversion.writer();
  const Counts& counts = conversion.counts();
  const double bytes_per_second = static_cast<double>(counts.bytes) / std::max(seconds, 1e-9);
  if (options.json) {
    const nlohmann::ordered_json report = {{"documents", writer.documents()},
                                           {"tokens", writer.tokens()},
                                           {"empty_documents", counts.empty},
                                           {"broken_documents", counts.broken},
                                           {"input_bytes", counts.bytes},
                                           {"token_type", name_of(writer.type())},
                                           {"seconds", seconds},
                                           {"bytes_per_second", bytes_per_second},
                                           {"bin", options.output + ".bin"},
                                           {"idx", options.output + ".idx"}};
    fmt::print("{}\n", report.dump());
    return;
  }
  fmt::print("{} documents, {} tokens ({}) in {}.bin and {}.idx\n", writer.documents(), writer.tokens(),
             name_of(writer.type()), options.output, options.output);
  fmt::print("left out: {} empty, {} broken; {:.2f} s, {:.0f} MB/s\n", counts.empty, counts.broken, seconds,
             bytes_per_second / 1e6);
}

}  // namespace

int tokenize_command(std::span<const std::string> arguments) {
  Options options;
  CLI::App app("Turns text into token files: PREFIX.bin and PREFIX.idx.", "tessera tokenize");
  app.add_option("--tokenizer", options.tokenizer, "bytes")->required();
  app.add_option("--tokenizer-path", options.tokenizer_path,
                 "file or folder of the tokenizer; not for bytes");
  app.add_option("--input", options.inputs, "files, or folders of files")->required();
  app.add_option("--output", options.output, "PREFIX of the files to write")->required();
  app.add_option("--format", options.format,
                 "text: a document each file; jsonl: a document each line; auto: by the file's ending")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}))
      ->capture_default_str();
  app.add_option("--text-key", options.text_key, "where the text of a JSONL line stands")
      ->capture_default_str();
  app.add_option("--invalid", options.invalid, "what to do with a JSONL line that cannot be read")
      ->check(CLI::IsMember({"error", "skip"}))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print the report as one JSON object");
  app.footer(
      "examples:\n"
      "  tessera tokenize --tokenizer bytes --input book.txt --output data/book\n"
      "  tessera tokenize --tokenizer bytes --input pages/ more.jsonl --output data/web --json");
  if (const auto answered = parse(app, arguments)) return *answered;

  const auto tokenizer = make_tokenizer(options.tokenizer, options.tokenizer_path);
  CHECK_AS(ExitCode::Usage, !std::filesystem::path(options.output).filename().empty(),
           "--output {} names a folder; give a prefix such as {}corpus", options.output, options.output);
  std::vector<InputFile> files;
  int64_t total = 0;
  for (const std::string& input : options.inputs) {
    for (InputFile& file : list_input_files(input)) {
      total += file.size;
      files.push_back(std::move(file));
    }
  }
  const auto start = std::chrono::steady_clock::now();
  Conversion conversion(options, *tokenizer, total);
  for (const InputFile& file : files) conversion.add_file(file);
  conversion.finish();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_report(options, conversion, seconds.count());
  return static_cast<int>(ExitCode::Success);
}

}  // namespace tessera::tools
