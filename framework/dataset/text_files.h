// SPDX-License-Identifier: Apache-2.0
// Which files a path of plain text stands for, and plain text as a token store: a byte is a token, and each
// file is a document that ends with the end-of-document id. Nothing is prepared or cached on disk.
#pragma once
#include <initializer_list>
#include <vector>

#include "framework/dataset/file.h"
#include "framework/dataset/token_store.h"

namespace tessera {

struct InputFile {
  std::filesystem::path path;
  std::string name;  // relative to the folder that was named; the file name for a single file
  int64_t size = 0;
};

// A file, or all regular files below a folder in the order of their names' bytes; names that begin with a
// dot are left out. Compressed files are refused (exit 2) but for those whose endings the caller unpacks:
// their bytes are no text.
std::vector<InputFile> list_input_files(const std::filesystem::path& path,
                                        std::initializer_list<std::string_view> unpacked = {});

class TextFiles final : public TokenStore {
 public:
  // Empty files are no documents.
  TextFiles(const std::filesystem::path& path, int32_t end_of_document);

  int64_t tokens() const override { return ends_.empty() ? 0 : ends_.back(); }
  int64_t documents() const override { return static_cast<int64_t>(ends_.size()); }
  int64_t document_end(int64_t document) const override;
  void read(int64_t first, int64_t vocab_size, std::span<int32_t> out) const override;
  int64_t bytes() const override { return tokens() - documents(); }
  std::string_view kind() const override { return "text"; }
  std::string fingerprint() const override;

 private:
  void read_bytes(size_t document, int64_t offset, std::span<int32_t> out) const;

  std::vector<InputFile> files_;
  std::vector<int64_t> ends_;  // in tokens
  int32_t end_of_document_;
};

}  // namespace tessera
