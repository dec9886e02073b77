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
cmake --preset release -DTESSERA_TESTS=OFF -DCMAKE_UNITY_BUILD=ON -B build/quickstart >/dev/null
cmake --build build/quickstart
bin=build/quickstart/bin

say "tokenize the sample corpus"
mkdir -p "$output"
"$bin/tessera" tokenize --tokenizer bytes --input data/corpus.txt --output "$output/corpus"

say "train (about three minutes on two cores; Ctrl-C saves and stops, the same command goes on)"
"$bin/train" --config configs/gpt/quickstart.toml

say "the loss (nats a byte; the mean of ten steps)"
sed 's/.*"step":\([0-9]*\),"loss":\([0-9.]*\).*/\1 \2/' "$output/run/metrics.jsonl" | awk '
  { step[NR] = $1; loss[NR] = $2 }
  function mean(last,   i, sum) { for (i = last - 9; i <= last; ++i) sum += loss[i]; return sum / 10 }
  END {
    for (part = 0; part <= 4; ++part) {
      last = part ? int(NR * part / 4) : 10
      printf "step %5d  %.3f\n", step[last], mean(last)
    }
    if (mean(NR) > mean(10) / 2) { print "error: the loss did not fall to half of where it began" > "/dev/stderr"; exit 1 }
  }'

say "text from the checkpoint"
"$bin/tessera" generate --checkpoint "$output/run" --prompt "It was " --max-tokens 300 --temperature 0.8 --seed 1
