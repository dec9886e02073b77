// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "framework/base/check.h"

namespace tessera {
namespace {

// Some systems refuse one call of 2 GiB or more.
constexpr size_t kLargestCall = size_t{1} << 30;

[[noreturn]] void fail_errno(const char* what, const std::filesystem::path& path) {
  const int number = errno;
  fail(ExitCode::Data, "cannot {} {}: {}", what, path.string(), std::strerror(number));
}

}  // namespace

File File::open_to_read(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_errno("read", path);
  File file(path, descriptor);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_errno("read", path);
  CHECK_AS(ExitCode::Data, S_ISREG(status.st_mode), "{} is not a regular file", path.string());
  return file;
}

File File::create_beside(const std::filesystem::path& path) {
  // Another process or thread may be making the same file.
  for (int i = 0;; ++i) {
    const std::filesystem::path name = fmt::format("{}.tmp-{}-{}", path.string(), ::getpid(), i);
    const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return File(name, descriptor);
    if (errno != EEXIST) fail_errno("write", name);
  }
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int64_t File::size() const {
  return state().size;
}

FileState File::state() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_errno("read", path_);
  return {.size = status.st_size,
          .changed_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void File::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), std::min(out.size(), kLargestCall), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path_);
    CHECK_AS(ExitCode::Data, got > 0, "{} ends at byte {}, where {} more are needed", path_.string(), offset,
             out.size());
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
}

void File::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kLargestCall));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_errno("write", path_);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void File::sync() {
  if (::fsync(descriptor_) != 0) fail_errno("sync", path_);
}

MappedFile::MappedFile(const std::filesystem::path& path)
    : file_(File::open_to_read(path)), opened_(file_.state()), size_(static_cast<size_t>(opened_.size)) {
  if (size_ == 0) return;  // mmap refuses a length of 0
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file_.descriptor(), 0);
  if (address == MAP_FAILED) fail_errno("map", path);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)),
      opened_(other.opened_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

void MappedFile::read_at_random() const {
  // A hint: where it is not taken, reading costs more.
  if (data_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_RANDOM);
}

void MappedFile::check_unchanged() const {
  const FileState now = file_.state();
  CHECK_AS(ExitCode::Data, now == opened_, "{} changed while it was read: it had {} bytes and has {}",
           path().string(), opened_.size, now.size);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

PendingFile::PendingFile(std::filesystem::path final_path)
    : final_path_(std::move(final_path)), file_(File::create_beside(final_path_)) {}

PendingFile::~PendingFile() {
  if (!published_) ::unlink(file_.path().c_str());
}

void PendingFile::publish() {
  file_.sync();
  if (::rename(file_.path().c_str(), final_path_.c_str()) != 0) fail_errno("rename a file to", final_path_);
  published_ = true;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_errno("open the folder", path);
  const int result = ::fsync(descriptor);
  ::close(descriptor);
  if (result != 0) fail_errno("sync the folder", path);
}

}  // namespace tessera
