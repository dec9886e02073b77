#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tessera checkpoint inspect|verify|diff` on good, different and damaged checkpoints.

usage: checkpoint_tools.py CHECKPOINT_PROGRAM TESSERA
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

program, tessera = (os.path.abspath(path) for path in sys.argv[1:3])


def tool(*arguments, expect=0):
    result = subprocess.run([tessera, "checkpoint", *arguments], capture_output=True, text=True)
    assert result.returncode == expect, (arguments, result)
    return result


def tool_json(*arguments):
    return json.loads(tool(*arguments, "--json").stdout)


def save(folder, step, ranks, cut):
    subprocess.run([program, "save", folder, str(step), str(ranks), cut], check=True)
    return os.path.join(folder, f"step_{step:08d}")


with tempfile.TemporaryDirectory() as scratch:
    run = os.path.join(scratch, "run")
    first = save(os.path.join(run, "checkpoints"), 6, 2, "rows")
    last = save(os.path.join(run, "checkpoints"), 7, 3, "flat")
    other = save(os.path.join(scratch, "other"), 6, 4, "columns")

    # A run's folder means its newest checkpoint.
    for path in (run, os.path.join(run, "checkpoints"), last, last + "/"):
        assert tool_json("inspect", path)["step"] == 7
    seen = tool_json("inspect", first)
    assert seen["step"] == 6 and seen["state"]["tokens"] == 12345678901 and len(seen["parts"]) == 2
    tensors = {tensor["name"]: tensor for tensor in seen["tensors"]}
    assert tensors["parameters/wide"]["shape"] == [2, 3, 5, 7] and tensors["parameters/wide"]["dtype"] == "fp32"
    assert tensors["parameters/scale"]["shape"] == [] and tensors["flags/none"]["bytes"] == 0
    text = tool("inspect", first).stdout
    for part in ("step", "12345678901", "parameters/blocks.0.mlp.up.weight", "bf16", "[7, 33]", 'name = "x"'):
        assert part in text, part

    verdict = tool_json("verify", first)
    assert verdict["verified"] is True and verdict["tensors"] == len(tensors) and verdict["files"] == 4
    assert "each element stored exactly once" in tool("verify", run).stdout

    # The same values from another mesh; other values.
    same = tool_json("diff", first, other, "--bitwise")
    assert same["equal"] is True and same["bitwise"] is True and same["tensors"] == []
    assert tool("diff", first, other).stdout.endswith("equal in value: 13 tensors in both\n")
    different = tool_json("diff", first, last)
    assert different["equal"] is False
    wide = {tensor["name"]: tensor for tensor in different["tensors"]}["parameters/wide"]
    assert wide["different_values"] == wide["elements"] == 210 and wide["max_absolute"] == 100000
    assert "different" in tool("diff", first, last, "--bitwise").stdout.splitlines()[-1]

    # Damage is named, with exit 3.
    for name in ("part_00001.h5", "index.h5", "manifest.json"):
        broken = os.path.join(scratch, "broken")
        shutil.copytree(first, broken)
        with open(os.path.join(broken, name), "r+b") as file:
            file.seek(-7, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 16]))
        for arguments in (("verify", broken), ("diff", first, broken)):
            result = tool(*arguments, expect=3)
            assert result.stderr.startswith("error: ") and name in result.stderr and result.stdout == "", result
        shutil.rmtree(broken)
    os.remove(os.path.join(other, "part_00002.h5"))
    assert "part_00002.h5" in tool("verify", other, expect=3).stderr
    tool("inspect", other)  # reads the manifest only

    os.mkdir(os.path.join(scratch, "empty"))
    for path in (os.path.join(scratch, "empty"), os.path.join(scratch, "absent")):
        for command in ("inspect", "verify"):
            assert path in tool(command, path, expect=3).stderr

    # Usage.
    for arguments in ((), ("verify",), ("diff", first), ("shrink", first), ("verify", first, "--fast")):
        assert tool(*arguments, expect=2).stderr.startswith("error: "), arguments
    assert "not built yet" in tool("reshard", first, "--to", "tp=2", expect=2).stderr
    for arguments in (("--help",), ("verify", "--help"), ("diff", "--help")):
        assert "examples:" in tool(*arguments).stdout
print("ok")
