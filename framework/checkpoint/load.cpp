// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/load.h"

#include <algorithm>
#include <map>

#include "framework/checkpoint/agree.h"
#include "framework/checkpoint/box_runs.h"
#include "framework/checkpoint/tensor_reader.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

// Names that hold the values of `name`, in order of preference.
const StoredTensor* stored_for(const Manifest& manifest, const std::string& name, DType wanted) {
  const auto at = [&](const std::string& key) {
    const auto found = manifest.tensors.find(key);
    return found == manifest.tensors.end() ? nullptr : &found->second;
  };
  const StoredTensor* own = at(name);
  if (own != nullptr && own->dtype == wanted) return own;
  if (name.starts_with(kMasters)) {
    const StoredTensor* parameter = at(std::string(kParameters) + name.substr(kMasters.size()));
    return own == nullptr && parameter != nullptr && parameter->dtype == wanted ? parameter : own;
  }
  if (name.starts_with(kParameters)) {
    const StoredTensor* master = at(std::string(kMasters) + name.substr(kParameters.size()));
    return master != nullptr ? master : own;
  }
  return own;
}

bool may_convert(const std::string& name, DType stored, DType wanted) {
  return stored == wanted || (name.starts_with(kParameters) && is_float(stored) && is_float(wanted));
}

// Which parts this rank reads itself.
std::vector<bool> parts_here(const Checkpoint& checkpoint) {
  std::vector<bool> here;
  for (const int server : checkpoint.served_by) here.push_back(server < 0);
  return here;
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const TensorMap& wanted, Backend& backend)
      : checkpoint_(checkpoint), wanted_(wanted), backend_(backend) {}

  // What is read for each wanted tensor. Throws when a name, shape or type does not fit.
  void find_sources() {
    for (const auto& [name, tensor] : wanted_) sources_[name] = &source_of(name, tensor);
  }

  // Fills all pieces from the parts that this rank reads itself.
  void read_own() {
    TensorReader reader(checkpoint_.path, *checkpoint_.manifest, parts_here(checkpoint_));
    for (const auto& [name, tensor] : wanted_)
      for (const Piece& piece : tensor.pieces) fill(reader, *sources_.at(name), piece);
  }

  // Collective. Fills the rest: who has a part reads it aloud, piece by piece, block by block.
  void read_served(Communicator& world);

  bool was_read(const StoredTensor& stored) const {
    return std::any_of(sources_.begin(), sources_.end(), [&](const auto& s) { return s.second == &stored; });
  }

 private:
  const StoredTensor& source_of(const std::string& name, const GlobalTensor& wanted) const;
  void fill(TensorReader& reader, const StoredTensor& stored, const Piece& piece);
  void put(DType stored, const Tensor& target, std::span<const std::byte> bytes);
  void put_common(const StoredTensor& stored, const Box& box, std::span<const std::byte> bytes);

  const Checkpoint& checkpoint_;
  const TensorMap& wanted_;
  Backend& backend_;
  std::map<std::string, const StoredTensor*> sources_;
  std::vector<std::byte> block_;
};

const StoredTensor& Loader::source_of(const std::string& name, const GlobalTensor& wanted) const {
  const StoredTensor* stored = stored_for(*checkpoint_.manifest, name, wanted.dtype);
  const std::string place = (checkpoint_.path / kManifestName).string();
  CHECK_AS(ExitCode::Data, stored != nullptr, "{}: there is no tensor {}", place, name);
  CHECK_AS(ExitCode::Data, stored->shape == wanted.shape, "{}: {} is {} in the checkpoint, {} in this run",
           place, name, stored->shape.to_string(), wanted.shape.to_string());
  CHECK_AS(ExitCode::Data, may_convert(name, stored->dtype, wanted.dtype),
           "{}: {} is {} in the checkpoint, {} in this run", place, name, name_of(stored->dtype),
           name_of(wanted.dtype));
  return *stored;
}

