#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file system that holds one checkpoint and a half: the second save fails with exit 3, the first stays.

Runs itself in a mount namespace of its own (unshare -rm).
usage: checkpoint_small_disk.py CHECKPOINT_PROGRAM
"""
import os
import subprocess
import sys
import tempfile

program = os.path.abspath(sys.argv[1])
if "TEST_OWN_NAMESPACE" not in os.environ:
    command = ["unshare", "-rm", sys.executable, os.path.abspath(__file__), program]
    sys.exit(subprocess.run(command, env={**os.environ, "TEST_OWN_NAMESPACE": "1"}).returncode)


def run(*arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True)


def size_of(folder):
    return sum(entry.stat().st_size for entry in os.scandir(folder))


with tempfile.TemporaryDirectory() as folder:
    measured = os.path.join(folder, "measured")
    run("save", measured, "1", "2", "flat").check_returncode()
    need = size_of(os.path.join(measured, "step_00000001"))
    for share in (1.3, 1.5, 1.9):
        disk = os.path.join(folder, f"disk_{share}")
        os.mkdir(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk], check=True)
        try:
            run("save", disk, "1", "2", "flat").check_returncode()
            filler = os.statvfs(disk).f_bavail * 4096 - int((share - 1) * need)
            with open(os.path.join(disk, "filler"), "wb") as file:
                file.write(b"x" * filler)
            second = run("save", disk, "2", "2", "flat")
            assert second.returncode == 3, second
            assert disk in second.stderr and "it needs about" in second.stderr and "are free" in second.stderr, second
            assert sorted(os.listdir(disk)) == ["filler", "step_00000001"], os.listdir(disk)
            loaded = run("load", disk, "3", "rows")
            assert loaded.returncode == 0 and loaded.stdout == "1\n", loaded
        finally:
            subprocess.run(["umount", disk], check=True)
print("ok")
