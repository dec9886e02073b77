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

GLOBAL_BATCH = 11  # odd: the last rows of most layouts are padding
LEAST = 34
FACTORS = {
    "family": ["gpt", "llama"],
    "tp": [1, 2, 3, 4],
    "sequence_parallel": ["false", "true"],
    "regather_inputs": ["true", "false"],
    "dp": [1, 2, 3],
    "recompute": ["none", "selective", "full"],
    "accumulation": [1, 3],
}


def allowed(choice):
    """What the config accepts and what has an effect."""
    if choice["sequence_parallel"] == "true" and choice["tp"] == 1:
        return False
    if choice["regather_inputs"] == "false" and choice["sequence_parallel"] == "false":
        return False
    # One rank with whole batches is the reference itself.
    return choice["tp"] * choice["dp"] > 1 or choice["recompute"] != "none" or choice["accumulation"] > 1


def pairs_of(choice):
    return set(itertools.combinations(choice.items(), 2))


def covering(least=LEAST):
    combinations = [dict(zip(FACTORS, values)) for values in itertools.product(*FACTORS.values())]
    combinations = [choice for choice in combinations if allowed(choice)]
    all_pairs = set().union(*map(pairs_of, combinations))
    taken, missing = [], set(all_pairs)
    while missing or len(taken) < least:
        if not missing:
            missing = set(all_pairs)
        best = max((c for c in combinations if c not in taken), key=lambda c: len(pairs_of(c) & missing))
        taken.append(best)
        missing -= pairs_of(best)
    return taken


def layout(choice):
    """The words of `tessera compare --layout`."""
    micro = -(-GLOBAL_BATCH // (choice["dp"] * choice["accumulation"]))
    return (f"tp={choice['tp']} sequence_parallel={choice['sequence_parallel']} dp={choice['dp']} "
            f"comm.regather_inputs={choice['regather_inputs']} activation_checkpointing.mode={choice['recompute']} "
            f"train.micro_batch_size={micro} train.gradient_accumulation_steps={choice['accumulation']}")


def main():
    for choice in covering(0 if "--pairs" in sys.argv else LEAST):
        print(choice["family"], layout(choice))


if __name__ == "__main__":
    main()
