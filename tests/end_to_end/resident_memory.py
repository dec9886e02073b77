#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of more than 500 MB: what the process really holds, as the kernel counts it (VmHWM), grows after its start by
what `train --check` predicts, within 10 %.

usage: resident_memory.py TRAIN SOURCE_FOLDER
"""
import json
import os
import subprocess
import sys
import tempfile

SMALLEST = 500 << 20
# Wide vocabularies on few blocks: much state, little work.
CASES = {
    "gpt": ("configs/gpt/tiny.toml", ["model.vocab_size=50257", "model.hidden_size=512", "model.num_hidden_layers=3"]),
    "llama": ("configs/llama/tiny.toml", ["model.vocab_size=16001", "model.hidden_size=768",
                                          "model.intermediate_size=2048", "model.num_hidden_layers=2",
                                          "activation_checkpointing.mode=full"]),
}
RUN = ["train.steps=3", "train.micro_batch_size=1", "train.global_batch_size=2", "train.eval_interval=0",
       "checkpoint.interval=0", "run.peak_flops=1e12"]


def run(command, folder):
    """Standard output, and the largest resident size in bytes."""
    with open(os.path.join(folder, "output"), "w+") as output, open(os.path.join(folder, "errors"), "w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        output.seek(0)
        errors.seek(0)
        if status != 0:
            sys.exit(f"exit {os.waitstatus_to_exitcode(status)} from {' '.join(command)}\n{errors.read()}")
        return output.read(), usage.ru_maxrss * 1024


def main():
    train, source = sys.argv[1:]
    failures = 0
    for name, (config, keys) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [train, "--config", os.path.join(source, config)]
            for key in [*RUN, *keys, f"run.output_dir={folder}/run"]:
                command += ["--set", key]
            # The check starts as the run does, and allocates nothing of the model's size.
            answer, start = run([*command, "--check", "--json"], folder)
            _, highest = run(command, folder)
        planned, grown = json.loads(answer)["memory_bytes"]["peak"], highest - start
        good = planned > SMALLEST and abs(grown / planned - 1) < 0.10
        print(f"{'ok  ' if good else 'FAIL'} {name}: planned {planned / 2**20:.1f} MiB, grown by "
              f"{grown / 2**20:.1f} MiB ({grown / planned - 1:+.1%}) from {start / 2**20:.1f} MiB")
        failures += not good
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
