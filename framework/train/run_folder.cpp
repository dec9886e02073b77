// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_io(std::string_view what, const fs::path& path) {
  fail(ExitCode::Data, "cannot {} {}: {}", what, path.string(), std::strerror(errno));
}

}  // namespace

std::optional<Steps> step_of_line(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  return Steps(json["step"].get<int64_t>());
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  const fs::path temporary = path.string() + ".tmp";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail_io("write", temporary);
  const auto give_up = [&](std::string_view what) {
    const int error = errno;
    ::unlink(temporary.c_str());
    errno = error;
    fail_io(what, path);
  };
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(file, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      ::close(file);
      errno = error;
      give_up("write");
    }
    done += static_cast<size_t>(n);
  }
  const bool synced = ::fsync(file) == 0;
  if (::close(file) != 0 || !synced) give_up("write");
  if (::rename(temporary.c_str(), path.c_str()) != 0) give_up("rename to");
}

bool RunFolder::holds_a_run() const {
  for (const char* name : {"config.toml", "metrics.jsonl", "checkpoints"})
    if (fs::exists(folder_ / name)) return true;
  return false;
}

void RunFolder::begin(std::string_view config_toml, Steps resumed) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(ExitCode::Data, "cannot make the run folder {}: {}", folder_.string(), error.message());

  std::string kept, lost;
  if (std::ifstream old(metrics_file()); old) {
    for (std::string line; std::getline(old, line);) {
      const bool whole = !old.eof();  // a crash may have cut the last line
      const auto step = whole ? step_of_line(line) : std::nullopt;
      (step && *step <= resumed ? kept : lost) += line + "\n";
    }
  }
  if (!lost.empty()) {
    std::ofstream out(lost_metrics_file(), std::ios::app);
    out << lost << std::flush;
    if (!out) fail_io("write", lost_metrics_file());
  }
  write_file_atomically(metrics_file(), kept);
  write_file_atomically(folder_ / "config.toml", config_toml);
  metrics_.open(metrics_file(), std::ios::app);
  if (!metrics_) fail_io("open", metrics_file());
}

void RunFolder::append_metrics(std::string_view line) {
  metrics_ << line << '\n' << std::flush;
  if (!metrics_) fail_io("write", metrics_file());
}

}  // namespace tessera
