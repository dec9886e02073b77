// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/save.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>

#include "framework/checkpoint/agree.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/folders.h"
#include "framework/checkpoint/part_writer.h"
#include "framework/checkpoint/publish.h"
#include "framework/checkpoint/save_plan.h"
#include "framework/checkpoint/snapshot.h"
#include "framework/checkpoint/space.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// What a rank tells of its pieces: checksums, then positions.
std::string packed(const PartWriter& writer) {
  const std::span checksums(writer.checksums());
  const std::span positions(writer.positions());
  std::string text(reinterpret_cast<const char*>(checksums.data()), checksums.size_bytes());
  return text.append(reinterpret_cast<const char*>(positions.data()), positions.size_bytes());
}

struct PieceReport {
  std::vector<Digest> checksums;
  std::vector<int64_t> positions;
};

PieceReport unpacked(std::string_view text) {
  const size_t count = text.size() / (sizeof(Digest) + sizeof(int64_t));
  CHECK(count * (sizeof(Digest) + sizeof(int64_t)) == text.size(), "a rank's report has {} bytes",
        text.size());
  PieceReport report{std::vector<Digest>(count), std::vector<int64_t>(count)};
  if (count == 0) return report;
  std::memcpy(report.checksums.data(), text.data(), count * sizeof(Digest));
  std::memcpy(report.positions.data(), text.data() + count * sizeof(Digest), count * sizeof(int64_t));
  return report;
}

}  // namespace

struct CheckpointWriter::Save {
  enum class Phase : uint8_t { Write, Seal, Publish };

  Steps step;
  std::string state;
  std::filesystem::path working, published;
  SavePlan plan;
  bool async = false;
  Clock::time_point began = Clock::now();

  Phase phase = Phase::Write;
  int turn = 0;
  const PlannedPart* part = nullptr;      // this rank's; null when it writes nothing
  std::unique_ptr<PartWriter> writer;     // for that part
  PieceBytes bytes;                       // of this rank's pieces
  std::unique_ptr<std::byte[]> snapshot;  // their copies, when the save is asynchronous
  std::vector<Digest> part_checksums;     // of all pieces of the part
  StoredFile sealed;                      // the part, on its first rank
  Manifest manifest;                      // where it is published

  std::atomic<bool> stop = false;
  std::future<void> task;  // the last member: it is destroyed first and waits for its thread

  ~Save() { stop = true; }

  void run(std::function<void()> work) {
    if (async) {
      task = std::async(std::launch::async, std::move(work));
    } else {
      std::packaged_task<void()> now(std::move(work));
      task = now.get_future();
      now();
    }
  }
};

CheckpointWriter::CheckpointWriter(std::filesystem::path directory, const SaveOptions& options,
                                   Communicator& world, Backend& backend, Log& log)
    : directory_(std::move(directory)), options_(options), world_(world), backend_(backend), log_(log) {
  sites_ = find_sites(directory_, options_.shared_fs, world_);
  leads_ = sites_.leader[static_cast<size_t>(world_.rank())] == world_.rank();
  if (leads_) clean_leftovers(directory_, [&](const std::string& message) { log_.info(message); });
}

CheckpointWriter::~CheckpointWriter() = default;

std::optional<SaveResult> CheckpointWriter::start(Steps step, const TensorMap& tensors,
                                                  std::string_view state, bool last) {
  std::optional<SaveResult> before = wait();
  save_ = std::make_unique<Save>();
  save_->step = step;
  save_->published = directory_ / step_folder_name(step);
  guarded([&] {
    make_plan(tensors, state);
    make_folder();
    choose_async(tensors, last);
    take_pieces(tensors);
    write_turn();
    if (!save_->async)
      while (save_) settle();
  });
  return before;
}

std::optional<SaveResult> CheckpointWriter::poll() {
  if (save_) {
    const bool ready = save_->task.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    std::array<int64_t, 1> busy{ready ? 0 : 1};
    world_.all_reduce_host(std::span<int64_t>(busy), Reduce::Max);
    if (busy[0] != 0) return std::nullopt;
    guarded([&] { settle(); });
  }
  return std::exchange(finished_, std::nullopt);
}

std::optional<SaveResult> CheckpointWriter::wait() {
  guarded([&] {
    while (save_) settle();
  });
  return std::exchange(finished_, std::nullopt);
}

