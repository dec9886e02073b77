#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts in which every pair of choices occurs, for scripts/verify_layouts.sh.

A choice is a value of a factor in FACTORS: append a factor or a value, and the list grows by what is needed. The
list is a function of the table alone: of all allowed combinations the one with the most pairs that are still missing
is taken, the first of equals, and after the last pair the same again until there are at least LEAST layouts.

Usage: covering_layouts.py [--pairs]     prints the list; --pairs: only until every pair has occurred
"""
import itertools
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent

GLOBAL_BATCH = 11  # odd: the last rows of most layouts are padding
LEAST = 34
MOST_RANKS = 6
FACTORS = {
    "family": ["gpt", "llama"],
    "tp": [1, 2, 3, 4],
    "sequence_parallel": ["false", "true"],
    "regather_inputs": ["true", "false"],
    "sequence": ["1 ring", "2 ring", "3 ring", "2 ulysses", "3 ulysses", "2 allgather", "3 allgather"],  # sp, sp_mode
    "pipeline": ["1 1f1b", "2 1f1b", "2 interleaved", "3 zb_h1", "2 zb_v", "3 gpipe", "3 auto",
                 "2 file"],  # pp, schedule
    "dp": [1, 2, 3],
    "zero_stage": [0, 1, 2, 3],
    "recompute": ["none", "selective", "full"],
    "offload": ["false", "true"],
    "accumulation": [1, 3],
    "packing": ["cut", "first_fit"],
    "all_reduce": ["auto", "ring", "tree", "parameter_server"],  # hierarchical is auto on one node
}


def sizes(choice):
    """tp, sp, pp, dp."""
    return choice["tp"], int(choice["sequence"].split()[0]), int(choice["pipeline"].split()[0]), choice["dp"]


def allowed(choice):
    """What the config accepts, what has an effect, and what few cores can run."""
    tp, sp, pp, dp = sizes(choice)
    if tp * sp * pp * dp > MOST_RANKS:
        return False
    if choice["sequence_parallel"] == "true" and tp == 1:
        return False
    if choice["regather_inputs"] == "false" and choice["sequence_parallel"] == "false":
        return False
    if choice["zero_stage"] > 0 and dp * sp == 1:
        return False
    if choice["all_reduce"] != "auto" and tp * sp * dp == 1:
        return False
    # One rank with whole batches is the reference itself.
    return (tp * sp * pp * dp > 1 or choice["recompute"] != "none" or choice["accumulation"] > 1
            or choice["offload"] == "true")


def covering(least=LEAST):
    numbers = {}
    def pairs_of(choice):
        return frozenset(numbers.setdefault(pair, len(numbers)) for pair in itertools.combinations(choice.items(), 2))

    combinations = [dict(zip(FACTORS, values)) for values in itertools.product(*FACTORS.values())]
    combinations = [(choice, pairs_of(choice)) for choice in combinations if allowed(choice)]
    all_pairs = frozenset().union(*(pairs for _, pairs in combinations))
    taken, missing = [], set(all_pairs)
    while missing or len(taken) < least:
        if not missing:
            missing = set(all_pairs)
        best = max(combinations, key=lambda c: len(c[1] & missing))
        combinations.remove(best)
        taken.append(best[0])
        missing -= best[1]
    return taken


def layout(choice):
    """The words of `tessera compare --layout`."""
    tp, sp, pp, dp = sizes(choice)
    micro = -(-GLOBAL_BATCH // (dp * choice["accumulation"]))
    schedule = choice["pipeline"].split()[1]
    if schedule == "file":
        schedule = SOURCE / f"tests/fixtures/pipeline/two_ranks_{choice['accumulation']}.txt"
    words = [f"tp={tp}", f"sequence_parallel={choice['sequence_parallel']}"] if tp > 1 else []
    if choice["regather_inputs"] == "false":
        words.append("comm.regather_inputs=false")
    if choice["all_reduce"] != "auto":
        words.append(f"comm.all_reduce={choice['all_reduce']}")
    if sp > 1:
        words += [f"sp={sp}", f"sp_mode={choice['sequence'].split()[1]}"]
    if pp > 1:
        words += [f"pp={pp}", f"schedule={schedule}"]
    if schedule == "interleaved":
        words.append("virtual_stages=2")
    words += [f"dp={dp}", f"zero_stage={choice['zero_stage']}",
              f"activation_checkpointing.mode={choice['recompute']}",
              f"activation_checkpointing.offload={choice['offload']}", f"train.micro_batch_size={micro}",
              f"train.gradient_accumulation_steps={choice['accumulation']}"]
    return " ".join(words)


def main():
    for choice in covering(0 if "--pairs" in sys.argv else LEAST):
        print(choice["family"], choice["packing"], layout(choice))


if __name__ == "__main__":
    main()
