// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/load.h"

#include <algorithm>
#include <set>

#include "framework/checkpoint/agree.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/folders.h"
#include "framework/checkpoint/part_writer.h"
#include "framework/checkpoint/tensor_reader.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParameters = "parameters/";
constexpr std::string_view kMasters = "masters/";
constexpr int64_t kBlock = int64_t{8} << 20;

Manifest manifest_of(const fs::path& folder, std::string_view text) {
  try {
    return manifest_from_text(text);
  } catch (const Error& error) {
    fail(ExitCode::Data, "{}: {}", (folder / kManifestName).string(), error.what());
  }
}

std::string read_manifest_text(const fs::path& folder) {
  try {
    return read_text(folder / kManifestName, kLargestManifest);
  } catch (const Error& error) {
    std::error_code ignored;
    if (fs::exists(folder / kManifestName, ignored)) throw;
    fail(error.code(), "{} is no checkpoint, or an unfinished one: {}", folder.string(), error.what());
  }
}

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

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Backend& backend)
      : checkpoint_(checkpoint), backend_(backend), reader_(checkpoint.path, *checkpoint.manifest) {}

  const StoredTensor& source_of(const std::string& name, const GlobalTensor& wanted) const {
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

  void fill(const StoredTensor& stored, const Piece& piece) {
    const int64_t count = piece.box.elements(), step = kBlock / size_of(stored.dtype);
    if (count == 0) return;
    const Tensor flat = piece.data.flat();
    for (int64_t begin = 0; begin < count; begin += step) {
      const int64_t end = std::min(begin + step, count);
      block_.resize(static_cast<size_t>((end - begin) * size_of(stored.dtype)));
      reader_.read(stored, piece.box, begin, end, block_);
      const Tensor target = flat.narrow(begin, end - begin);
      if (stored.dtype == target.dtype()) {
        backend_.upload(block_, target);
      } else {
        const Tensor source = empty(backend_, stored.dtype, target.shape());
        backend_.upload(block_, source);
        backend_.copy(source, target);
      }
    }
  }

 private:
  const Checkpoint& checkpoint_;
  Backend& backend_;
  TensorReader reader_;
  std::vector<std::byte> block_;
};

// Files are dealt out so that each is read by one rank.
void check_own_files(const fs::path& folder, const Manifest& manifest, const Communicator& world) {
  if (world.rank() == 0) check_file(folder, manifest.index);
  for (size_t i = 0; i < manifest.parts.size(); ++i)
    if (static_cast<int>(i % static_cast<size_t>(world.size())) == world.rank())
      check_file(folder, manifest.parts[i]);
}

}  // namespace

fs::path checkpoint_folder(const fs::path& path) {
  std::error_code error;
  CHECK_AS(ExitCode::Data, fs::is_directory(path, error), "there is no folder {}", path.string());
  if (fs::exists(path / kManifestName, error)) return path;
  for (const fs::path& directory : {path, path / "checkpoints"})
    if (const std::vector<Steps> steps = published_steps(directory); !steps.empty())
      return directory / step_folder_name(steps.back());
  fail(ExitCode::Data, "{} is no checkpoint (it has no {}) and holds none", path.string(), kManifestName);
}

Manifest read_manifest(const fs::path& folder) {
  return manifest_of(folder, read_manifest_text(folder));
}

void check_file(const fs::path& folder, const StoredFile& listed) {
  const fs::path path = folder / listed.name;
  const StoredFile found = measured_file(path);
  CHECK_AS(ExitCode::Data, found.bytes == listed.bytes,
           "{} is damaged: it has {} bytes, it was written with {}", path.string(), found.bytes,
           listed.bytes);
  CHECK_AS(ExitCode::Data, found.checksum == listed.checksum,
           "{} is damaged: its checksum is {}, it was written with {}", path.string(), to_hex(found.checksum),
           to_hex(listed.checksum));
}

