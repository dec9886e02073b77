// SPDX-License-Identifier: Apache-2.0
#include "framework/train/step_dump.h"

#include <algorithm>

#include "framework/checkpoint/file.h"
#include "framework/checkpoint/hdf5_image.h"
#include "framework/ops/memory.h"
#include "framework/train/logical.h"

namespace tessera {

namespace fs = std::filesystem;

bool StepDump::wanted(const DebugSection& debug, Steps step) {
  return std::find(debug.dump_steps.begin(), debug.dump_steps.end(), step.value) != debug.dump_steps.end();
}

StepDump::StepDump(Rank& rank, const RunConfig& config) : rank_(rank), config_(config) {
  int64_t bytes = 0;
  for (const Parameter& parameter : rank.store().parameters())
    bytes +=
        parameter.spec.shape.elements() * (size_of(rank.buffers().options().compute) + size_of(DType::F32));
  CHECK_AS(ExitCode::Usage, bytes <= kLargestBytes || config.debug.allow_large,
           "debug.dump_steps would write {:.1f} GiB a step: set debug.allow_large = true to have it",
           static_cast<double>(bytes) / (1 << 30));
  for (const ParameterSpec& spec : rank.model().parameters) {
    const Tensor whole = logical_tensor(rank, spec, TensorKind::Value);
    if (rank.number() != 0) continue;
    std::vector<std::byte> host(static_cast<size_t>(whole.bytes()));
    rank.backend().download(whole, host);
    entries_.push_back({"/parameters/" + spec.name, whole.dtype(), whole.shape(), std::move(host)});
  }
}

template <class T>
void StepDump::add(std::string path, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  entries_.push_back({std::move(path), dtype_of<T>(), shape, {bytes.begin(), bytes.end()}});
}

void StepDump::add_samples(const DataFeed::GlobalBatch& global, const Dataset& dataset) {
  const auto rows = static_cast<int64_t>(global.samples.size());
  const HostBatch host = dataset.read(global.samples, 0, rows, global.context);
  const Shape shape{rows, host.length};
  const auto wide = [](const std::vector<int32_t>& values) {
    return std::vector<int64_t>(values.begin(), values.end());
  };
  std::vector<uint8_t> mask(host.weights.size());
  std::transform(host.weights.begin(), host.weights.end(), mask.begin(),
                 [](float weight) { return weight > 0 ? 1 : 0; });
  add("/tokens", shape, wide(host.tokens));
  add("/targets", shape, wide(host.targets));
  add("/loss_mask", shape, mask);
  add("/positions", shape, wide(host.positions));
  add("/document_ids", shape, host.document_ids);
}

void StepDump::add_gradients(double scale) {
  for (const ParameterSpec& spec : rank_.model().parameters) {
    if (!is_trained(spec)) continue;
    const Tensor whole = logical_tensor(rank_, spec, TensorKind::Gradient);
    if (rank_.number() != 0) continue;
    const std::vector<double> scaled = to_host_double(rank_.backend(), whole);
    std::vector<float> gradient(scaled.size());
    std::transform(scaled.begin(), scaled.end(), gradient.begin(),
                   [&](double value) { return static_cast<float>(value / scale); });
    add("/gradients/" + spec.name, spec.shape, gradient);
  }
}

void StepDump::write(const fs::path& folder, Steps step, const DataFeed::GlobalBatch& global,
                     const Dataset& dataset, const StepResult& result) {
  add_gradients(result.scale);
  if (rank_.number() != 0) return;
  add_samples(global, dataset);
  add("/loss", {1}, std::vector<double>{result.loss});

  std::vector<Hdf5Dataset> datasets;
  for (const Entry& entry : entries_) datasets.push_back({entry.path, entry.dtype, entry.shape});
  const Hdf5DataImage laid_out =
      make_data_image(datasets, {{"step", step.value}, {"grad_norm", result.grad_norm}});

  fs::create_directories(folder);
  const fs::path path = folder / fmt::format("step_{:08}.h5", step.value), working = path.string() + ".tmp";
  fs::remove(working);
  StoredOutput file(working, StoredOutput::Mode::Create);
  std::vector<std::byte> block(static_cast<size_t>(1) << 20);
  for (int64_t at = 0; at < laid_out.image.size(); at += static_cast<int64_t>(block.size())) {
    const auto count = std::min<int64_t>(static_cast<int64_t>(block.size()), laid_out.image.size() - at);
    const auto part = std::span(block).first(static_cast<size_t>(count));
    laid_out.image.read(at, part);
    file.write_at(at, part);
  }
  for (size_t i = 0; i < entries_.size(); ++i) file.write_at(laid_out.positions[i], entries_[i].bytes);
  file.sync_and_close();
  rename_path(working, path);
}

}  // namespace tessera
