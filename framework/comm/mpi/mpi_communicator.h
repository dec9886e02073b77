// SPDX-License-Identifier: Apache-2.0
// Ranks as MPI processes. One progress thread per process makes every MPI call. Built without MPI
// (TESSERA_MPI=OFF) the same functions are linked from absent.cpp, and making a world is an error.
#pragma once
#include <memory>

#include "framework/comm/communicator.h"
#include "framework/comm/patience.h"
#include "framework/ops/backend.h"

namespace tessera {

bool mpi_available();  // was this program built with MPI

// The communicator of all launched processes. Once per process, which must have been started by a launcher
// (mpirun, srun). `backend` does the sums and copies and must outlive every communicator made from this one.
// A wait that lasts longer than `patience` allows throws and names what is missing. abort() ends the process,
// and through the launcher all others, with exit code 5. When a rank fails, call abort(cause) before the
// world is destroyed: its destructor meets the other ranks, unless the stack is being unwound or operations
// are outstanding; then it ends the process instead.
std::unique_ptr<Communicator> make_mpi_world(Backend& backend, Patience patience);

}  // namespace tessera
