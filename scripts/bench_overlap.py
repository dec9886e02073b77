#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What share of the communication that can be hidden under computation is hidden, on two hosts joined by a link of a
set rate (shaped_hosts.py): ZeRO stages 0 to 3 at dp=2, and ring attention at sp=2.

Usage: bench_overlap.py TESSERA [--mbit 200] [--steps 5] [--rounds 3] [--only CASE,...] [--json]

For each case, over some rounds that alternate:
  compute    the step when links are not shaped
  step       the step over the shaped link
  link       bytes that a rank sends in a step, in frames of 1,514 bytes for 1,448 of data, / rate
  ideal      the shortest step with this order of work: the compute and the link each take one piece at a time, a sum
             starts when its gradients are final, a unit waits for its parameters (simulated below from `compute`
             and `link`); what is left of `link` in it cannot be hidden
  hidden     (compute + link - step) / (compute + link - ideal)
Times are the fastest of all timed steps: other work on the machine only adds to them.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
FRAME = 1514 / 1448  # TCP with time stamps over Ethernet
BLOCKS, HIDDEN, VOCAB = 8, 384, 1024
DENSE = [f"model.num_hidden_layers={BLOCKS}", f"model.hidden_size={HIDDEN}", f"model.vocab_size={VOCAB}",
         "model.max_position_embeddings=256", "train.seq_length=256", "train.micro_batch_size=3",
         "comm.bucket_size_mb=2"]
RING = ["model.num_hidden_layers=2", "model.hidden_size=64", "model.num_attention_heads=2", "model.num_key_value_heads=1", "model.vocab_size=259",
        "model.position=rope", "model.max_position_embeddings=16384", "train.seq_length=16384", "train.micro_batch_size=1",
        "comm.bucket_size_mb=2"]
CASES = {**{f"zero {stage}": [*DENSE, "parallel.dp=2", f"parallel.zero_stage={stage}"] for stage in range(4)},
         "ring": [*RING, "parallel.sp=2", "parallel.sp_mode=ring"]}


def bench(program, keys, mbit, steps):
    command = [sys.executable, SOURCE / "scripts/shaped_hosts.py", "--mbit", str(mbit), program, "bench", "step",
               "--json", "--warmup", "1", "--steps", str(steps), "--config", SOURCE / "configs/bench/gpt_14m.toml"]
    for key in ["run.threads_per_rank=1", *keys]:
        command += ["--set", key]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if result.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} ended with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


class Line:
    """A resource that does one thing at a time, in the order in which it is given them."""

    def __init__(self):
        self.free = 0.0

    def run(self, ready, seconds):
        self.free = max(self.free, ready) + seconds
        return self.free


def ideal_zero(stage, compute, link):
    """Steady time of a step. Units: the embedding, the blocks, the head, with work and bytes by their matrices."""
    block = 12 * HIDDEN * HIDDEN
    weights = [VOCAB * HIDDEN + 256 * HIDDEN, *[block] * BLOCKS, 0]  # the head's table is the embedding's
    work = [0, *[block] * BLOCKS, VOCAB * HIDDEN]
    forward = [compute / 3 * w / sum(work) for w in work]
    share = [w / sum(weights) for w in weights]
    units = range(len(weights))
    # Of the link time: sums, and each gather of the parameters.
    reduce = {0: 1, 1: 1 / 2, 2: 1 / 2, 3: 1 / 3}[stage] * link
    gather = {0: 0, 1: 1 / 2, 2: 1 / 2, 3: 1 / 3}[stage] * link
    core, wire = Line(), Line()
    values = [0.0] * len(units)  # when a unit's parameters are here
    ends = []
    for _ in range(6):
        order = [*units, *reversed(units)]
        begun = core.free
        sums = []
        for i, u in enumerate(order):
            if stage == 3:  # asked for when the unit before begins
                values[u] = wire.run(begun, gather * share[u])
            backward = i >= len(units)
            seconds = forward[u] * (2 if backward else 1)
            done = core.run(values[u], seconds)
            begun = done - seconds
            if backward:
                sums.append((done, reduce * share[u]))
                if stage != 3:
                    sums[-1] = wire.run(*sums[-1])
                elif len(sums) > 1:  # behind the gather of the next unit, which is asked for first
                    sums[-2] = wire.run(*sums[-2])
        if stage == 3:
            sums[-1] = wire.run(*sums[-1])
        core.run(max(sums), 0)
        if stage in (1, 2):
            values = [wire.run(core.free, gather * share[u]) for u in units]
        ends.append(core.free)
    return ends[-1] - ends[-2]


def ideal(case, compute, link):
    if case.startswith("zero"):
        return ideal_zero(int(case[-1]), compute, link)
    return max(compute, link)


def measure(program, case, arguments):
    free, shaped = [], []
    for _ in range(arguments.rounds):
        free.append(bench(program, CASES[case], 0, arguments.steps))
        shaped.append(bench(program, CASES[case], arguments.mbit, arguments.steps))
    compute = min(run["fastest_step_seconds"] for run in free)
    step = min(run["fastest_step_seconds"] for run in shaped)
    link = shaped[0]["sent_bytes"] * FRAME * 8 / (arguments.mbit * 1e6)
    best = ideal(case, compute, link)
    return {"case": case, "compute_seconds": compute, "link_seconds": link, "step_seconds": step, "ideal_seconds": best,
            "sent_bytes": shaped[0]["sent_bytes"], "hidden_share": (compute + link - step) / (compute + link - best)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--mbit", type=float, default=200)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    if not arguments.json:
        print(f"{'case':<8} {'compute':>9} {'link':>9} {'step':>9} {'ideal':>9}   {'sent':>9}  hidden", flush=True)
    results = []
    for case in arguments.only:
        result = measure(program, case, arguments)
        results.append(result)
        if not arguments.json:
            print(f"{case:<8} {result['compute_seconds']:>7.3f} s {result['link_seconds']:>7.3f} s "
                  f"{result['step_seconds']:>7.3f} s {result['ideal_seconds']:>7.3f} s   "
                  f"{result['sent_bytes'] / 1e6:>6.2f} MB  {100 * result['hidden_share']:.0f} %", flush=True)
    if arguments.json:
        print(json.dumps({"mbit": arguments.mbit, "results": results}))


if __name__ == "__main__":
    main()
