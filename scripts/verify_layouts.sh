#!/usr/bin/env bash
# One table of layouts beside one rank: gradients, losses, norms; AdamW, SGD and bf16. Builds what it needs.
# Usage: scripts/verify_layouts.sh [--subset]     exit code 1 when a figure is beyond its bound
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh release tessera >&2
exec python3 scripts/verify_layouts.py build/release/bin/tessera "$@"