std::vector<std::filesystem::path> CheckpointWriter::set_aside_later(Steps step) {
  std::vector<std::filesystem::path> moved;
  agree(world_, [&] {
    if (leads_) moved = tessera::set_aside_later(directory_, step);
  });
  return moved;
}

void CheckpointWriter::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    // Where the failure is agreed no rank writes any more; otherwise the world is ending anyway.
    const std::filesystem::path working = save_ ? save_->working : std::filesystem::path();
    save_.reset();
    if (leads_ && !working.empty() && !remove_folder(working))
      log_.warn(fmt::format("cannot remove all of the unfinished {}", working.string()));
    throw;
  }
}

std::exception_ptr CheckpointWriter::explained(std::exception_ptr failure) const {
  if (!failure) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.code() != ExitCode::Data) return failure;
    std::string text = fmt::format("checkpoint of step {}: {}", save_->step.value, error.what());
    if (save_->plan.data_bytes > 0)
      text += fmt::format("; it needs about {}", size_text(save_->plan.estimated_bytes()));
    if (const std::optional<int64_t> free = free_bytes(directory_))
      text += fmt::format(", {} are free in {}", size_text(*free), directory_.string());
    return std::make_exception_ptr(Error(error.code(), text + "; older checkpoints are unharmed"));
  } catch (...) {
    return failure;
  }
}

void CheckpointWriter::make_plan(const TensorMap& tensors, std::string_view state) {
  agree(world_, [&] {
    check_tensor_map(tensors);
    if (world_.rank() != 0) return;
    values_of_state(state);  // throws unless it is a JSON object
    save_->state = state;
  });
  save_->plan = make_save_plan(world_.all_gather_host(declaration_of(tensors)), options_.max_files, sites_);
  for (const PlannedPart& part : save_->plan.parts)
    if (std::find(part.ranks.begin(), part.ranks.end(), world_.rank()) != part.ranks.end())
      save_->part = &part;
}

void CheckpointWriter::make_folder() {
  std::string name = working_folder_name(save_->step);
  world_.broadcast_host(name, 0);
  std::exception_ptr failure;
  try {
    if (leads_) {
      clean_leftovers(directory_, [&](const std::string& message) { log_.info(message); });
      const std::optional<int64_t> free = free_bytes(directory_);
      CHECK_AS(ExitCode::Data, !free || *free >= save_->plan.estimated_bytes() / sites_.count(),
               "not enough space");
      make_directory(directory_ / name);
      save_->working = directory_ / name;
    }
  } catch (...) {
    failure = explained(std::current_exception());
  }
  agree_on(world_, failure);
  save_->working = directory_ / name;
}

// Reserves the snapshot's memory; without it on every rank, the save is not asynchronous.
void CheckpointWriter::choose_async(const TensorMap& tensors, bool last) {
  const int64_t bytes = written_bytes(tensors);
  std::array<int64_t, 1> refused{last || !options_.async || bytes > options_.snapshot_limit_bytes ? 1 : 0};
  try {
    if (refused[0] == 0)
      save_->snapshot = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  } catch (const std::bad_alloc&) {
    refused[0] = 1;
  }
  world_.all_reduce_host(std::span<int64_t>(refused), Reduce::Max);
  save_->async = refused[0] == 0;
  if (save_->async)
    peak_snapshot_bytes_ = std::max(peak_snapshot_bytes_, bytes);
  else
    save_->snapshot.reset();
}

void CheckpointWriter::take_pieces(const TensorMap& tensors) {
  agree(world_, [&] {
    if (save_->part == nullptr) return;
    const auto number = static_cast<int64_t>(save_->part - save_->plan.parts.data());
    save_->writer = std::make_unique<PartWriter>(save_->working / part_name(number), *save_->part,
                                                 world_.rank(), save_->stop);
    save_->bytes = save_->async ? copied_pieces(backend_, written_pieces(tensors), save_->snapshot.get())
                                : staged_pieces(backend_, written_pieces(tensors));
  });
}

void CheckpointWriter::write_turn() {
  Save& save = *save_;
  save.run([&save] {
    if (save.writer && save.writer->has_turn(save.turn)) save.writer->write(save.bytes);
  });
}

