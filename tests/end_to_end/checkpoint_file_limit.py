#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The system stops a write in the middle of a file (a size limit, as a quota does): exit 3, nothing partial
is left, the checkpoint before is whole.

usage: checkpoint_file_limit.py CHECKPOINT_PROGRAM
"""
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

program = os.path.abspath(sys.argv[1])


def limited(bytes_a_file):
    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails with EFBIG instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))
    return apply


def run(*arguments, limit=None):
    prepare = limited(limit) if limit is not None else None
    return subprocess.run([program, *arguments], capture_output=True, text=True, preexec_fn=prepare)


with tempfile.TemporaryDirectory() as folder:
    run("save", folder, "1", "2", "flat").check_returncode()
    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(os.path.join(folder, "step_00000001"))}
    largest = max(sizes.values())
    refused = set()
    for limit in (0, 1, 1000, *(size - 1 for size in sizes.values()), largest):
        result = run("save", folder, "2", "2", "rows", limit=limit)
        if limit == largest:
            break
        if result.returncode == 0:  # the other cut's files may be a little smaller than the first one's
            shutil.rmtree(os.path.join(folder, "step_00000002"))
            continue
        assert result.returncode == 3, result
        assert "File too large" in result.stderr and "it needs about" in result.stderr, result.stderr
        refused |= {name for name in sizes if name in result.stderr}
        assert os.listdir(folder) == ["step_00000001"], os.listdir(folder)
        loaded = run("load", folder, "3", "rows")
        assert loaded.returncode == 0 and loaded.stdout == "1\n", loaded
    assert refused, "no limit was met"
print("ok", sorted(refused))
