// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_ranks.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/base/cores.h"
#include "framework/comm/in_process/thread_ranks.h"
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

void run_threads(const RunConfig& config, const RunRanksOptions& options, const RankMain& rank_main) {
  run_thread_ranks(options.ranks,
                   {.patience = {config.comm.timeout_s, options.hurried}, .nodes = options.nodes},
                   [&](InProcessWorld& world, int rank) {
                     const std::unique_ptr<Backend> backend = make_backend(config, options.ranks);
                     const std::unique_ptr<Communicator> communicator = world.attach(rank, *backend);
                     rank_main(*communicator, *backend);
                   });
}

void run_process(const RunConfig& config, const RunRanksOptions& options, const RankMain& rank_main) {
  const std::unique_ptr<Backend> backend =
      make_backend(config, options.launch.local_size.value_or(options.ranks));
  const std::unique_ptr<Communicator> world =
      make_mpi_world(*backend, {config.comm.timeout_s, options.hurried});
  try {
    CHECK_AS(ExitCode::Usage, world->size() == options.ranks,
             "the launcher started {} processes, but tp * sp * dp * pp is {}", world->size(), options.ranks);
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

int most_thread_ranks() {
  return kThreadRanksPerCore * available_cores();
}

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
  const int limit = most_thread_ranks();
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

TrainOutcome run_training(const TrainRequest& request, RunRanksOptions options) {
  StopFlag stop;
  options.hurried = [&stop] { return stop.unanswered(); };
  install_stop_signals(request.config.fault_tolerance.signals, stop);
  std::atomic<TrainOutcome> outcome{TrainOutcome::Finished};
  run_ranks(request.config, options, [&](Communicator& world, Backend& backend) {
    Log log(world.rank() == 0 ? LogLevel::Info : LogLevel::Warning);
    outcome = train(request, {.world = world, .backend = backend, .log = log, .stop = stop});
  });
  return outcome;
}

}  // namespace tessera
