// SPDX-License-Identifier: Apache-2.0
// Files of data: reads that say what is missing, a read-only mapping, and output that appears whole or not
// at all. Every fault is an Error with exit code 3 that names the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace tessera {

// What tells that a file was changed between two looks at it.
struct FileState {
  int64_t size = 0, changed_ns = 0;  // changed: time of the last write
  bool operator==(const FileState&) const = default;
};

// An open descriptor. Not copied; closed at the end.
class File {
 public:
  static File open_to_read(const std::filesystem::path& path);
  static File create_beside(const std::filesystem::path& path);  // a new one, PATH.tmp-...; also readable
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  int64_t size() const;
  FileState state() const;

  // Exactly out.size() bytes from `offset`; a file that ends before is an error.
  void read(int64_t offset, std::span<std::byte> out) const;
  void append(std::span<const std::byte> bytes);  // at the end of what was written
  void sync();                                    // to the disk

 private:
  File(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A whole file as read-only memory. What of it is not in memory is read where it is touched; touching what a
// file has lost since ends the process, so long readers call check_unchanged() now and then.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  int64_t size() const { return static_cast<int64_t>(size_); }
  const std::filesystem::path& path() const { return file_.path(); }
  const File& file() const { return file_; }
  // What is touched is not read around: for large files that are read here and there.
  void read_at_random() const;
  // Throws when the file is not what it was when it was opened.
  void check_unchanged() const;

 private:
  File file_;
  FileState opened_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A file beside its final name. publish() syncs it and renames it over that name; without publish() it is
// removed at the end.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path final_path);
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile();

  File& file() { return file_; }
  void publish();

 private:
  std::filesystem::path final_path_;
  File file_;
  bool published_ = false;
};

// Makes renames in this folder lasting.
void sync_folder(const std::filesystem::path& folder);

}  // namespace tessera
