// SPDX-License-Identifier: Apache-2.0
// Log lines with a level and a rank, to stderr and optionally a file. A Log is passed by reference to
// who writes; there is no global one. Thread-safe: several rank threads may share one.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

enum class LogLevel : uint8_t { Debug, Info, Warning, Error };

class Log {
 public:
  explicit Log(LogLevel level = LogLevel::Info);  // lines below `level` are dropped
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void debug(std::string_view message) { write(LogLevel::Debug, message); }
  void info(std::string_view message) { write(LogLevel::Info, message); }
  void warn(std::string_view message) { write(LogLevel::Warning, message); }
  void error(std::string_view message) { write(LogLevel::Error, message); }
  void write(LogLevel level, std::string_view message);
  // From here on every line is also appended to `file`. Not while other threads write.
  void append_to(const std::filesystem::path& file);
  void flush();

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
};

}  // namespace tessera
