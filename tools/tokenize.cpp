// SPDX-License-Identifier: Apache-2.0
// `tessera tokenize`: text files (a document each) and JSONL (a document a line) to PREFIX.bin + PREFIX.idx,
// or with
// --train-vocab a tokenizer that is learned from them. Memory does not grow with the input; the result
// appears whole or not at all.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/base/check.h"
#include "framework/base/cores.h"
#include "framework/corpus/encode_corpus.h"
#include "framework/corpus/train_tokenizer.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/progress.h"

namespace tessera::tools {
namespace {

struct Options {
  std::string tokenizer, end_of_document, pattern, output;
  std::vector<std::string> inputs;
  std::string format = "auto", text_key = "text", invalid = "error", end_of_turn;
  std::vector<std::string> roles, learned;  // of chat
  std::vector<std::string> control_tokens;  // of a tokenizer to learn
  int64_t train_vocab = 0;                  // ids of a tokenizer to learn; 0: tokenize
  int threads = 0;                          // 0: all cores
  bool controls = false, json = false;
};

constexpr const char* kTokenizeExamples = R"(examples:
  tessera tokenize --tokenizer bytes --input book.txt --output data/book
  tessera tokenize --tokenizer llama/tokenizer.json --input pages/ more.jsonl.zst --output data/web --json
  tessera tokenize --tokenizer chat/tokenizer.json --input chats.jsonl --output data/chats --format chat
      --role 'user=<|user|>' --role 'assistant=<|assistant|>' --end-of-turn '<|end|>'
  tessera tokenize --train-vocab 8000 --input pages/ --output mine/tokenizer.json)";

std::optional<int> read_options(std::span<const std::string> arguments, Options& options) {
  CLI::App app("Turns text into token files: PREFIX.bin and PREFIX.idx.", "tessera tokenize");
  app.add_option("--tokenizer", options.tokenizer,
                 "bytes, or the path of a tokenizer.json, of a file of ranks, or of a folder that holds one");
  app.add_option(
         "--train-vocab", options.train_vocab,
         "learn a byte-level BPE of so many ids from the input, and write its tokenizer.json to --output")
      ->check(CLI::Range(int64_t{257}, int64_t{10'000'000}));
  app.add_option("--control", options.control_tokens,
                 "with --train-vocab: a control token beside <|endoftext|>, one of the ids; may repeat")
      ->allow_extra_args(false);
  app.add_option("--end-of-document", options.end_of_document,
                 "the control token that ends a document, where the tokenizer's files do not say it");
  app.add_option(
      "--pattern", options.pattern,
      "how a file of ranks cuts words, where their number does not tell: gpt2, cl100k, llama3, qwen, o200k");
  app.add_option("--input", options.inputs, "files, or folders of files; also packed as .gz or .zst")
      ->required();
  app.add_option("--output", options.output, "PREFIX of the files to write")->required();
  app.add_option("--format", options.format,
                 "text: a document each file; jsonl: a document each line; auto: by the file's ending; "
                 "completion: lines with a prompt and a completion; chat: lines with messages; the last two "
                 "write a loss mask beside the tokens, PREFIX.mask")
      ->check(CLI::IsMember({"auto", "text", "jsonl", "completion", "chat"}))
      ->capture_default_str();
  app.add_option("--role", options.roles,
                 "chat: ROLE=TOKEN, the control token in front of a role's messages; may repeat")
      ->allow_extra_args(false);
  app.add_option("--end-of-turn", options.end_of_turn, "chat: the control token behind each message");
  app.add_option("--learn", options.learned,
                 "chat: a role whose messages are learned (assistant); may repeat")
      ->allow_extra_args(false);
  app.add_option("--text-key", options.text_key, "where the text of a JSONL line stands")
      ->capture_default_str();
  app.add_option(
         "--invalid", options.invalid,
         "what to do with a JSONL line that cannot be read, and with bytes that are no UTF-8: end with an "
         "error; leave the document out; or replace such bytes by U+FFFD")
      ->check(CLI::IsMember({"error", "skip", "replace"}))
      ->capture_default_str();
  app.add_flag("--parse-controls", options.controls,
               "names of control tokens in the text are control tokens (without it they are text)");
  app.add_option("--threads", options.threads, "threads that encode; 0: as many as cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print the report as one JSON object");
  app.footer(kTokenizeExamples);
  const auto answered = parse(app, arguments);
  if (answered) return answered;
  CHECK_AS(ExitCode::Usage, options.tokenizer.empty() == (options.train_vocab > 0),
           "give either --tokenizer, to make token files, or --train-vocab, to learn a tokenizer");
  const std::set<std::string> controls(options.control_tokens.begin(), options.control_tokens.end());
  CHECK_AS(ExitCode::Usage, options.control_tokens.empty() || options.train_vocab > 0,
           "--control is of --train-vocab: other tokenizers have the control tokens of their files");
  CHECK_AS(ExitCode::Usage,
           controls.size() == options.control_tokens.size() && !controls.contains("<|endoftext|>") &&
               !controls.contains(""),
           "--control: each control token has a name of its own, and <|endoftext|> is there by itself");
  CHECK_AS(ExitCode::Usage,
           options.train_vocab == 0 || options.train_vocab >= 257 + static_cast<int64_t>(controls.size()),
           "--train-vocab {} leaves no room for 256 bytes, <|endoftext|> and {} control tokens",
           options.train_vocab, controls.size());
  const bool chat = options.format == "chat", masked = chat || options.format == "completion";
  CHECK_AS(ExitCode::Usage, !masked || options.train_vocab == 0,
           "--train-vocab learns from text and jsonl, not from --format {}", options.format);
  CHECK_AS(ExitCode::Usage,
           chat || (options.roles.empty() && options.end_of_turn.empty() && options.learned.empty()),
           "--role, --end-of-turn and --learn are of --format chat");
  CHECK_AS(ExitCode::Usage, !chat || (!options.roles.empty() && !options.end_of_turn.empty()),
           "--format chat needs --role ROLE=TOKEN for each role, and --end-of-turn TOKEN");
  return answered;
}

InputFormat format_of(const std::string& name) {
  return name == "text" ? InputFormat::Text : name == "auto" ? InputFormat::ByEnding : InputFormat::Lines;
}

LineForm form_of(const std::string& format) {
  return format == "chat" ? LineForm::Chat : format == "completion" ? LineForm::Completion : LineForm::Text;
}

ChatFormat chat_format(const Options& options, const Tokenizer& tokenizer) {
  ChatFormat chat;
  if (form_of(options.format) != LineForm::Chat) return chat;
  for (const std::string& role : options.roles) {
    const size_t equals = role.find('=');
    CHECK_AS(ExitCode::Usage, equals != std::string::npos && equals > 0, "--role {}: write ROLE=TOKEN", role);
    const int32_t id = control_id(tokenizer, std::string_view(role).substr(equals + 1));
    CHECK_AS(ExitCode::Usage, chat.roles.emplace(role.substr(0, equals), id).second, "--role {} stands twice",
             role.substr(0, equals));
  }
  chat.end_of_turn = control_id(tokenizer, options.end_of_turn);
  if (!options.learned.empty()) chat.learned = {options.learned.begin(), options.learned.end()};
  for (const std::string& role : chat.learned)
    CHECK_AS(ExitCode::Usage, chat.roles.contains(role),
             "--role {}=TOKEN is missing: its messages are to be learned", role);
  return chat;
}

Invalid invalid_of(const std::string& name) {
  return name == "skip" ? Invalid::Skip : name == "replace" ? Invalid::Replace : Invalid::Fail;
}

std::vector<InputFile> list_inputs(const std::vector<std::string>& inputs) {
  std::vector<InputFile> files;
  for (const std::string& input : inputs) {
    std::vector<InputFile> more = list_input_files(input, {".gz", ".zst"});
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

int64_t total_bytes(const std::vector<InputFile>& files) {
  int64_t total = 0;
  for (const InputFile& file : files) total += file.size;
  return total;
}

CorpusOptions corpus_options(const Options& options, Progress& progress) {
  return {.documents = {.form = form_of(options.format),
                        .text_key = options.text_key,
                        .chat = {},
                        .invalid = invalid_of(options.invalid),
                        .controls = options.controls ? Tokenizer::Controls::AreControls
                                                     : Tokenizer::Controls::AreText},
          .format = format_of(options.format),
          .threads = options.threads > 0 ? options.threads : available_cores(),
          .progress = [&progress](int64_t bytes) { progress.show(bytes); },
          .warn =
              [&progress](const std::string& warning) {
                progress.clear();
                fmt::print(stderr, "warning: {}\n", warning);
              }};
}

struct Elapsed {
  double seconds = 0, cpu_seconds = 0;  // cpu: of all threads
};

class Stopwatch {
 public:
  Elapsed elapsed() const {
    return {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(),
            .cpu_seconds = static_cast<double>(std::clock() - cpu_start_) / CLOCKS_PER_SEC};
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::clock_t cpu_start_ = std::clock();
};

void print_report(const Options& options, const TokenFileWriter& writer, const CorpusReport& report,
                  Elapsed time) {
  const double bytes_per_second = static_cast<double>(report.input_bytes) / std::max(time.seconds, 1e-9);
  if (options.json) {
    nlohmann::ordered_json json = {
        {"documents", writer.documents()},       {"tokens", writer.tokens()},
        {"empty_documents", report.empty},       {"broken_documents", report.broken},
        {"replaced_sequences", report.replaced}, {"input_bytes", report.input_bytes},
        {"token_type", name_of(writer.type())},  {"seconds", time.seconds},
        {"cpu_seconds", time.cpu_seconds},       {"bytes_per_second", bytes_per_second},
        {"bin", options.output + ".bin"},        {"idx", options.output + ".idx"}};
    if (form_of(options.format) != LineForm::Text) {
      json["trained_tokens"] = writer.trained_tokens();
      json["mask"] = options.output + ".mask";
    }
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} documents, {} tokens ({}) in {}.bin and {}.idx\n", writer.documents(), writer.tokens(),
             name_of(writer.type()), options.output, options.output);
  if (form_of(options.format) != LineForm::Text)
    fmt::print("{} tokens are learned, as {}.mask says\n", writer.trained_tokens(), options.output);
  fmt::print("left out: {} empty, {} broken", report.empty, report.broken);
  if (report.replaced > 0) fmt::print("; U+FFFD for {} ill-formed sequences", report.replaced);
  fmt::print("; {:.2f} s, {:.0f} MB/s\n", time.seconds, bytes_per_second / 1e6);
}

void print_trained(const Options& options, const TrainedBpe& trained, const WordCounts& counted,
                   double seconds) {
  const size_t ids = trained.tokens.size() + 1 + options.control_tokens.size();
  if (options.json) {
    const nlohmann::ordered_json json = {{"ids", ids},
                                         {"merges", trained.merges.size()},
                                         {"documents", counted.documents},
                                         {"words", counted.words.size()},
                                         {"empty_documents", counted.report.empty},
                                         {"broken_documents", counted.report.broken},
                                         {"replaced_sequences", counted.report.replaced},
                                         {"input_bytes", counted.report.input_bytes},
                                         {"seconds", seconds},
                                         {"tokenizer", options.output}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} ids from {} different words of {} documents in {}; {:.2f} s\n", ids, counted.words.size(),
             counted.documents, options.output, seconds);
  if (static_cast<int64_t>(ids) < options.train_vocab)
    fmt::print("fewer than {}: no further pair stands in the text twice\n", options.train_vocab);
}

int train_tokenizer(const Options& options) {
  CHECK_AS(ExitCode::Usage, options.output.ends_with(".json"),
           "--output {}: the name of a tokenizer ends with .json", options.output);
  std::vector<InputFile> files = list_inputs(options.inputs);
  const Stopwatch watch;
  Progress progress(total_bytes(files));
  PendingFile output(options.output);  // before the work: a place that cannot be written to
  const WordCounts counted = count_words(std::move(files), corpus_options(options, progress));
  CHECK_AS(ExitCode::Data, counted.documents > 0, "no text in the input: {} empty, {} broken",
           counted.report.empty, counted.report.broken);
  const int64_t controls = 1 + static_cast<int64_t>(options.control_tokens.size());
  const TrainedBpe trained = train_bpe(counted.words, options.train_vocab - controls);
  const std::string text = write_tokenizer_json(trained, options.control_tokens);
  output.file().append(std::as_bytes(std::span(text)));
  output.publish();
  sync_folder(std::filesystem::path(options.output).parent_path());
  progress.clear();
  print_trained(options, trained, counted, watch.elapsed().seconds);
  return static_cast<int>(ExitCode::Success);
}

}  // namespace

int tokenize_command(std::span<const std::string> arguments) {
  Options options;
  if (const auto answered = read_options(arguments, options)) return *answered;
  if (options.train_vocab > 0) return train_tokenizer(options);
  const bool bytes = options.tokenizer == "bytes";
  const auto tokenizer = make_tokenizer(bytes ? "bytes" : "bpe", {.path = bytes ? "" : options.tokenizer,
                                                                  .end_of_document = options.end_of_document,
                                                                  .pattern = options.pattern});
  CHECK_AS(ExitCode::Usage, !std::filesystem::path(options.output).filename().empty(),
           "--output {} names a folder; give a prefix such as {}corpus", options.output, options.output);
  std::vector<InputFile> files = list_inputs(options.inputs);
  const size_t count = files.size();
  const Stopwatch watch;
  Progress progress(total_bytes(files));
  CorpusOptions corpus = corpus_options(options, progress);
  corpus.documents.chat = chat_format(options, *tokenizer);
  TokenFileWriter writer(options.output, tokenizer->name(), tokenizer->vocab_size());
  if (corpus.documents.form != LineForm::Text) writer.keep_mask();
  const CorpusReport report = encode_corpus(std::move(files), *tokenizer, corpus, writer);
  CHECK_AS(ExitCode::Data, writer.documents() > 0, "no text in the {} input file(s): {} empty, {} broken",
           count, report.empty, report.broken);
  writer.finish();
  progress.clear();
  print_report(options, writer, report, watch.elapsed());
  return static_cast<int>(ExitCode::Success);
}

}  // namespace tessera::tools
