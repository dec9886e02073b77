#!/usr/bin/env bash
# Builds and runs every test; each stage ends with ctest's closing line. Usage: scripts/test.sh [STAGE...]
#   release    all tests on the optimised build
#   sanitize   fast tests and whole steps under AddressSanitizer and UndefinedBehaviorSanitizer, and the fuzzers
#   threads    a build without MPI under ThreadSanitizer: communicators, whole steps and runs on thread ranks
#   install    `cmake --install` gives a tree that trains from elsewhere
# Without arguments all of them, in this order. While working: ctest --test-dir build/release -L fast
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
jobs="$(nproc)"
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(release sanitize threads install)

configure() { # preset
  local first=()
  # A tree built from nothing merges sources, which takes a third of the time; one that is there stays as it is.
  [ -f "build/$1/CMakeCache.txt" ] || first=(-DCMAKE_UNITY_BUILD=ON)
  cmake --preset "$1" "${first[@]}" >"build/$1.configure.log" 2>&1 || { cat "build/$1.configure.log" >&2; exit 1; }
  grep -i '^-- .*left out' "build/$1.configure.log" || true
}
run_tests() { ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$jobs" "${@:2}"; }

# Layouts that together use every axis, mode and ZeRO stage; the release build runs them all.
some_layouts='Trains?TheSameModel/(tp3_sequence_gpt|beside_tp_and_dp_tied|zero_2_tied_v|zero_3_tied_v|zb_h2_3'
some_layouts+='|dualpipe_v_beside_tp|ring_beside_tp|ulysses_beside_tp_selective|allgather_beside_tp_whole_rows|one_in_shards_of_two)( |$)'

mkdir -p build
for stage in "${stages[@]}"; do
  printf '\n== %s\n' "$stage"
  case "$stage" in
    release)
      configure release
      cmake --build build/release
      run_tests release
      ;;
    sanitize)
      configure asan
      cmake --build build/asan
      # What finds wrong formulas, not wrong memory, and takes minutes here: finite differences of whole models, models
      # of a trillion parameters, all orders of a schedule, ten thousand schedules.
      run_tests asan -L fast -E 'GradientsEqualDifferences|EveryCellOfThePapersTable|^LeastTime\.|TenThousandRandomSchedules'
      run_tests asan -R '_fuzz$'
      run_tests asan -R "^(Parity|Precision|Clipping|EmptyBatches|ProtectedBackend|Offload)\.|$some_layouts"
      ;;
    threads)
      configure tsan
      cmake --build build/tsan --target unit_comm unit_backends_cpu parity train tessera
      run_tests tsan -R "^(Parity|Precision|EmptyBatches|Offload|InProcess|Communicator|ThreadRanks|Parallel)|$some_layouts|^train_(ExitCodes|Resume)$"
      ;;
    install)
      cmake --build build/release --target train tessera
      ctest --test-dir build/release --output-on-failure --no-tests=error -R '^install_tree$'
      ;;
    *) echo "error: '$stage' is not a stage; see the head of scripts/test.sh" >&2; exit 2 ;;
  esac
done
