// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/open.h"

#include <algorithm>

#include "framework/checkpoint/agree.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/folders.h"
#include "framework/checkpoint/part_writer.h"
#include "framework/checkpoint/tensor_reader.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

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

// Who checks each part, and who reads it for whom.
struct Readers {
  std::vector<int> checks, serves;
};

// Collective. On shared storage the parts are dealt out. Elsewhere the lowest rank that has a part checks it
// and serves it to the others, unless all have it.
Readers find_readers(const fs::path& folder, const Manifest& manifest, bool shared, Communicator& world) {
  const size_t parts = manifest.parts.size();
  const int ranks = world.size();
  Readers readers{std::vector<int>(parts), std::vector<int>(parts, -1)};
  for (size_t part = 0; part < parts; ++part)
    readers.checks[part] = static_cast<int>(part % static_cast<size_t>(ranks));
  if (shared) return readers;

  std::vector<int64_t> holders(parts), lowest(parts);  // how many have it; ranks - the lowest of them
  agree(world, [&] {
    for (size_t part = 0; part < parts; ++part) {
      if (!is_there(folder / manifest.parts[part].name)) continue;
      holders[part] = 1;
      lowest[part] = ranks - world.rank();
    }
  });
  world.all_reduce_host(std::span(holders), Reduce::Sum);
  world.all_reduce_host(std::span(lowest), Reduce::Max);
  for (size_t part = 0; part < parts; ++part) {
    CHECK_AS(ExitCode::Data, holders[part] > 0, "{} is on no rank's disk",
             (folder / manifest.parts[part].name).string());
    if (holders[part] == ranks) continue;
    readers.checks[part] = readers.serves[part] = ranks - static_cast<int>(lowest[part]);
  }
  return readers;
}

void check_own_files(const fs::path& folder, const Manifest& manifest, const Readers& readers, int rank) {
  if (rank == 0) check_file(folder, manifest.index);
  for (size_t part = 0; part < manifest.parts.size(); ++part)
    if (readers.checks[part] == rank) check_file(folder, manifest.parts[part]);
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
    const int64_t count = piece.box.elements(), step = TensorReader::kBlock / size_of(stored.dtype);
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

Checkpoint open_checkpoint(const fs::path& folder, Communicator& world, Log& log,
                           const OpenOptions& options) {
  // Rank 0 alone reads the manifest, so that all ranks act on the same one.
  std::string text;
  agree(world, [&] {
    if (world.rank() == 0) text = read_manifest_text(folder);
  });
  world.broadcast_host(text, 0);
  auto manifest = std::make_shared<Manifest>();
  agree(world, [&] {
    *manifest = manifest_of(folder, text);
    CHECK_AS(ExitCode::Data, options.shared_fs || read_manifest_text(folder) == text,
             "{} is not the one that rank 0 reads", (folder / kManifestName).string());
  });
  Readers readers = find_readers(folder, *manifest, options.shared_fs, world);
  agree(world, [&] { check_own_files(folder, *manifest, readers, world.rank()); });
  log.debug(fmt::format("rank {}: checkpoint {}, manifest {}", world.rank(), folder.string(),
                        to_hex(digest_of(text))));
  return {folder, std::move(manifest), std::move(readers.serves)};
}

std::optional<Checkpoint> find_newest(const fs::path& directory, Communicator& world, Log& log,
                                      const OpenOptions& options) {
  std::string listed;
  agree(world, [&] {
    if (world.rank() == 0 || !options.shared_fs)
      recover_replaced(directory, [&](const std::string& message) { log.warn(message); });
    if (world.rank() != 0) return;
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
      Checkpoint checkpoint = open_checkpoint(folder, world, log, options);
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

}  // namespace tessera
