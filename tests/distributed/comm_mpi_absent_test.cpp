// SPDX-License-Identifier: Apache-2.0
// Part of the tests of builds without MPI.
#include <gtest/gtest.h>

#include <string>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/base/check.h"
#include "framework/comm/mpi/mpi_communicator.h"

namespace tessera::test {
namespace {

TEST(AbsentMpi, SaysWhichOptionIsOff) {
  EXPECT_FALSE(mpi_available());
  const auto backend = make_cpu_backend(1);
  try {
    (void)make_mpi_world(*backend, 60);
    FAIL() << "a world without MPI";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    EXPECT_NE(std::string(error.what()).find("TESSERA_MPI"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::test
