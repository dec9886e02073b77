// SPDX-License-Identifier: Apache-2.0
// The folders under checkpoints/ and what their names promise. "step_00000100" is a checkpoint that was
// complete and verified when it got that name, in one rename. Names that begin with a dot are work in
// progress or rubbish: nobody loads them, and the next start removes them.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/quantity.h"

namespace tessera {

std::string step_folder_name(Steps step);                         // "step_00000100"
std::optional<Steps> step_of_folder_name(std::string_view name);  // nothing for any other name

// The steps that have a published folder, in rising order; empty when the directory does not exist.
std::vector<Steps> published_steps(const std::filesystem::path& directory);

// A name for the folder in which this step is being written: ".step_00000100.tmp-1f0c9b2a".
std::string working_folder_name(Steps step);

// The stem of files that are there for a moment only: ".probe-1f0c9b2a".
std::string probe_name();

using Notify = std::function<void(const std::string&)>;

// Gives the working folder its final name in one step, replacing a checkpoint of the same step safely: at
// every instant one complete folder of that step can be found. The parent is synced before this returns.
void publish_folder(const std::filesystem::path& working, const std::filesystem::path& published);

// Gives a checkpoint its name back when a run was killed between the two renames that replace it. Where the
// directory cannot be written this only reports.
void recover_replaced(const std::filesystem::path& directory, const Notify& notify);

// The same, and removes what else killed runs left behind. Never throws; says what it did.
void clean_leftovers(const std::filesystem::path& directory, const Notify& notify);

// Removes published folders older than `newest` that neither rule keeps: the last `keep_last` up to and with
// `newest`, and those whose step is a multiple of `keep_every`; 0 turns a rule off, and when keep_last is off
// nothing is removed. `newest` itself and later steps are never touched. Reports instead of throwing.
void prune(const std::filesystem::path& directory, Steps newest, int64_t keep_last, int64_t keep_every,
           const Notify& notify);

// Takes checkpoints of later steps out of the way of a run that goes on from `step`, so that a later restart
// does not pick them: they are renamed to "aside_step_00000200-<id>" and kept. Returns the new paths.
std::vector<std::filesystem::path> set_aside_later(const std::filesystem::path& directory, Steps step);

// Removes a folder and what is in it. Never throws; false when something was left.
bool remove_folder(const std::filesystem::path& folder) noexcept;

}  // namespace tessera
