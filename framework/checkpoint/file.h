// SPDX-License-Identifier: Apache-2.0
// Files as the checkpoint protocol needs them: every call's result is checked, a failure throws
// ExitCode::Data with the path and the system's reason. Nothing here takes a file lock or trusts stat.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace tessera {

// A file that is being written. Bytes are only safe after sync_and_close; the destructor just lets go.
class StoredOutput {
 public:
  enum class Mode : uint8_t { Create, Existing };  // Create: the file must not exist yet
  StoredOutput(std::filesystem::path path, Mode mode);
  ~StoredOutput();
  StoredOutput(const StoredOutput&) = delete;
  StoredOutput& operator=(const StoredOutput&) = delete;

  void write_at(int64_t position, std::span<const std::byte> bytes);
  void resize(int64_t bytes);
  void sync_and_close();

 private:
  std::filesystem::path path_;
  int descriptor_;
};

class StoredInput {
 public:
  explicit StoredInput(std::filesystem::path path);
  ~StoredInput();
  StoredInput(StoredInput&& other) noexcept;
  StoredInput& operator=(StoredInput&&) = delete;

  // Reads up to to.size() bytes and returns how many there were: fewer only at the end of the file.
  int64_t read_at(int64_t position, std::span<std::byte> to) const;
  // Asks the system to forget what it cached, so that the next read comes from the medium. Best effort.
  void drop_cache() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

// Whether the file is there: asked by opening it, because stat may answer from a cache. Throws when it is
// there and cannot be opened.
bool is_there(const std::filesystem::path& path);
// The whole file as text; throws when it is larger than `limit`.
std::string read_text(const std::filesystem::path& path, int64_t limit);
// Creates the file, writes, syncs and closes it.
void write_text(const std::filesystem::path& path, std::string_view text);

void make_directory(const std::filesystem::path& path);  // throws when it exists
void sync_directory(const std::filesystem::path& path);  // where the file system knows how
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Swaps two paths in one step. False when the file system cannot.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);
// What an ordinary user may still write there; nothing when the file system does not say.
std::optional<int64_t> free_bytes(const std::filesystem::path& directory);

}  // namespace tessera
