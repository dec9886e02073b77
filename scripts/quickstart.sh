#!/usr/bin/env bash
# From nothing to generated text: installs what is missing, builds, tokenizes the sample corpus, trains a
# small GPT on it for about three minutes on two cores, shows that the loss went down, and generates text.
# Everything it makes lies in runs/quickstart and build/quickstart.
set -euo pipefail
cd "$(dirname "$0")/.."
output=runs/quickstart

say() { printf '\n== %s\n' "$*"; }

say "packages"
scripts/setup.sh --no-tests
say "build"
cmake --preset release -DTESSERA_TESTS=OFF -B build/quickstart >/dev/null
cmake --build build/quickstart
bin=build/quickstart/bin

say "tokenize the sample corpus"
mkdir -p "$output"
"$bin/tessera" tokenize --tokenizer bytes --input data/corpus.txt --output "$output/corpus"

say "train (about three minutes on two cores; Ctrl-C saves and stops, the same command goes on)"
"$bin/train" --config configs/gpt/quickstart.toml

say "the loss"
first=$(head -n 1 "$output/run/metrics.jsonl" | sed 's/.*"loss":\([0-9.]*\).*/\1/')
last=$(tail -n 1 "$output/run/metrics.jsonl" | sed 's/.*"loss":\([0-9.]*\).*/\1/')
echo "first step $first, last step $last (nats a byte)"
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < a) }' || { echo "error: the loss did not go down" >&2; exit 1; }

say "text from the checkpoint"
"$bin/tessera" generate --checkpoint "$output/run" --prompt "It was " --max-tokens 300 --temperature 0.8 --seed 1
