#!/usr/bin/env bash
# Configures and builds one preset. Usage: scripts/build.sh [release|debug|asan|tsan] [target...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-release}"
shift || true
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >/dev/null
cmake --build "build/$preset" ${*:+--target "$@"}