void CheckpointWriter::seal() {
  Save& save = *save_;
  save.run([&save, verify = options_.verify] {
    if (save.writer && save.writer->first()) save.sealed = save.writer->seal(verify, save.part_checksums);
  });
}

void CheckpointWriter::publish() {
  save_->run([this, &save = *save_] {
    if (!leads_) return;
    tessera::publish(save.working, save.published, save.manifest, options_.verify);
    prune(directory_, save.step, options_.keep_last, options_.keep_every,
          [&](const std::string& message) { log_.warn(message); });
  });
}

void CheckpointWriter::settle() {
  std::exception_ptr failure;
  try {
    save_->task.get();
  } catch (...) {
    failure = explained(std::current_exception());
  }
  agree_on(world_, failure);
  advance();
}

void CheckpointWriter::advance() {
  switch (save_->phase) {
    case Save::Phase::Write:
      if (++save_->turn < save_->plan.turns()) return write_turn();
      gather_pieces();
      save_->phase = Save::Phase::Seal;
      return seal();
    case Save::Phase::Seal:
      gather_parts();
      save_->phase = Save::Phase::Publish;
      return publish();
    case Save::Phase::Publish:
      break;
  }
  const std::chrono::duration<double> seconds = Clock::now() - save_->began;
  std::array<int64_t, 1> bytes{world_.rank() == 0 ? save_->manifest.bytes() : 0};
  world_.all_reduce_host(std::span<int64_t>(bytes), Reduce::Max);
  finished_ = SaveResult{save_->step, save_->published, bytes[0], seconds.count(), save_->async};
  save_.reset();
}

// Checksums and places of all pieces, to the first rank of each part and to who publishes.
void CheckpointWriter::gather_pieces() {
  Save& save = *save_;
  save.snapshot.reset();
  save.bytes = nullptr;
  const std::vector<std::string> gathered =
      world_.all_gather_host(save.writer ? packed(*save.writer) : std::string());
  std::vector<PieceReport> reports;
  for (const std::string& text : gathered) reports.push_back(unpacked(text));
  if (save.part != nullptr) {
    for (const PlannedPiece& piece : save.part->pieces)
      save.part_checksums.push_back(reports[static_cast<size_t>(piece.rank)].checksums.at(piece.index));
  }
  if (!leads_) return;
  for (const auto& [name, info] : save.plan.tensors)
    save.manifest.tensors.emplace(name, StoredTensor{info.dtype, info.shape, {}});
  for (size_t part = 0; part < save.plan.parts.size(); ++part) {
    for (const PlannedPiece& piece : save.plan.parts[part].pieces) {
      const PieceReport& report = reports[static_cast<size_t>(piece.rank)];
      save.manifest.tensors.at(piece.tensor)
          .pieces.push_back({static_cast<int64_t>(part), piece.dataset, report.positions.at(piece.index),
                             piece.box, report.checksums.at(piece.index)});
    }
  }
}

// Size and checksum of all parts, to who publishes.
void CheckpointWriter::gather_parts() {
  Save& save = *save_;
  const bool first = save.writer && save.writer->first();
  const std::vector<std::string> gathered = world_.all_gather_host(
      first ? fmt::format("{} {}", to_hex(save.sealed.checksum), save.sealed.bytes) : std::string());
  world_.broadcast_host(save.state, 0);
  if (!leads_) return;
  save.manifest.step = save.step;
  save.manifest.state = save.state;
  for (size_t part = 0; part < save.plan.parts.size(); ++part) {
    const std::string& text = gathered[static_cast<size_t>(save.plan.parts[part].ranks.front())];
    save.manifest.parts.push_back({part_name(static_cast<int64_t>(part)),
                                   std::stoll(text.substr(kDigestHexLength)),
                                   digest_from_hex(std::string_view(text).substr(0, kDigestHexLength))});
  }
}

SaveResult save_checkpoint(const std::filesystem::path& directory, Steps step, const TensorMap& tensors,
                           std::string_view state, Communicator& world, Backend& backend, Log& log,
                           SaveOptions options) {
  options.async = false;
  CheckpointWriter writer(directory, options, world, backend, log);
  writer.start(step, tensors, state);
  return writer.wait().value();
}

}  // namespace tessera
