#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What reading costs: how long a large corpus takes to open, and reading a step as a share of the step itself.

Usage: bench_data.py TESSERA [--gigabytes 100] [--documents 50000000]

The corpus is a sparse .bin of zeros with a real index of equal documents, in a temporary folder; the disk needs 20
bytes a document. The step is that of configs/bench/gpt_14m.toml, a small model, whose steps are short for their
tokens: a larger one makes the share smaller.
"""
import argparse
import json
import struct
import subprocess
import tempfile
from pathlib import Path

CONFIG = Path(__file__).resolve().parent.parent / "configs/bench/gpt_14m.toml"
CHUNK = 1 << 20  # documents written at a time


def write_corpus(prefix, gigabytes, documents):
    """Megatron's format with uint16 ids; see docs/data.md."""
    length = gigabytes * 10**9 // 2 // documents
    with open(f"{prefix}.bin", "wb") as tokens:
        tokens.truncate(2 * length * documents)
    with open(f"{prefix}.idx", "wb") as index:
        index.write(struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, documents, documents + 1))
        for code, count, value in (("i", documents, lambda i: length), ("q", documents, lambda i: 2 * length * i),
                                   ("q", documents + 1, lambda i: i)):
            for begin in range(0, count, CHUNK):
                numbers = range(begin, min(begin + CHUNK, count))
                index.write(struct.pack(f"<{len(numbers)}{code}", *map(value, numbers)))


def bench(tessera, what, *keys, steps):
    command = [tessera, "bench", what, "--config", CONFIG, "--steps", str(steps), "--json"]
    for key in keys:
        command += ["--set", key]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("--gigabytes", type=int, default=100)
    parser.add_argument("--documents", type=int, default=50_000_000)
    arguments = parser.parse_args()
    step = bench(arguments.tessera, "step", steps=5)["step_seconds"]
    print(f"a step: {step * 1e3:.0f} ms")
    with tempfile.TemporaryDirectory(prefix="tessera_bench_data_") as folder:
        prefix = f"{folder}/sparse"
        write_corpus(prefix, arguments.gigabytes, arguments.documents)
        source = f'data.sources=[{{path="{prefix}"}}]'
        print(f"{arguments.gigabytes} GB in {arguments.documents} documents:")
        for packing in ("cut", "first_fit"):
            data = bench(arguments.tessera, "data", source, f"data.packing={packing}", steps=300)
            print(f"  {packing:<9} opened in {data['open_seconds'] * 1e3:.1f} ms, a step read in "
                  f"{data['read_seconds'] * 1e3:.3f} ms: {100 * data['read_seconds'] / step:.3f} % of it")
    data = bench(arguments.tessera, "data", steps=300)
    print(f"  the text of the config itself: a step read in {data['read_seconds'] * 1e3:.3f} ms, "
          f"{100 * data['read_seconds'] / step:.3f} %")


if __name__ == "__main__":
    main()
