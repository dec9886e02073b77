#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What share of the communication that can be hidden under computation is hidden, on two hosts joined by a link of a
set rate (shaped_hosts.py): ZeRO stages 0 to 3 at dp=2, and ring attention at sp=2.

Usage: bench_overlap.py TESSERA [--mbit 200] [--steps 5] [--rounds 5] [--only CASE,...] [--json]

Rounds take the cases in turn. In each round, of the fastest of some steps:
  compute    the step when links are not shaped, with what its messages cost the cores
  step       the step over the shaped link, right after
  link       bytes that a rank sends in a step, in frames of 1,514 bytes for 1,448 of data, / rate
  ideal      the shortest step with this order of work: the compute and the link each take one piece at a time, a sum
             starts when its gradients are final, a unit waits for its parameters, pairs of positions for their keys
             (simulated below from `compute` and `link`); what is left of `link` in it cannot be hidden
  hidden     (compute + link - step) / (compute + link - ideal)
  load       processes that ran or wanted to, by the kernel's mean of the last minute, before and after: two are ours
A line of medians follows, and `hidden` of the fastest steps of all rounds: other work on the machine only adds to
times.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
FRAME = 1514 / 1448  # TCP with time stamps over Ethernet
BLOCKS, HIDDEN, VOCAB = 8, 384, 1024
DENSE = [f"model.num_hidden_layers={BLOCKS}", f"model.hidden_size={HIDDEN}", f"model.vocab_size={VOCAB}",
         "model.max_position_embeddings=256", "train.seq_length=256", "train.micro_batch_size=3",
         "comm.bucket_size_mb=2"]
RING_BLOCKS, RING_HIDDEN, RING_KEYS, RING_LENGTH, RING_VOCAB = 2, 64, 32, 16384, 259  # keys: columns of k
RING = [f"model.num_hidden_layers={RING_BLOCKS}", f"model.hidden_size={RING_HIDDEN}", "model.num_attention_heads=2",
        "model.num_key_value_heads=1", f"model.vocab_size={RING_VOCAB}", "model.position=rope",
        f"model.max_position_embeddings={RING_LENGTH}", f"train.seq_length={RING_LENGTH}", "train.micro_batch_size=1",
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


def ideal_ring(compute, link, mbit):
    """Two ranks through forward and backward of each block, in the order of parallel/sequence/ring_attention.cpp."""
    # Operations for each token of a rank: a block's matrices, and its pairs of positions in four equal parts.
    matrices = 2 * (2 * RING_HIDDEN + 2 * RING_KEYS + 8 * RING_HIDDEN) * RING_HIDDEN
    pairs = 4 * RING_HIDDEN * RING_LENGTH / 2
    second = compute / (RING_BLOCKS * (3 * matrices + 3.5 * pairs) + 3 * 2 * RING_VOCAB * RING_HIDDEN)
    forward, backward = pairs / 4 * second, 2.5 * pairs / 4 * second
    half = 2 * (RING_LENGTH / 4) * RING_KEYS * 4 * FRAME * 8 / (mbit * 1e6)  # keys and values, or their sums
    others = ((1, 1), (2, 0))  # parts that each rank has with the first and the second half of the other's keys
    cores, wires = (Line(), Line()), (Line(), Line())
    sent = 0

    def send(ready):  # the halves of both ranks: when they are on the other side
        nonlocal sent
        sent += half
        return [wire.run(at, half) for wire, at in zip(wires, ready)][::-1]

    for _ in range(RING_BLOCKS):
        keys = [send([core.free for core in cores]) for _ in range(2)]
        for core in cores:
            core.run(0, 2 * forward)
        for h in range(2):
            for rank, core in enumerate(cores):
                core.run(keys[h][rank], others[rank][h] * forward)
    for _ in range(RING_BLOCKS):
        keys = [send([core.free for core in cores]) for _ in range(2)]
        for core in cores:
            core.run(0, backward)
        sums = []
        for h in range(2):
            for rank, core in enumerate(cores):
                core.run(keys[h][rank], others[rank][h] * backward)
            sums.append(send([core.free for core in cores]))
        for rank, core in enumerate(cores):
            core.run(0, backward)
            core.run(max(sums[0][rank], sums[1][rank]), 0)
    attended = RING_BLOCKS * 4 * (forward + backward)
    # What is left of the link is the one bucket of gradients, of which nothing goes before the last is there.
    return max(core.free for core in cores) + compute - attended + link - sent


def ideal(case, compute, link, mbit):
    return ideal_zero(int(case[-1]), compute, link) if case.startswith("zero") else ideal_ring(compute, link, mbit)


def hidden_share(case, compute, step, link, mbit):
    return (compute + link - step) / (compute + link - ideal(case, compute, link, mbit))


def measure(program, case, arguments):
    before = os.getloadavg()[0]
    free = bench(program, CASES[case], 0, arguments.steps)
    shaped = bench(program, CASES[case], arguments.mbit, arguments.steps)
    compute, step = free["fastest_step_seconds"], shaped["fastest_step_seconds"]
    link = shaped["sent_bytes"] * FRAME * 8 / (arguments.mbit * 1e6)
    return {"case": case, "compute_seconds": compute, "link_seconds": link, "step_seconds": step,
            "ideal_seconds": ideal(case, compute, link, arguments.mbit), "sent_bytes": shaped["sent_bytes"],
            "hidden_share": hidden_share(case, compute, step, link, arguments.mbit),
            "load": [before, os.getloadavg()[0]]}


def summary(case, rounds, mbit):
    of = {key: [entry[key] for entry in rounds] for key in rounds[0]}
    medians = {key: statistics.median(of[key]) for key in of if key.endswith("_seconds") or key == "hidden_share"}
    fastest = hidden_share(case, min(of["compute_seconds"]), min(of["step_seconds"]), of["link_seconds"][0], mbit)
    return {"case": case, "sent_bytes": of["sent_bytes"][0], **medians, "hidden_share_of_fastest": fastest,
            "rounds": rounds}


def line(name, result):
    times = " ".join(f"{result[key + '_seconds']:>7.3f} s" for key in ("compute", "link", "step", "ideal"))
    return f"{name:<14} {times} {result['sent_bytes'] / 1e6:>8.2f} MB {100 * result['hidden_share']:>6.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--mbit", type=float, default=200)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    if not arguments.json:
        print(f"{'':<14} {'compute':>9} {'link':>9} {'step':>9} {'ideal':>9} {'sent':>11} {'hidden':>8}  load", flush=True)
    rounds = {case: [] for case in arguments.only}
    for number in range(arguments.rounds):
        for case in arguments.only:
            result = measure(program, case, arguments)
            rounds[case].append(result)
            if not arguments.json:
                print(line(f"{case}, round {number + 1}", result), "  {:.1f} to {:.1f}".format(*result["load"]), flush=True)
    results = [summary(case, rounds[case], arguments.mbit) for case in arguments.only]
    if arguments.json:
        print(json.dumps({"mbit": arguments.mbit, "results": results}))
        return
    for result in results:
        print(line(f"{result['case']}, medians", result),
              f"  of the fastest steps {100 * result['hidden_share_of_fastest']:.0f} %")


if __name__ == "__main__":
    main()
