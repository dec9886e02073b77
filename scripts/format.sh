#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every source with clang-format 14. --check changes nothing, names the files that differ and exits 1.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in clang-format-14 clang-format; do
  if command -v "$tool" >/dev/null && "$tool" --version | grep -q 'version 14\.'; then
    formatter=$tool
    break
  fi
done
if [[ -z "${formatter:-}" ]]; then
  echo "error: needs clang-format 14 (Debian 12: clang-format, Ubuntu 24.04: clang-format-14)" >&2
  exit 2
fi

sources() { find framework models tools tests -name '*.h' -print0 -o -name '*.cpp' -print0; }
case "${1:-}" in
  --check) sources | xargs -0 "$formatter" --dry-run --Werror --ferror-limit=1 ;;
  "") sources | xargs -0 "$formatter" -i ;;
  *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
