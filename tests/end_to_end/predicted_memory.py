#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `train --check` predicts against what a run reports: peak memory and operations of a step.

usage: predicted_memory.py TRAIN CONFIG
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
CASES = {
    "one rank": [],
    "two thread ranks, odd batch": ["parallel.dp=2", "train.global_batch_size=5", "train.micro_batch_size=1"],
    "bf16, recomputed": ["precision.compute=bf16", "activation_checkpointing.mode=full"],
    "offload": ["activation_checkpointing.offload=true"],
    "a save beside training": ["checkpoint.interval=2"],
    "a save in place": ["checkpoint.interval=2", "checkpoint.async=false"],
    "micro-batches together": [f"parallel.schedule={FIXTURES}/pipeline/one_rank_8_together.txt", "parallel.tp=2",
                               "train.micro_batch_size=1", "train.global_batch_size=8", "model.vocab_size=264"],
    "DualPipe-V": ["parallel.schedule=dualpipe_v", "parallel.pp=2", "parallel.tp=2", "train.micro_batch_size=1",
                   "train.global_batch_size=8", "model.num_hidden_layers=5", "model.vocab_size=264"],
}


def run(train, config, settings, *more):
    command = [train, "--config", config, *more]
    for setting in settings:
        command += ["--set", setting]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode} from {' '.join(command)}\n{result.stderr}")
    return result.stdout


def main():
    train, config = sys.argv[1:]
    failures = 0
    for name, settings in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            # Without a save unless a case asks for one, and without measuring the machine.
            settings = ["checkpoint.interval=0", "run.peak_flops=1e12", "train.steps=3", "run.threads_per_rank=1",
                        f"run.output_dir={folder}/run", *settings]
            plan = json.loads(run(train, config, settings, "--check", "--json"))
            run(train, config, settings)
            last = json.loads(Path(folder, "run/metrics.jsonl").read_text().splitlines()[-1])
        planned, measured = plan["memory_bytes"]["peak"], last["peak_memory_bytes"]
        operations = last["model_flops_per_second"] * last["step_seconds"]
        # Both count the same allocations; operations are whole numbers that went through a division.
        same = planned == measured
        if name != "two thread ranks, odd batch":  # rows of padding see themselves only, and are no work in the plan
            same = same and abs(operations / plan["flops"]["model_per_step"] - 1) < 1e-12
        print(f"{'ok  ' if same else 'FAIL'} {name}: planned {planned} bytes, measured {measured}; planned "
              f"{plan['flops']['model_per_step']:.6g} operations, counted {operations:.6g}")
        failures += not same
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
