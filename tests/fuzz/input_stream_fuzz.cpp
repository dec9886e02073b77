// SPDX-License-Identifier: Apache-2.0
// Crafted text files, plain and packed: refused with exit code 3, or read to their end; plain ones as they
// are.
#include <array>
#include <string>

#include "framework/base/check.h"
#include "framework/corpus/input_stream.h"
#include "tests/fuzz/memory_file.h"
#include "tests/support/scratch_folder.h"

namespace {

using namespace tessera;

constexpr size_t kEnough = size_t{8} << 20;  // unpacked: a few bytes may stand for gigabytes

struct PackedFiles {
  test::ScratchFolder folder;
  std::array<std::filesystem::path, 3> paths{folder / "a.txt", folder / "a.txt.gz", folder / "a.txt.zst"};
  std::array<MemoryFile, 3> files{MemoryFile(paths[0]), MemoryFile(paths[1]), MemoryFile(paths[2])};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const PackedFiles packed;
  for (size_t i = 0; i < packed.files.size(); ++i) {
    packed.files[i].write({data, size});
    for (const size_t most : {size_t{1} << 16, size_t{7}}) {
      std::string text;
      try {
        const auto stream = open_input(packed.paths[i]);
        while (text.size() < kEnough && stream->read(text, most)) {
        }
        if (i == 0 && text != std::string(reinterpret_cast<const char*>(data), size)) std::abort();
      } catch (const Error& error) {
        if (error.code() != ExitCode::Data) std::abort();
      }
      if (text.size() > 4096) break;  // seven bytes a call are for small texts
    }
  }
  return 0;
}
