#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that layouts train the same model: a table of the layouts of covering_layouts.py beside one rank, from
`tessera compare --json`. Exit code 1 when a figure is beyond its bound or a layout was not compared.

Usage: verify_layouts.py TESSERA [--subset]     --subset: the first layouts, which hold most pairs, and two SGD steps
                                                instead of 20

Models of both families with 7 layers, a vocabulary of 1003, 12 query and 2 key heads, sequences of 37 tokens,
documents of 1 to 74 tokens, dropout, and a global batch of 11 samples.
"""
import itertools
import json
import subprocess
import sys
from pathlib import Path

import covering_layouts

SOURCE = Path(__file__).resolve().parent.parent
COMMON = ["model.num_hidden_layers=7", "model.vocab_size=1003", "model.num_attention_heads=12",
          "model.num_key_value_heads=2", "train.seq_length=37", "model.hidden_dropout=0.1",
          "model.attention_dropout=0.1", f"train.global_batch_size={covering_layouts.GLOBAL_BATCH}",
          f"train.micro_batch_size={covering_layouts.GLOBAL_BATCH}"]
MODEL = {"gpt": ["model.architecture=gpt", "model.hidden_size=60", "model.max_position_embeddings=37"],
         "llama": ["model.hidden_size=72", "model.qk_norm=true"]}
SGD = ["optimizer.type=sgd", "optimizer.momentum=0.9", "optimizer.lr=0.1", "lr_schedule.warmup_steps=0"]
# Bounds of fp32; those of bf16 depend on the number of layers and come with the report.
GRADIENT, LOSS, NORM = 1e-5, 1e-5, 1e-6
SUBSET = 12


def compare(program, family, keys, steps, layouts):
    """The report of each layout, in order."""
    command = [program, "compare", "--config", SOURCE / "tests/fixtures/parity.toml", "--synthetic", "--json",
               "--threads-anyway", "--steps", str(steps), "--layout", "dp=1"]
    for key in [*COMMON, *MODEL[family], *keys]:
        command += ["--set", key]
    for layout in layouts:
        command += ["--layout", layout]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode not in (0, 4):
        sys.exit(f"error: {' '.join(map(str, command))} ended with {result.returncode}: {result.stderr}")
    report = json.loads(result.stdout)["layouts"]
    assert [entry["layout"] for entry in report] == layouts, "a layout was not compared"
    return report


def within(value, bound):
    return value is not None and value <= bound


def judge(adamw, sgd, bf16):
    """What is beyond its bound in the reports of one layout."""
    wrong = []
    for name, report in (("adamw", adamw), ("sgd", sgd), ("bf16", bf16)):
        if not report["agrees"]:
            first = report["fault"]["first"] or {"slot": "loss or norm", "tensor": "all"}
            wrong.append(f"{name}: step {report['fault']['step']}, {first['slot']} of {first['tensor']}: "
                         f"{first.get('pattern', first.get('disagreement', ''))}")
        if not report["initial_bitwise"]:
            wrong.append(f"{name}: initial weights")
    for name, report in (("adamw", adamw), ("sgd", sgd)):
        for what, bound in (("gradient", GRADIENT), ("loss", LOSS), ("norm", NORM)):
            if not within(report[what + "_difference"], bound):
                wrong.append(f"{name}: {what} {report[what + '_difference']} > {bound}")
    if not within(bf16["gradient_difference"], bf16["by_step"][0]["gradient_bound"]):
        wrong.append("bf16: gradient")
    return wrong


def main():
    program, subset = Path(sys.argv[1]), "--subset" in sys.argv
    choices = covering_layouts.covering()
    choices = choices[:SUBSET] if subset else choices
    names = [covering_layouts.layout(choice) for choice in choices]
    width = max(map(len, names))
    print(f"{'model':<6} {'packing':<9} {'layout':<{width}}  gradients  losses   norm     sgd losses  bf16 grad.  "
          f"bf16 losses")
    beyond = 0
    # Layouts of one model and one order of data share a run on one rank.
    for family, packing in itertools.product(covering_layouts.FACTORS["family"], covering_layouts.FACTORS["packing"]):
        layouts = [name for name, choice in zip(names, choices)
                   if (choice["family"], choice["packing"]) == (family, packing)]
        if not layouts:
            continue
        data = [f"data.packing={packing}"]
        adamw = compare(program, family, data, 5, layouts)
        sgd = compare(program, family, data + SGD, 2 if subset else 20, layouts)
        bf16 = compare(program, family, data + ["precision.compute=bf16"], 1 if subset else 5, layouts)
        for layout, *reports in zip(layouts, adamw, sgd, bf16):
            a, s, b = reports
            cells = [a["gradient_difference"], a["loss_difference"], a["norm_difference"], s["loss_difference"],
                     b["gradient_difference"], b["loss_difference"]]
            cells = [f"{cell:.1e}" if cell is not None else "nan" for cell in cells]
            print(f"{family:<6} {packing:<9} {layout:<{width}}  {cells[0]:<9}  {cells[1]:<7}  {cells[2]:<7}  {cells[3]:<10}  "
                  f"{cells[4]:<10}  {cells[5]}")
            wrong = judge(*reports)
            beyond += bool(wrong)
            for text in wrong:
                print(f"       BEYOND ITS BOUND: {text}")
    print(f"\n{len(names)} layouts beside one rank: {len(names) - beyond} agree, {beyond} differ. Bounds: gradients of "
          f"step 1 {GRADIENT}, losses of all steps {LOSS}, norm {NORM}; bf16 as docs/parallelism.md derives")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
