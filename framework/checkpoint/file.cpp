// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "framework/base/check.h"

namespace tessera {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

[[noreturn]] void fail_on(const char* action, const std::filesystem::path& path, int error) {
  fail(ExitCode::Data, "cannot {} {}: {}", action, path.string(), reason(error));
}

// One system call moves at most this much (Linux stops at 2 GiB).
constexpr size_t kLargestTransfer = size_t{1} << 30;

int open_file(const std::filesystem::path& path, int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

}  // namespace

StoredOutput::StoredOutput(std::filesystem::path path, Mode mode)
    : path_(std::move(path)),
      descriptor_(open_file(path_, O_WRONLY | (mode == Mode::Create ? O_CREAT | O_EXCL : 0))) {
  if (descriptor_ < 0) fail_on(mode == Mode::Create ? "create" : "open", path_, errno);
}

StoredOutput::~StoredOutput() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void StoredOutput::write_at(int64_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kLargestTransfer), position);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_on("write", path_, written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
    position += written;
  }
}

void StoredOutput::resize(int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0) fail_on("resize", path_, errno);
}

void StoredOutput::sync_and_close() {
  if (::fsync(descriptor_) != 0) fail_on("sync", path_, errno);
  // Network file systems report a full disk or quota here.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail_on("close", path_, errno);
}

StoredInput::StoredInput(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open_file(path_, O_RDONLY)) {
  if (descriptor_ < 0) fail_on("open", path_, errno);
}

StoredInput::StoredInput(StoredInput&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

StoredInput::~StoredInput() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int64_t StoredInput::read_at(int64_t position, std::span<std::byte> to) const {
  int64_t total = 0;
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), std::min(to.size(), kLargestTransfer), position);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_on("read", path_, errno);
    if (count == 0) break;
    to = to.subspan(static_cast<size_t>(count));
    position += count;
    total += count;
  }
  return total;
}

void StoredInput::drop_cache() const {
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
}

bool is_there(const std::filesystem::path& path) {
  const int descriptor = open_file(path, O_RDONLY);
  const int error = descriptor < 0 ? errno : 0;
  if (descriptor >= 0) ::close(descriptor);
  if (error != 0 && error != ENOENT && error != ENOTDIR) fail_on("open", path, error);
  return error == 0;
}

std::string read_text(const std::filesystem::path& path, int64_t limit) {
  const StoredInput file(path);
  std::string text;
  // Grows with what is there, whatever stat says.
  for (size_t block = size_t{64} << 10;; block = std::min(block * 2, size_t{16} << 20)) {
    const size_t before = text.size();
    text.resize(before + block);
    const int64_t count =
        file.read_at(static_cast<int64_t>(before), std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + static_cast<size_t>(count));
    CHECK_AS(ExitCode::Data, static_cast<int64_t>(text.size()) <= limit,
             "{} is larger than {} bytes, the most that is read", path.string(), limit);
    if (static_cast<size_t>(count) < block) return text;
  }
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  StoredOutput file(path, StoredOutput::Mode::Create);
  file.write_at(0, std::as_bytes(std::span(text)));
  file.sync_and_close();
}

void make_directory(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0777) != 0) fail_on("create", path, errno);
}

void sync_directory(const std::filesystem::path& path) {
  const int descriptor = open_file(path, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) fail_on("open", path, errno);
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // Some network file systems have nothing to sync in a directory and say so.
  const bool unsupported = error == EINVAL || error == ENOTSUP || error == ENOSYS || error == EBADF;
  if (error != 0 && !unsupported) fail_on("sync", path, error);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int error = errno;
    fail(ExitCode::Data, "cannot rename {} to {}: {}", from.string(), to.string(), reason(error));
  }
}

bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

std::optional<int64_t> free_bytes(const std::filesystem::path& directory) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace tessera
