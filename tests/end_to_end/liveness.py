#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that fail at random moments of a run: the job ends in time, with the exit code of a failed rank, names the
first cause and its rank, leaves no process behind, and goes on from its checkpoint.

  mpi_kill     one process of several is killed
  mpi_throw    one process of several runs out of memory
  mpi_stop     one process of several is stopped (SIGSTOP)
  thread_throw one rank of several in a process runs out of memory
  thread_hang  one rank of several in a process never returns

Usage: liveness.py BIN_FOLDER SOURCE_FOLDER NO_MEMORY_LIBRARY [--count N] [--seed N] [WAY...]
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS = 3
TIMEOUT_S = 10  # comm.timeout_s of runs that only it can end; a busy machine must stay below it
# A dead rank ends the job within 10 s, a stuck one after the time limit; the launcher gives those that are left
# some seconds to end by themselves. A busy machine is slower than either.
LIMIT_S = 100
LAYOUTS = (["parallel.dp=3"], ["parallel.dp=3", "parallel.zero_stage=3"], ["parallel.pp=3", "train.micro_batch_size=2"],
           ["parallel.tp=3", "model.num_attention_heads=6", "model.head_dim=12"], ["parallel.sp=3"],
           ["parallel.tp=3", "model.num_attention_heads=6", "model.head_dim=12", "train.micro_batch_size=1",
            "parallel.schedule={source}/tests/fixtures/pipeline/one_rank_8_together.txt"])


class Job:
    """A run without an end, of RANKS processes or threads, that saves often."""

    def __init__(self, options, way, layout):
        self.options, self.way, self.mpi = options, way, way.startswith("mpi")
        self.folder = Path(tempfile.mkdtemp(prefix="tessera_liveness_"))
        self.trigger = self.folder / "no_memory"
        keys = ["run.peak_flops=1e11", "model.num_hidden_layers=3", "train.steps=10000000",
                "lr_schedule.decay_steps=100000", "checkpoint.interval=4", "train.eval_interval=3", "train.eval_steps=1",
                "data.split=[0.9,0.1]", f"run.output_dir={self.folder / 'run'}",
                *(key.format(source=options.source) for key in layout)]
        self.command = [str(options.bin / "train"), "--config", str(options.source / "tests/fixtures/parity.toml")]
        for key in keys:
            self.command += ["--set", key]
        self.limited = way in ("mpi_stop", "thread_hang")
        self.launcher = ["mpirun", "--oversubscribe", "-n", str(RANKS)] if self.mpi else []
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def start(self):
        preload = {"LD_PRELOAD": str(self.options.library), "TEST_NO_MEMORY": str(self.trigger)}
        limit = ["--set", f"comm.timeout_s={TIMEOUT_S}"] if self.limited else []
        self.process = subprocess.Popen([*self.launcher, *self.command, *limit], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, cwd=self.folder, start_new_session=True,
                                        env={**self.environment, **(preload if "throw" in self.way or "hang" in self.way
                                                                    else {})})

    def processes(self):
        """Process ids of the ranks by rank, once all have been started."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.folder) in (entry / "cmdline").read_text():
                    variables = (entry / "environ").read_bytes().split(b"\0")
                    rank = next((v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")), None)
                    if rank:
                        found[int(rank.split(b"=")[1])] = int(entry.name)
            except OSError:
                pass
        return found

    def wait_for_step(self, step):
        metrics = self.folder / "run/metrics.jsonl"
        while self.process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= step):
            time.sleep(0.01)

    def strike(self, rank):
        """Returns what must be said of the cause."""
        if self.way == "mpi_kill":
            os.kill(self.processes()[rank], signal.SIGKILL)
            return rf"rank {rank}\b|process rank {rank} with PID"
        if self.way == "mpi_stop":
            os.kill(self.processes()[rank], signal.SIGSTOP)
            return rf"waited {TIMEOUT_S} s for .*"
        name = f"{self.trigger}.{rank}" if self.mpi else str(self.trigger)
        Path(name + "~").write_text("hang" if "hang" in self.way else "fail")
        os.rename(name + "~", name)
        if "hang" in self.way:
            return rf"waited {TIMEOUT_S} s for .*"
        return rf"error: rank {rank if self.mpi else '[0-9]'}: .*out of memory"

    def check(self, rng):
        rank = rng.randrange(RANKS)
        self.start()
        try:
            self.wait_for_step(rng.randrange(1, 9))
            time.sleep(rng.uniform(0, 0.1))
            if self.process.poll() is not None:
                return f"ended by itself:\n{self.process.communicate()[1]}"
            cause = self.strike(rank)
            struck = time.monotonic()
            try:
                _, errors = self.process.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                return f"still running {LIMIT_S} s after rank {rank} failed"
            seconds = time.monotonic() - struck
            code = self.process.returncode
            allowed = (137, 5) if self.way == "mpi_kill" else (5,)
            if code not in allowed:
                return f"exit code {code}, not {allowed}, when rank {rank} failed:\n{errors}"
            if not re.search(cause, errors):
                return f"nothing says /{cause}/:\n{errors}"
            left = subprocess.run(["pgrep", "-f", str(self.folder)], capture_output=True, text=True).stdout.split()
            if left:
                return f"processes are left: {left}"
            self.seconds = seconds
            return self.goes_on()
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                for pid in self.processes().values():
                    os.kill(pid, signal.SIGKILL)
                self.process.communicate()

    def goes_on(self):
        """The newest checkpoint is whole: one step more can be made."""
        steps = sorted(int(p.name[5:]) for p in (self.folder / "run/checkpoints").glob("step_*"))
        last = (steps[-1] if steps else 0) + 1
        result = subprocess.run([*self.launcher, *self.command, "--set", f"train.steps={last}", "--allow-change",
                                 "train.steps"], capture_output=True, text=True, cwd=self.folder, timeout=120,
                                env=self.environment)
        if result.returncode != 0:
            return f"a resume ends with {result.returncode}:\n{result.stderr}"
        lines = [json.loads(line)["step"] for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        return None if lines == list(range(1, last + 1)) else f"metrics of steps {lines}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("library", type=Path)
    parser.add_argument("--count", type=int, default=100, help="random moments a way (100)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("ways", nargs="*", default=["mpi_kill", "mpi_throw", "mpi_stop", "thread_throw", "thread_hang"])
    options = parser.parse_intermixed_args()
    for name in ("bin", "source", "library"):
        setattr(options, name, getattr(options, name).resolve())
    print(f"seed {options.seed}")
    failed = 0
    for way in options.ways:
        longest = 0
        for number in range(options.count):
            layout = LAYOUTS[(options.seed + number) % len(LAYOUTS)]  # a few moments see other layouts each time
            job = Job(options, way, layout)
            problem = job.check(random.Random(f"{options.seed} {way} {number}"))
            if problem:
                failed += 1
                print(f"FAILED {way} {number} ({' '.join(layout)}), in {job.folder}: {problem}")
            else:
                longest = max(longest, job.seconds)
                shutil.rmtree(job.folder)
        print(f"{way}: {options.count} moments, the job ended at most {longest:.1f} s after", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
