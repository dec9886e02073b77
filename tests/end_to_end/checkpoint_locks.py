#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves and loads where every file lock fails, whatever HDF5's environment variable says.

usage: checkpoint_locks.py CHECKPOINT_PROGRAM NO_LOCKS_LIBRARY
"""
import errno
import fcntl
import os
import subprocess
import sys
import tempfile

program, library = (os.path.abspath(path) for path in sys.argv[1:3])

for code in (errno.ENOSYS, errno.ENOLCK, errno.EAGAIN):
    for setting in (None, "TRUE", "FALSE", "BEST_EFFORT"):
        environment = {**os.environ, "LD_PRELOAD": library, "TEST_LOCK_ERRNO": str(code)}
        # The sanitizer's library need not come first: this one intercepts nothing of its.
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        environment.pop("HDF5_USE_FILE_LOCKING", None)
        if setting is not None:
            environment["HDF5_USE_FILE_LOCKING"] = setting
        # The interposed library does what it says.
        probe = "import fcntl, sys\ntry: fcntl.flock(0, fcntl.LOCK_SH)\nexcept OSError as e: sys.exit(e.errno)\n"
        refused = subprocess.run(["/usr/bin/python3", "-c", probe], env=environment, stdin=subprocess.DEVNULL)
        assert refused.returncode == code, refused.returncode
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, "save", folder, "3", "2", "flat"], env=environment, check=True)
            result = subprocess.run([program, "load", folder, "3", "rows"], env=environment, check=True,
                                    capture_output=True, text=True)
            assert result.stdout == "3\n", result.stdout
print("ok")
