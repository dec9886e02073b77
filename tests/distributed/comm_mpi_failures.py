#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that fail in every way: all processes end in time, with the exit code, and the first cause is named.

usage: comm_mpi_failures.py PROGRAM LAUNCHER...
"""
import re
import subprocess
import sys
import time

# way to fail, exit code (None: any but 0), what stderr must say. Rank 1 of 3 is at fault.
CASES = [
    ("abort", 5, r"error: rank 1: the disk is on fire"),
    ("stuck", 5, r"rank [02] waited 2 s for all_reduce\(sum, fp32\[1003\]\) #1 on 'world': rank 1 has not arrived"),
    ("mismatch", 5, r"call #1 on 'world' differs between ranks: .*rank 1 makes broadcast\(fp32\[1003\] from rank 0\)"),
    ("outstanding", 5, r"error: rank 1: "),
    ("unwinding", 5, r"error: rank 1: nobody catches this in time"),
    ("uncaught", 5, r"error: rank 1: ended in the middle of communication"),
    ("killed", None, r""),
    ("exit", None, r""),
]
TIME_LIMIT_S = 30


def main() -> int:
    program, launcher = sys.argv[1], sys.argv[2:]
    failed = 0
    for way, code, text in CASES:
        start = time.monotonic()
        try:
            run = subprocess.run([*launcher, program, way], capture_output=True, text=True, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            print(f"FAILED {way}: still running after {TIME_LIMIT_S} s\n{error.stderr}")
            failed += 1
            continue
        seconds = time.monotonic() - start
        right_code = run.returncode == code if code is not None else run.returncode != 0
        if right_code and re.search(text, run.stderr):
            print(f"ok {way}: exit code {run.returncode} after {seconds:.1f} s")
        else:
            print(f"FAILED {way}: exit code {run.returncode} (wanted {code}), wanted /{text}/ in\n{run.stderr}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
