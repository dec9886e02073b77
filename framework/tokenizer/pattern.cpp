// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "framework/base/check.h"
#include "framework/tokenizer/pattern_syntax.h"

namespace tessera {
namespace {

// Groups that repeat need a frame a round; a run of a hundred million rounds must not end a job.
constexpr size_t kFirstStack = size_t{64} << 10, kLargestStack = size_t{256} << 20;

std::string message_of(int code) {
  std::array<char, 256> text{};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  return text.data();
}

// Patterns of tokenizers try few ways for each character. One that tries exponentially many must not hang a
// job.
uint32_t match_limit(size_t text) {
  return static_cast<uint32_t>(std::min<size_t>(100'000 + 64 * text, UINT32_MAX));
}

PCRE2_SPTR pointer(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

struct TextPattern::Code {
  pcre2_code* code = nullptr;
  std::string text;
  ~Code() { pcre2_code_free(code); }
};

TextPattern::TextPattern(std::string_view expression, std::string_view place)
    : code_(std::make_unique<Code>()) {
  const PortedPattern ported = port_pattern(expression, place);
  looks_ahead_only_ = ported.looks_ahead_only;
  code_->text = expression;
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(pointer(ported.expression), ported.expression.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &at, nullptr);
  CHECK_AS(ExitCode::Data, code_->code, "{}: {} at byte {} of the pattern {}", place, message_of(error), at,
           expression);
  const int compiled = pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  CHECK_AS(ExitCode::Data, compiled == 0, "{}: {} for the pattern {}", place, message_of(compiled),
           expression);
}

TextPattern TextPattern::literal(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c < 0 || c < ' ';
    if (!plain) quoted += '\\';
    quoted += c;
  }
  return TextPattern(quoted, "a literal pattern");
}

TextPattern::~TextPattern() = default;
TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern& TextPattern::operator=(TextPattern&&) noexcept = default;

struct Matcher::Memory {
  explicit Memory(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr)) {
    CHECK(data && context && stack, "no memory for matching patterns");
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Memory() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Memory(const Memory&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

Matcher::Matcher(const TextPattern& pattern)
    : pattern_(&pattern), memory_(std::make_unique<Memory>(pattern.code_->code)) {}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;

Matcher::Result Matcher::find(std::string_view text, size_t from, bool more) {
  pcre2_set_match_limit(memory_->context, match_limit(text.size() - from));
  const uint32_t options = PCRE2_NO_UTF_CHECK | (more ? PCRE2_PARTIAL_HARD : 0);
  const int found = pcre2_jit_match(pattern_->code_->code, pointer(text), text.size(), from, options,
                                    memory_->data, memory_->context);
  if (found == PCRE2_ERROR_NOMATCH) return Result::None;
  CHECK_AS(ExitCode::Data, found >= 0 || found == PCRE2_ERROR_PARTIAL, "the pattern {} fails on a text: {}",
           pattern_->code_->text, message_of(found));
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(memory_->data);
  begin_ = ends[0];
  end_ = ends[1];
  return found == PCRE2_ERROR_PARTIAL ? Result::Undecided : Result::Match;
}

}  // namespace tessera
