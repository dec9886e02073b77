// SPDX-License-Identifier: Apache-2.0
#include "framework/train/resume.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "framework/checkpoint/agree.h"
#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/train/logical.h"
#include "framework/train/run_folder.h"

namespace tessera {

namespace fs = std::filesystem;

std::string to_json(const TrainState& state, int64_t seed) {
  nlohmann::ordered_json json;
  json["step"] = state.step.value;
  json["seen_tokens"] = state.seen_tokens.value;
  json["updates"] = state.updates;
  json["skipped_empty_batches"] = state.skipped_empty_batches;
  json["seed"] = seed;
  json["loss_scale"] = {{"scale", state.loss_scale.scale},
                        {"good_steps", state.loss_scale.good_steps},
                        {"skipped_in_row", state.loss_scale.skipped_in_row},
                        {"skipped_total", state.loss_scale.skipped_total}};
  json["data_cursor"] = state.data_cursor;
  json["config"] = state.config;
  return json.dump();
}

TrainState state_from_json(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    const auto& scale = json.at("loss_scale");
    return {.step = Steps(json.at("step").get<int64_t>()),
            .seen_tokens = Tokens(json.at("seen_tokens").get<int64_t>()),
            .updates = json.at("updates").get<int64_t>(),
            .skipped_empty_batches = json.at("skipped_empty_batches").get<int64_t>(),
            .loss_scale = {.scale = scale.at("scale").get<double>(),
                           .good_steps = scale.at("good_steps").get<int64_t>(),
                           .skipped_in_row = scale.at("skipped_in_row").get<int64_t>(),
                           .skipped_total = scale.at("skipped_total").get<int64_t>()},
            .data_cursor = json.at("data_cursor").get<std::string>(),
            .config = json.at("config").get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::Data, "the checkpoint's state is not that of a training run: {}", error.what());
  }
}

namespace {

// The folder to look into, empty for none: decided on rank 0, where the file system is looked at once.
std::string folder_to_search(const TrainRequest& request, Communicator& world) {
  std::string folder;
  agree(world, [&] {
    if (world.rank() != 0) return;
    const ResumePolicy& policy = request.resume;
    const fs::path own = request.config.checkpoint.dir;
    if (policy.kind == ResumePolicy::Kind::None) {
      CHECK_AS(ExitCode::Usage, !RunFolder(request.config.run.output_dir).holds_a_run(),
               "{} holds a run already: --resume none would mix two runs; choose another run.output_dir or "
               "--resume auto",
               request.config.run.output_dir);
    } else if (policy.kind == ResumePolicy::Kind::Folder) {
      CHECK_AS(ExitCode::Data, fs::is_directory(policy.folder), "--resume {}: there is no such folder",
               policy.folder.string());
      folder =
          fs::is_directory(policy.folder / "checkpoints") ? policy.folder / "checkpoints" : policy.folder;
    } else {
      folder = own;
    }
  });
  world.broadcast_host(folder, 0);
  // The run's own checkpoints may have another path on each node (`checkpoint.dir = "${TMPDIR}/..."`).
  const bool own = !folder.empty() && request.resume.kind != ResumePolicy::Kind::Folder;
  return own ? request.config.checkpoint.dir : folder;
}

bool is_one_checkpoint(const fs::path& folder, Communicator& world) {
  std::string answer = world.rank() == 0 && fs::exists(folder / "manifest.json") ? "yes" : "no";
  world.broadcast_host(answer, 0);
  return answer == "yes";
}

}  // namespace

std::optional<Checkpoint> find_checkpoint(const TrainRequest& request, Communicator& world, Log& log) {
  const fs::path folder = folder_to_search(request, world);
  if (folder.empty()) return std::nullopt;
  const OpenOptions options{.shared_fs = request.config.checkpoint.shared_fs};
  std::optional<Checkpoint> found;
  if (is_one_checkpoint(folder, world))
    found = open_checkpoint(folder, world, log, options);
  else
    found = find_newest(folder, world, log, options);
  const bool needed = request.resume.kind != ResumePolicy::Kind::Auto || request.eval_only;
  CHECK_AS(ExitCode::Data, found || !needed, "there is no checkpoint under {}", folder.string());
  return found;
}

