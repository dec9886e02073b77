// SPDX-License-Identifier: Apache-2.0
// Linked instead of the MPI transport when the build option TESSERA_MPI is OFF.
#include "framework/base/check.h"
#include "framework/comm/mpi/mpi_communicator.h"

namespace tessera {

bool mpi_available() {
  return false;
}

std::unique_ptr<Communicator> make_mpi_world(Backend&, Patience) {
  fail(
      ExitCode::Usage,
      "this program was built without MPI, so its ranks cannot be processes: configure with the CMake option "
      "-DTESSERA_MPI=ON, or run all ranks as threads of one process (start it without a launcher)");
}

}  // namespace tessera
