#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of `train --print params` against the committed ones: names, shapes, types, decay, how each tensor is cut
and which ranks answer for it. A parameter's name or cut changes only on purpose.

usage: parameter_tables.py TRAIN SOURCE_FOLDER
TESSERA_UPDATE_GOLDEN=1 in the environment writes tests/fixtures/parameters anew.
"""
import difflib
import math
import os
import subprocess
import sys
from pathlib import Path

# A file a config, a section a layout. Blocks are alike, so few stand for all.
LAYOUTS = ["", "parallel.dp=2", "parallel.dp=3", "parallel.dp=2 parallel.zero_stage=1", "parallel.tp=2",
           "parallel.tp=2 parallel.dp=2 parallel.sequence_parallel=false"]
ONE_STAGE = "parallel.pp=1 parallel.schedule=1f1b parallel.virtual_stages=1"
TABLES = {
    "gpt": ("configs/gpt/tiny.toml", "model.num_hidden_layers=1", LAYOUTS),
    "llama": ("configs/llama/tiny.toml", "model.num_hidden_layers=1 model.qk_norm=true", LAYOUTS),
    "gpt_bf16": ("configs/gpt/tiny.toml", "model.num_hidden_layers=1 precision.compute=bf16 "
                 "optimizer.groups=[{match=\"*.bias\",weight_decay=0.1}]", [""]),
    "gpt175b": ("configs/gpt/gpt175b.toml", "model.num_hidden_layers=1",
                ["parallel.tp=1 parallel.sequence_parallel=false " + ONE_STAGE, "parallel.tp=8 parallel.dp=128 " + ONE_STAGE]),
    "llama3_8b": ("configs/llama/llama3_8b.toml", "model.num_hidden_layers=1", ["", "parallel.tp=8"]),
}


def ranks_of(layout):
    """The product of the mesh sizes that it names."""
    sizes = dict(word.split("=") for word in layout.split())
    return math.prod(int(sizes.get(f"parallel.{axis}", 1)) for axis in ("tp", "sp", "dp", "pp"))


def table(train, config, keys, layout):
    settings = [word for key in [*keys.split(" "), *layout.split()] for word in ("--set", key)]
    result = subprocess.run([train, "--config", config, "--print", "params", "--ranks", str(ranks_of(layout)), *settings],
                            capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{config} {layout}: exit {result.returncode}\n{result.stderr}")
    return f"## {keys} {layout}".rstrip() + "\n" + result.stdout


def main():
    train, source = sys.argv[1], Path(sys.argv[2])
    folder = source / "tests/fixtures/parameters"
    differ = False
    for name, (config, keys, layouts) in TABLES.items():
        text = "\n".join(table(train, source / config, keys, layout) for layout in layouts)
        path = folder / f"{name}.txt"
        if "TESSERA_UPDATE_GOLDEN" in os.environ:
            path.write_text(text)
        golden = path.read_text() if path.exists() else ""
        differ |= golden != text
        sys.stdout.writelines(difflib.unified_diff(golden.splitlines(True), text.splitlines(True), str(path), "now"))
    unknown = {path.stem for path in folder.iterdir()} - set(TABLES)
    if unknown:
        print(f"{folder} holds files of no table: {sorted(unknown)}")
    if differ:
        print("When this is meant, run the test again with TESSERA_UPDATE_GOLDEN=1 and commit the files.")
    return 1 if differ or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