void check_pieces(const fs::path& folder, const Manifest& manifest, const std::string& tensor) {
  const StoredTensor& stored = manifest.tensors.at(tensor);
  TensorReader reader(folder, manifest);
  std::vector<std::byte> block;
  for (const StoredPiece& piece : stored.pieces) {
    Hasher hasher;
    const int64_t count = piece.box.elements(), step = kBlock / size_of(stored.dtype);
    for (int64_t begin = 0; begin < count; begin += step) {
      const int64_t end = std::min(begin + step, count);
      block.resize(static_cast<size_t>((end - begin) * size_of(stored.dtype)));
      reader.read(stored, piece.box, begin, end, block);
      hasher.add(block);
    }
    const std::string& part = manifest.parts[static_cast<size_t>(piece.part)].name;
    CHECK_AS(ExitCode::Data, hasher.digest() == piece.checksum,
             "{}: the bytes of {} do not have the checksum {}", (folder / part).string(), piece.dataset,
             to_hex(piece.checksum));
  }
}

Checkpoint open_checkpoint(const fs::path& folder, Communicator& world, Log& log) {
  // Rank 0 alone reads the manifest, so that all ranks act on the same one.
  std::string text;
  agree(world, [&] {
    if (world.rank() != 0) return;
    text = read_manifest_text(folder);
  });
  world.broadcast_host(text, 0);
  auto manifest = std::make_shared<Manifest>();
  agree(world, [&] {
    *manifest = manifest_of(folder, text);
    check_own_files(folder, *manifest, world);
  });
  log.debug(fmt::format("rank {}: checkpoint {}, manifest {}", world.rank(), folder.string(),
                        to_hex(digest_of(text))));
  return {folder, std::move(manifest)};
}

std::optional<Checkpoint> find_newest(const fs::path& directory, Communicator& world, Log& log) {
  std::string listed;
  agree(world, [&] {
    if (world.rank() != 0) return;
    recover_replaced(directory, [&](const std::string& message) { log.warn(message); });
    for (const Steps step : published_steps(directory)) listed = fmt::format("{} {}", step.value, listed);
  });
  world.broadcast_host(listed, 0);
  std::string faults;
  for (size_t at = 0; at < listed.size();) {
    const size_t space = listed.find(' ', at);
    const Steps step(std::stoll(listed.substr(at, space - at)));
    at = space + 1;
    const fs::path folder = directory / step_folder_name(step);
    try {
      Checkpoint checkpoint = open_checkpoint(folder, world, log);
      CHECK_AS(ExitCode::Data, checkpoint.step() == step, "{} holds step {}",
               (folder / kManifestName).string(), checkpoint.step().value);
      return checkpoint;
    } catch (const Error& error) {
      if (error.code() != ExitCode::Data) throw;
      faults += fmt::format("\n  {}", error.what());
      if (world.rank() == 0)
        log.warn(fmt::format("{}; this checkpoint is not used, the one before is tried", error.what()));
    }
  }
  CHECK_AS(ExitCode::Data, faults.empty(), "no checkpoint in {} is whole:{}", directory.string(), faults);
  return std::nullopt;
}

std::vector<std::string> load_tensors(const Checkpoint& checkpoint, const TensorMap& wanted,
                                      Communicator& world, Backend& backend) {
  const Manifest& manifest = *checkpoint.manifest;
  std::vector<int64_t> used(manifest.tensors.size(), 0);
  agree(world, [&] {
    check_tensor_map(wanted);
    Loader loader(checkpoint, backend);
    // All names, shapes and types first: a mismatch must not leave half of the tensors changed.
    std::map<std::string, const StoredTensor*> sources;
    for (const auto& [name, tensor] : wanted) sources[name] = &loader.source_of(name, tensor);
    for (const auto& [name, tensor] : wanted)
      for (const Piece& piece : tensor.pieces) loader.fill(*sources[name], piece);
    std::set<const StoredTensor*> read;
    for (const auto& [name, source] : sources) read.insert(source);
    size_t index = 0;
    for (const auto& [name, tensor] : manifest.tensors)
      used[index++] = read.contains(&tensor) || wanted.contains(name) ? 1 : 0;
  });
  world.all_reduce_host(std::span<int64_t>(used), Reduce::Max);
  std::vector<std::string> unused;
  size_t index = 0;
  for (const auto& [name, tensor] : manifest.tensors)
    if (used[index++] == 0) unused.push_back(name);
  return unused;
}

}  // namespace tessera