namespace {

// Keys that time, memory and reports depend on, and results do not: they may change between two starts.
constexpr std::array<std::string_view, 9> kFreeSections{"parallel.",
                                                        "comm.",
                                                        "precision.",
                                                        "lr_schedule.",
                                                        "logging.",
                                                        "checkpoint.",
                                                        "activation_checkpointing.",
                                                        "debug.",
                                                        "fault_tolerance."};
constexpr std::array<std::string_view, 9> kFreeKeys{"run.name",
                                                    "run.output_dir",
                                                    "run.device",
                                                    "run.threads_per_rank",
                                                    "run.peak_flops",
                                                    "train.micro_batch_size",
                                                    "train.gradient_accumulation_steps",
                                                    "train.eval_interval",
                                                    "train.eval_steps"};

bool may_change(const ConfigDifference& difference) {
  const auto starts = [&](std::string_view section) { return difference.key.starts_with(section); };
  if (std::any_of(kFreeSections.begin(), kFreeSections.end(), starts)) return true;
  if (std::find(kFreeKeys.begin(), kFreeKeys.end(), difference.key) != kFreeKeys.end()) return true;
  // Longer training is going on; shorter training would end in another place than was asked for.
  return difference.key == "train.steps" && std::stoll(difference.after) > std::stoll(difference.before);
}

// Whether leave for `allowed` is leave for `key`: itself, or what stands in it (data.sources[1].weight in
// data.sources).
bool covers(std::string_view allowed, std::string_view key) {
  if (!key.starts_with(allowed)) return false;
  return key.size() == allowed.size() || key[allowed.size()] == '.' || key[allowed.size()] == '[';
}

}  // namespace

void check_changes(const std::string& saved_config, const TrainRequest& request, Log& log) {
  RunConfig before =
      parse_config(saved_config, {.file = fs::path(request.config.run.output_dir) / "config.toml",
                                  .overrides = {},
                                  .environment = {},
                                  .saved = true})
          .config;
  std::string refused;
  for (const ConfigDifference& difference : differences(before, request.config)) {
    const std::string line = fmt::format("{}: {} -> {}", difference.key, difference.before, difference.after);
    const bool allowed = std::any_of(request.allow_change.begin(), request.allow_change.end(),
                                     [&](const std::string& allow) { return covers(allow, difference.key); });
    if (may_change(difference) || allowed)
      log.info("changed since the checkpoint: " + line);
    else
      refused += fmt::format("\n  {}   (--allow-change {})", line, difference.key);
  }
  CHECK_AS(ExitCode::Usage, refused.empty(),
           "the config differs from the checkpoint's run where it may not:{}", refused);
}

TensorMap tensors_of(Rank& rank, TensorsFor purpose) {
  TensorMap map;
  const auto add = [&](std::string_view slot, const ParameterShard& range, const Tensor& data) {
    const ParameterSpec& spec = range.parameter->spec;
    const std::string name = fmt::format("{}/{}", slot, spec.name);
    GlobalTensor& tensor = map[name];
    tensor = {.dtype = data.dtype(), .shape = spec.shape, .pieces = {}};
    if (purpose == TensorsFor::Loading) {
      tensor.pieces =
          pieces_of_flat_range(range.parameter->box, range.begin, range.begin + data.elements(), data, false);
      return;
    }
    // The ranks that hold copies of a range share the work of writing what they answer for.
    const std::vector<int> holders = rank.holders(spec);
    const auto replica = std::find(holders.begin(), holders.end(), rank.number()) - holders.begin();
    const Range own = own_range(rank, range);
    tensor.pieces =
        pieces_of_replica(name, range.parameter->box, own, data.narrow(own.begin - range.begin, own.size()),
                          static_cast<int>(holders.size()), static_cast<int>(replica));
  };
  for (const ParameterShard& range : rank.buffers().ranges()) {
    add("parameters", range, range.value);
    if (range.master.dtype() != range.value.dtype()) add("masters", range, range.master);
  }
  rank.optimizer().visit_state([&](const ParameterShard& shard, std::string_view slot, const Tensor& state) {
    add(slot, shard, state);
  });
  return map;
}

}  // namespace tessera
