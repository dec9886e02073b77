// SPDX-License-Identifier: Apache-2.0
// Files that lie in memory under names of a folder, so that a fuzzer's thousands of files a second reach no
// disk.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

namespace tessera {

class MemoryFile {
 public:
  explicit MemoryFile(const std::filesystem::path& name) : file_(memfd_create("fuzz", 0)) {
    std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(file_), name);
  }
  void write(std::span<const uint8_t> bytes) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (ftruncate(file_, 0) != 0 || pwrite(file_, bytes.data(), bytes.size(), 0) != size) std::abort();
  }

 private:
  int file_;
};

}  // namespace tessera
