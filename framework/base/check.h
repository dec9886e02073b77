// SPDX-License-Identifier: Apache-2.0
// The one exception type and the two macros that throw it. An Error carries the exit code that the
// process ends with (docs: exit codes), so the place that finds a fault decides how it is reported.
// CHECK is for what a user can break; use assert for what only the programmer can.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

// Process exit codes. The values are promises to scripts.
enum class ExitCode : int {
  Success = 0,
  Usage = 2,          // decidable from command line and config alone; nothing was written
  Data = 3,           // data, tokenizer or checkpoint missing, damaged or of another kind
  Numeric = 4,        // stopped by the numeric policy
  Communication = 5,  // a rank or its communication failed; also internal faults
  Stopped = 75,       // stopped by signal or time limit after a complete checkpoint
};

class Error : public std::runtime_error {
 public:
  // Messages quote what files hold: control characters, which a terminal would obey, become text such as
  // "\x1b". Tabs and newlines stay.
  Error(ExitCode code, std::string_view message);
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
// Builds the text "message [condition at file:line]" and throws.
[[noreturn]] void check_failed(ExitCode code, const char* condition, const char* file, int line,
                               const std::string& message);
}  // namespace detail

}  // namespace tessera

// CHECK(condition, "format {}", values...): throws Error with ExitCode::Communication (an internal or
// run-time fault). CHECK_AS(code, ...) names another exit code. The message is required: it says what
// was wrong with which values.
#define CHECK(condition, ...) CHECK_AS(::tessera::ExitCode::Communication, condition, __VA_ARGS__)
#define CHECK_AS(code, condition, ...)                                                                 \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                     \
      ::tessera::detail::check_failed(code, #condition, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)
