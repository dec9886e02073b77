// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/publish.h"

#include "framework/base/check.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/folders.h"
#include "framework/checkpoint/hdf5_image.h"
#include "framework/checkpoint/part_writer.h"

namespace tessera {
namespace {

std::vector<Hdf5VirtualDataset> whole_tensors(const Manifest& manifest) {
  std::vector<Hdf5VirtualDataset> datasets;
  for (const auto& [name, tensor] : manifest.tensors) {
    Hdf5VirtualDataset dataset{"/" + name, tensor.dtype, tensor.shape, {}};
    for (const StoredPiece& piece : tensor.pieces) {
      const StoredFile& part = manifest.parts[static_cast<size_t>(piece.part)];
      dataset.sources.push_back({part.name, piece.dataset, piece.box});
    }
    datasets.push_back(std::move(dataset));
  }
  return datasets;
}

// An fp32 (or fp64) parameter without a master is its own master: readers find it under both names.
std::vector<std::pair<std::string, std::string>> master_links(const Manifest& manifest) {
  std::vector<std::pair<std::string, std::string>> links;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (!name.starts_with(kParameters)) continue;
    const std::string master = std::string(kMasters) + name.substr(kParameters.size());
    const bool wide = tensor.dtype == DType::F32 || tensor.dtype == DType::F64;
    if (wide && !manifest.tensors.contains(master)) links.emplace_back("/" + master, "/" + name);
  }
  return links;
}

Hdf5Attributes attributes_of(const Manifest& manifest) {
  Hdf5Attributes attributes{{"step", manifest.step.value}};
  for (auto& [name, value] : values_of_state(manifest.state)) {
    if (name == "step") continue;
    switch (value.kind) {
      case StateValue::Kind::Integer:
        attributes.emplace_back(name, value.integer);
        break;
      case StateValue::Kind::Real:
        attributes.emplace_back(name, value.real);
        break;
      case StateValue::Kind::Text:
        attributes.emplace_back(name, std::move(value.text));
        break;
    }
  }
  return attributes;
}

StoredFile write_index(const std::filesystem::path& path, const Manifest& manifest, bool verify) {
  const Hdf5Image image =
      make_index_image(whole_tensors(manifest), master_links(manifest), attributes_of(manifest));
  StoredFile written{path.filename().string(), image.size(), {}};
  std::vector<std::byte> bytes(static_cast<size_t>(image.size()));
  image.read(0, bytes);
  Hasher hasher;
  hasher.add(bytes);
  written.checksum = hasher.digest();
  StoredOutput file(path, StoredOutput::Mode::Create);
  file.write_at(0, bytes);
  file.sync_and_close();
  if (verify) {
    const StoredFile found = measured_file(path);
    CHECK_AS(ExitCode::Data, found.bytes == written.bytes && found.checksum == written.checksum,
             "{} reads back with other bytes than were written: the storage is at fault", path.string());
  }
  return written;
}

}  // namespace

void publish(const std::filesystem::path& working, const std::filesystem::path& published, Manifest& manifest,
             bool verify) {
  manifest.index = write_index(working / kIndexName, manifest, verify);
  const std::string text = to_text(manifest);
  CHECK(static_cast<int64_t>(text.size()) <= kLargestManifest,
        "the manifest of step {} has {} bytes, more than the {} that are read", manifest.step.value,
        text.size(), kLargestManifest);
  write_text(working / kManifestName, text);
  if (verify)
    CHECK_AS(ExitCode::Data, read_text(working / kManifestName, kLargestManifest) == text,
             "{} reads back with other bytes than were written: the storage is at fault",
             (working / kManifestName).string());
  sync_directory(working);
  publish_folder(working, published);
}

}  // namespace tessera
