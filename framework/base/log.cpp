// SPDX-License-Identifier: Apache-2.0
#include "framework/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace tessera {

struct Log::Sinks {
  std::unique_ptr<spdlog::logger> logger;
};

namespace {
spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Warning:
      return spdlog::level::warn;
    case LogLevel::Error:
      break;
  }
  return spdlog::level::err;
}
}  // namespace

namespace {
constexpr const char* kPattern = "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v";
}

Log::Log(LogLevel level) : sinks_(std::make_unique<Sinks>()) {
  sinks_->logger =
      std::make_unique<spdlog::logger>("tessera", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  sinks_->logger->set_pattern(kPattern);
  sinks_->logger->set_level(to_spdlog(level));
  sinks_->logger->flush_on(spdlog::level::info);
}

Log::~Log() = default;

void Log::write(LogLevel level, std::string_view message) {
  sinks_->logger->log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

void Log::append_to(const std::filesystem::path& file) {
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
  sink->set_pattern(kPattern);
  sinks_->logger->sinks().push_back(std::move(sink));
}

void Log::flush() {
  sinks_->logger->flush();
}

}  // namespace tessera
