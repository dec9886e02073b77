#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a program that saves without pause, at random moments: a whole checkpoint is always found after.

usage: checkpoint_kill.py CHECKPOINT_PROGRAM [KILLS]
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(sys.argv[1])
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
random.seed(5)


def loaded_step(folder, ranks, cut):
    """The step of the newest checkpoint, all its values checked; None when there is none yet."""
    result = subprocess.run([PROGRAM, "load", folder, str(ranks), cut], capture_output=True, text=True)
    if result.returncode == 3 and "there is no checkpoint" in result.stderr:
        return None
    assert result.returncode == 0, result.stdout + result.stderr
    assert "not used" not in result.stderr, "a published checkpoint is damaged:\n" + result.stderr
    return int(result.stdout)


with tempfile.TemporaryDirectory() as folder:
    newest, inside_a_save = 0, 0
    for kill in range(KILLS):
        ranks = random.choice([1, 2, 3])
        cut = random.choice(["replicated", "rows", "columns", "flat"])
        process = subprocess.Popen([PROGRAM, "loop", folder, str(ranks), cut])
        time.sleep(random.uniform(0.01, 0.35))
        assert process.poll() is None, f"the program ended by itself: {process.returncode}"
        process.send_signal(signal.SIGKILL)
        process.wait()
        inside_a_save += any(".tmp-" in name for name in os.listdir(folder))
        step = loaded_step(folder, random.choice([1, 2]), random.choice(["rows", "flat"]))
        assert step is not None or newest == 0, f"kill {kill}: no checkpoint is found, there was one of step {newest}"
        assert (step or 0) >= newest, f"kill {kill}: step {step} is found, there was one of step {newest}"
        newest = step or 0
    assert newest > KILLS // 4, f"only {newest} saves in {KILLS} runs: the kills came too early to prove anything"
    assert inside_a_save > KILLS // 4, f"only {inside_a_save} of {KILLS} kills hit a save"
    # The next start removes what they left.
    subprocess.run([PROGRAM, "save", folder, str(newest + 1), "2", "flat"], check=True)
    hidden = [name for name in os.listdir(folder) if name.startswith(".")]
    assert not hidden, hidden
    print(f"{KILLS} kills, {inside_a_save} of them inside a save; the newest checkpoint is of step {newest + 1}")