void Loader::put(DType stored, const Tensor& target, std::span<const std::byte> bytes) {
  if (stored == target.dtype()) return backend_.upload(bytes, target);
  const Tensor source = empty(backend_, stored, target.shape());
  backend_.upload(bytes, source);
  backend_.copy(source, target);
}

void Loader::fill(TensorReader& reader, const StoredTensor& stored, const Piece& piece) {
  const int64_t count = piece.box.elements(), step = TensorReader::kBlock / size_of(stored.dtype);
  if (count == 0) return;
  const Tensor flat = piece.data.flat();
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t end = std::min(begin + step, count);
    block_.resize(static_cast<size_t>((end - begin) * size_of(stored.dtype)));
    reader.read(stored, piece.box, begin, end, block_);
    put(stored.dtype, flat.narrow(begin, end - begin), block_);
  }
}

// The bytes are those of a contiguous box of the stored tensor.
void Loader::put_common(const StoredTensor& stored, const Box& box, std::span<const std::byte> bytes) {
  const int64_t element = size_of(stored.dtype);
  for (const auto& [name, source] : sources_) {
    if (source != &stored) continue;
    for (const Piece& piece : wanted_.at(name).pieces) {
      for_each_common_run(box, piece.box, [&](int64_t from, int64_t to, int64_t elements) {
        put(stored.dtype, piece.data.flat().narrow(to, elements),
            bytes.subspan(static_cast<size_t>(from * element), static_cast<size_t>(elements * element)));
      });
    }
  }
}

void Loader::read_served(Communicator& world) {
  const Manifest& manifest = *checkpoint_.manifest;
  TensorReader reader(checkpoint_.path, manifest);
  for (const auto& named : manifest.tensors) {
    const StoredTensor& stored = named.second;
    const int64_t element = size_of(stored.dtype), step = TensorReader::kBlock / element;
    for (const StoredPiece& piece : stored.pieces) {
      const int server = checkpoint_.served_by[static_cast<size_t>(piece.part)];
      if (server < 0) continue;
      const int64_t count = piece.box.elements();
      for (int64_t begin = 0; begin < count; begin += step) {
        const int64_t end = std::min(begin + step, count);
        std::string bytes;
        agree(world, [&] {
          if (world.rank() != server) return;
          bytes.resize(static_cast<size_t>((end - begin) * element));
          reader.read(stored, piece.box, begin, end, std::as_writable_bytes(std::span(bytes)));
        });
        world.broadcast_host(bytes, server);
        std::span<const std::byte> rest = std::as_bytes(std::span(bytes));
        for (const Box& box : boxes_within(piece.box, begin, end)) {
          const auto size = static_cast<size_t>(box.elements() * element);
          put_common(stored, box, rest.first(size));
          rest = rest.subspan(size);
        }
      }
    }
  }
}

}  // namespace

std::vector<std::string> load_tensors(const Checkpoint& checkpoint, const TensorMap& wanted,
                                      Communicator& world, Backend& backend) {
  const Manifest& manifest = *checkpoint.manifest;
  std::vector<int64_t> used(manifest.tensors.size(), 0);
  Loader loader(checkpoint, wanted, backend);
  // All names, shapes and types first: a mismatch must not leave half of the tensors changed.
  agree(world, [&] {
    check_tensor_map(wanted);
    loader.find_sources();
  });
  agree(world, [&] { loader.read_own(); });
  if (!checkpoint.served_by.empty()) loader.read_served(world);
  size_t place = 0;
  for (const auto& [name, tensor] : manifest.tensors)
    used[place++] = loader.was_read(tensor) || wanted.contains(name) ? 1 : 0;
  world.all_reduce_host(std::span<int64_t>(used), Reduce::Max);
  std::vector<std::string> unused;
  size_t index = 0;
  for (const auto& [name, tensor] : manifest.tensors)
    if (used[index++] == 0) unused.push_back(name);
  return unused;
}

}  // namespace tessera
