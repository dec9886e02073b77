// SPDX-License-Identifier: Apache-2.0
// Crafted token files: the reader either refuses with exit code 3 or gives tokens inside its bounds.
// The input is split into an index and a .bin: the first two bytes are the length of the .bin.
#include <cstdlib>
#include <string>
#include <vector>

#include "framework/base/check.h"
#include "framework/dataset/source.h"
#include "framework/dataset/token_file.h"
#include "tests/fuzz/memory_file.h"
#include "tests/support/scratch_folder.h"

namespace {

using namespace tessera;

class MemoryPrefix {
 public:
  const std::string& prefix() const { return prefix_; }
  void write(std::span<const uint8_t> index, std::span<const uint8_t> bin) const {
    index_.write(index);
    bin_.write(bin);
  }

 private:
  test::ScratchFolder folder_;
  std::string prefix_ = folder_ / "f";
  MemoryFile index_{prefix_ + ".idx"}, bin_{prefix_ + ".bin"};
};

void read_everything(const std::string& prefix) {
  const TokenFile file(prefix);
  (void)file.fingerprint();
  for (int64_t i = 0; i < file.documents(); ++i)
    if (file.document_end(i) < 0 || file.document_end(i) > file.tokens()) std::abort();
  for (int64_t at = 0; at < file.tokens(); ++at)
    if (file.document_end(file.document_of(at)) <= at) std::abort();
  std::vector<int32_t> ids(static_cast<size_t>(file.tokens()));
  file.read(0, 70000, ids);
  for (const int32_t id : ids)
    if (id < 0 || id >= 70000) std::abort();
}

void read_samples(const std::string& prefix) {
  using Packing = SampleOptions::Packing;
  for (const Packing packing : {Packing::Cut, Packing::FirstFit}) {
    const Source source({.name = "f", .path = prefix},
                        {.seq_length = 3, .vocab_size = 70000, .packing = packing});
    std::optional<RowPlace> place = source.packing().first(0);
    for (; place; place = source.packing().after(*place)) {
      const SampleId id = {.block = place->block, .index = source.packing().index(*place)};
      HostBatch batch(0, 1, 3);
      source.read(id, 2, batch.row(0));
      batch.count_weights();
      if (batch.trained.value != source.trained_positions(id)) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryPrefix memory;
  if (size < 2) return 0;
  const std::span<const uint8_t> rest(data + 2, size - 2);
  const size_t bin = std::min<size_t>(rest.size(), data[0] | static_cast<size_t>(data[1]) << 8);
  memory.write(rest.subspan(bin), rest.first(bin));
  for (const auto& use : {read_everything, read_samples}) {
    try {
      use(memory.prefix());
    } catch (const Error& error) {
      if (error.code() != ExitCode::Data) std::abort();
    }
  }
  return 0;
}
