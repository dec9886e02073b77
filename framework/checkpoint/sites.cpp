// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/sites.h"

#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "framework/base/check.h"
#include "framework/checkpoint/agree.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/folders.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A file that tells the others who was here; gone when this is, also when it could only half be written.
class Probe {
 public:
  explicit Probe(fs::path path) : path_(std::move(path)) {}
  void write() const { write_text(path_, ""); }
  ~Probe() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

 private:
  fs::path path_;
};

fs::path probe_path(const fs::path& directory, const std::string& id, int rank) {
  return directory / (id + "-" + std::to_string(rank));
}

void create(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  CHECK_AS(ExitCode::Data, !error, "cannot create {}: {}", directory.string(), error.message());
}

// The lowest rank whose probe is there, of those that wrote one.
int lowest_seen(const fs::path& directory, const std::string& id, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (is_there(probe_path(directory, id, rank))) return rank;
  return -1;
}

// Network file systems may show a new file late.
int seen_in_time(const fs::path& directory, const std::string& id) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  for (;;) {
    const int seen = lowest_seen(directory, id, 1);
    if (seen >= 0 || std::chrono::steady_clock::now() >= deadline) return seen;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace

int Sites::count() const {
  return static_cast<int>(std::set<int>(leader.begin(), leader.end()).size());
}

std::vector<int> Sites::ranks_of(int leading_rank) const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < leader.size(); ++rank)
    if (leader[rank] == leading_rank) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

Sites find_sites(const fs::path& directory, bool shared, Communicator& world) {
  std::string id = probe_name();
  world.broadcast_host(id, 0);
  std::unique_ptr<Probe> probe;
  agree(world, [&] {
    if (shared && world.rank() != 0) return;
    create(directory);
    probe = std::make_unique<Probe>(probe_path(directory, id, world.rank()));
    probe->write();
  });
  int seen = -1;
  agree(world, [&] {
    seen = shared ? seen_in_time(directory, id) : lowest_seen(directory, id, world.size());
    CHECK_AS(ExitCode::Data, seen >= 0,
             "this rank does not see in {} what rank 0 writes there: checkpoints need a file system that all "
             "ranks share, or checkpoint.shared_fs = false",
             directory.string());
  });
  Sites sites;
  for (const std::string& text : world.all_gather_host(std::to_string(seen)))
    sites.leader.push_back(std::stoi(text));
  // All have looked, or the gathering would not have ended. None is left when this returns.
  probe.reset();
  world.barrier();
  return sites;
}

}  // namespace tessera
