#!/usr/bin/env bash
# Installs the system packages of scripts/packages.txt, or, when it may not, names the missing ones and the
# line that installs them (exit 2).
# Usage: scripts/setup.sh [--no-mpi] [--no-tests]
set -euo pipefail
cd "$(dirname "$0")/.."

skip=()
for argument in "$@"; do
  case "$argument" in
    --no-mpi) skip+=(mpi) ;;
    --no-tests) skip+=(test) ;;
    *) echo "usage: scripts/setup.sh [--no-mpi] [--no-tests]" >&2; exit 2 ;;
  esac
done

[ -r /etc/os-release ] && . /etc/os-release
column=1
case "${ID:-unknown}:${VERSION_ID:-}" in
  debian:12) ;;
  ubuntu:24.04) column=2 ;;
  *) echo "note: tried on Debian 12; package names of ${PRETTY_NAME:-this system} may differ" >&2 ;;
esac
command -v dpkg-query >/dev/null || { echo "error: no dpkg here: install the packages of scripts/packages.txt by hand" >&2; exit 2; }

missing=()
while read -r debian ubuntu; do
  case "$debian" in ''|'#'*) continue ;; esac
  kind=""
  if [[ "$debian" == *:* ]]; then kind="${debian%%:*}"; debian="${debian#*:}"; fi
  [[ -n "$kind" && " ${skip[*]:-} " == *" $kind "* ]] && continue
  name="$debian"
  [ "$column" = 2 ] && [ -n "${ubuntu:-}" ] && name="$ubuntu"
  dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
done < scripts/packages.txt

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
line="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" = 0 ]; then
  sudo=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  sudo="sudo"
else
  echo "error: these packages are missing: ${missing[*]}" >&2
  echo "install them with: sudo apt-get update && sudo $line" >&2
  exit 2
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo $line >/dev/null
