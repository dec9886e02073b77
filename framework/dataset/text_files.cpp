// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/text_files.h"

#include <algorithm>
#include <array>

#include "framework/base/check.h"
#include "framework/dataset/fingerprint.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

using Endings = std::initializer_list<std::string_view>;

InputFile input_file(const fs::path& path, std::string name, Endings unpacked) {
  const std::string extension = path.extension().string();
  for (const char* compressed : {".gz", ".zst", ".xz", ".bz2", ".zip", ".lz4"})
    CHECK_AS(
        ExitCode::Usage,
        extension != compressed || std::find(unpacked.begin(), unpacked.end(), extension) != unpacked.end(),
        "{} is compressed; unpack it first", path.string());
  return {.path = path, .name = std::move(name), .size = static_cast<int64_t>(fs::file_size(path))};
}

void list_folder(const fs::path& folder, const fs::path& relative, Endings unpacked,
                 std::vector<InputFile>& files) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path name = entry.path().filename();
    if (name.string().starts_with('.')) continue;
    if (entry.is_directory() && !entry.is_symlink())  // a link could lead round in a circle
      list_folder(entry.path(), relative / name, unpacked, files);
    else if (entry.is_regular_file())
      files.push_back(input_file(entry.path(), (relative / name).string(), unpacked));
  }
}

}  // namespace

std::vector<InputFile> list_input_files(const fs::path& path, Endings unpacked) {
  std::vector<InputFile> files;
  try {
    CHECK_AS(ExitCode::Data, fs::exists(path), "{} does not exist", path.string());
    if (fs::is_directory(path)) {
      list_folder(path, {}, unpacked, files);
      std::sort(files.begin(), files.end(),
                [](const InputFile& a, const InputFile& b) { return a.name < b.name; });
    } else {
      CHECK_AS(ExitCode::Data, fs::is_regular_file(path), "{} is not a regular file", path.string());
      files.push_back(input_file(path, path.filename().string(), unpacked));
    }
  } catch (const fs::filesystem_error& error) {
    fail(ExitCode::Data, "cannot list {}: {}", path.string(), error.what());
  }
  return files;
}

TextFiles::TextFiles(const fs::path& path, int32_t end_of_document) : end_of_document_(end_of_document) {
  int64_t end = 0;
  for (InputFile& file : list_input_files(path)) {
    if (file.size == 0) continue;
    end += file.size + 1;
    ends_.push_back(end);
    files_.push_back(std::move(file));
  }
}

int64_t TextFiles::document_end(int64_t document) const {
  CHECK(document >= 0 && document < documents(), "document {} of {}", document, documents());
  return ends_[static_cast<size_t>(document)];
}

void TextFiles::read(int64_t first, int64_t vocab_size, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  CHECK(first >= 0 && count <= tokens() - first, "tokens {} to {} of {}", first, first + count, tokens());
  CHECK_AS(ExitCode::Data, end_of_document_ < vocab_size && vocab_size > 255,
           "bytes and the end of a document need a vocabulary of {}, the model has {}",
           std::max(end_of_document_ + 1, 256), vocab_size);
  if (count == 0) return;
  auto document = static_cast<size_t>(document_of(first));
  int64_t at = first;
  while (at < first + count) {
    const int64_t text_end = ends_[document] - 1;  // where the end-of-document token stands
    const int64_t begin = text_end - files_[document].size;
    const auto to = static_cast<size_t>(at - first);
    if (at < text_end) {
      const auto part = static_cast<size_t>(std::min(text_end, first + count) - at);
      read_bytes(document, at - begin, out.subspan(to, part));
      at += static_cast<int64_t>(part);
    } else {
      out[to] = end_of_document_;
      ++at;
      ++document;
    }
  }
}

void TextFiles::read_bytes(size_t document, int64_t offset, std::span<int32_t> out) const {
  const File file = File::open_to_read(files_[document].path);
  // A file that grew would shift nothing, but the text at a position would no longer be what it was.
  CHECK_AS(ExitCode::Data, file.size() == files_[document].size, "{} had {} bytes and now has {}",
           files_[document].path.string(), files_[document].size, file.size());
  std::array<uint8_t, 4096> piece;
  while (!out.empty()) {
    const std::span<uint8_t> bytes(piece.data(), std::min(out.size(), piece.size()));
    file.read(offset, std::as_writable_bytes(bytes));
    std::copy(bytes.begin(), bytes.end(), out.begin());
    offset += static_cast<int64_t>(bytes.size());
    out = out.subspan(bytes.size());
  }
}

std::string TextFiles::fingerprint() const {
  Fingerprint mark;
  const bool whole = tokens() < Fingerprint::kWholeBelow;
  for (size_t i = 0; i < files_.size(); ++i) {
    mark.add(files_[i].name);
    mark.add(files_[i].size);
    const bool end = i == 0 || i + 1 == files_.size();
    if (whole || end) mark.add_content(File::open_to_read(files_[i].path));
  }
  return mark.digits();
}

}  // namespace tessera
