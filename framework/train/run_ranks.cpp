// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_ranks.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/comm/in_process/in_process.h"
#include "framework/comm/mpi/mpi_communicator.h"

namespace tessera {
namespace {

constexpr int kThreadRanksPerCore = 4;

std::unique_ptr<Backend> make_backend(const RunConfig& config, int ranks_on_node) {
  std::string warning;
  const int threads = threads_of_rank(config.run.threads_per_rank, ranks_on_node, warning);
  if (!warning.empty()) fmt::print(stderr, "warning: {}\n", warning);
  return make_cpu_backend(threads, {.poison = config.debug.poison});
}

std::string cause_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an unknown exception";
  }
}

// Joins thread ranks, keeps the first failure, and gives up on ranks that do not end after it.
class ThreadRanks {
 public:
  ThreadRanks(int size, double timeout_seconds, double grace_seconds)
      : world_(size, timeout_seconds), grace_(grace_seconds), running_(size) {}

  void run(int rank, const std::function<void(InProcessWorld&)>& body) {
    std::exception_ptr error;
    try {
      body(world_);
    } catch (...) {
      error = std::current_exception();
      world_.abort(rank, cause_of(error));
    }
    const std::lock_guard lock(mutex_);
    if (error && !first_error_) first_error_ = error;
    --running_;
    changed_.notify_all();
  }

  // Returns when all ranks have ended, or never.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0 || first_error_; });
    if (changed_.wait_for(lock, grace_, [&] { return running_ == 0; })) return;
    fmt::print(stderr, "error: {} ({} ranks did not end within {:g} s after it)\n", cause_of(first_error_),
               running_, grace_.count());
    std::fflush(nullptr);
    ::_exit(static_cast<int>(ExitCode::Communication));
  }

  void rethrow() const {
    if (first_error_) std::rethrow_exception(first_error_);
  }

 private:
  InProcessWorld world_;
  std::chrono::duration<double> grace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_;
  std::exception_ptr first_error_;
};

void run_threads(const RunConfig& config, const RunRanksOptions& options, const RankMain& rank_main) {
  ThreadRanks ranks(options.ranks, config.comm.timeout_s, options.grace_seconds);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < options.ranks; ++rank)
    threads.emplace_back([&, rank] {
      ranks.run(rank, [&](InProcessWorld& world) {
        const std::unique_ptr<Backend> backend = make_backend(config, options.ranks);
        const std::unique_ptr<Communicator> communicator = world.attach(rank, *backend);
        rank_main(*communicator, *backend);
      });
    });
  ranks.wait();
  threads.clear();
  ranks.rethrow();
}

void run_process(const RunConfig& config, const RunRanksOptions& options, const RankMain& rank_main) {
  const std::unique_ptr<Backend> backend =
      make_backend(config, options.launch.local_size.value_or(options.ranks));
  const std::unique_ptr<Communicator> world = make_mpi_world(*backend, config.comm.timeout_s);
  CHECK_AS(ExitCode::Usage, world->size() == options.ranks,
           "the launcher started {} processes, but tp * sp * dp * pp is {}", world->size(), options.ranks);
  try {
    rank_main(*world, *backend);
  } catch (const std::exception& exception) {
    const auto* error = dynamic_cast<const Error*>(&exception);
    if (!error || error->code() == ExitCode::Communication) world->abort(exception.what());
    // Leaving at once, without MPI_Finalize, makes the launcher end the other ranks and report this code.
    fmt::print(stderr, "error: rank {}: {}\n", world->rank(), exception.what());
    std::fflush(nullptr);
    ::_exit(static_cast<int>(error ? error->code() : ExitCode::Communication));
  }
}

}  // namespace

void check_launch(const RunRanksOptions& options) {
  const LaunchInfo& launch = options.launch;
  if (launch.launched) {
    CHECK_AS(ExitCode::Usage, mpi_available() || launch.size.value_or(1) == 1,
             "a launcher started {} processes, but this build has no MPI: configure with -DTESSERA_MPI=ON, "
             "or start "
             "the program without a launcher to run its ranks as threads",
             launch.size.value_or(0));
    CHECK_AS(ExitCode::Usage, !launch.size || *launch.size == options.ranks,
             "the launcher started {} processes, but the product of the mesh sizes is {}", *launch.size,
             options.ranks);
    return;
  }
  const int limit = kThreadRanksPerCore * available_cores();
  CHECK_AS(
      ExitCode::Usage, options.ranks <= limit || options.threads_anyway,
      "{} ranks as threads of one process on {} cores: more than {} need --threads-anyway, or start them as "
      "processes (mpirun -n {})",
      options.ranks, available_cores(), limit, options.ranks);
}

void run_ranks(const RunConfig& config, const RunRanksOptions& options, const RankMain& rank_main) {
  check_launch(options);
  if (options.launch.launched && mpi_available())
    run_process(config, options, rank_main);
  else
    run_threads(config, options, rank_main);
}

TrainOutcome run_training(const TrainRequest& request, const RunRanksOptions& options) {
  StopFlag stop;
  install_stop_signals(request.config.fault_tolerance.signals, stop);
  std::atomic<TrainOutcome> outcome{TrainOutcome::Finished};
  run_ranks(request.config, options, [&](Communicator& world, Backend& backend) {
    Log log(world.rank() == 0 ? LogLevel::Info : LogLevel::Warning);
    outcome = train(request, {.world = world, .backend = backend, .log = log, .stop = stop});
  });
  return outcome;
}

}  // namespace tessera
