#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint's index.h5 with plain h5py, from another folder: every tensor is whole, whatever wrote it.

usage: checkpoint_h5py.py CHECKPOINT_PROGRAM
"""
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np

PROGRAM = os.path.abspath(sys.argv[1])
TENSORS = {  # as test_tensors() of tests/support/checkpoint_support.cpp
    "adamw/m/blocks.0.mlp.up.weight": ("float32", (7, 33)),
    "adamw/v/blocks.0.mlp.up.weight": ("float32", (7, 33)),
    "counters/seen": ("int64", (3,)),
    "counters/small": ("int32", (1, 5)),
    "flags/bytes": ("uint8", (1003,)),
    "flags/none": ("float32", (0, 5)),
    "masters/blocks.0.mlp.up.weight": ("float32", (7, 33)),
    "parameters/blocks.0.mlp.up.weight": ("bf16", (7, 33)),
    "parameters/blocks.1.moe.experts.up.weight": ("float16", (3, 5, 7)),
    "parameters/embedding.token.weight": ("float32", (103, 11)),
    "parameters/final_norm.weight": ("float64", (1,)),
    "parameters/scale": ("float32", ()),
    "parameters/wide": ("float32", (2, 3, 5, 7)),
}


def expected(name, dtype, shape, version):
    count = int(np.prod(shape, dtype=np.int64)) if shape else 1
    values = np.arange(count, dtype=np.int64) + sum(name.encode()) % 100 + 100000 * version
    if dtype == "bf16":  # the upper half of a float32
        bits = (values % 0x7000).astype(np.uint32) << 16
        flat = bits.view(np.float32)
    elif dtype == "float16":
        flat = (values % 0x7000).astype(np.uint16).view(np.float16)
    else:
        flat = values.astype(dtype)
    return flat.reshape(shape if shape else (1,))


def check(ranks, cut):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([PROGRAM, "save", folder, "6", str(ranks), cut], check=True)
        os.chdir("/")  # names of parts must be relative to the index, not to the reader
        step = os.path.join(folder, "step_00000006")
        with h5py.File(os.path.join(step, "index.h5"), "r") as index:
            for name, (dtype, shape) in TENSORS.items():
                dataset = index[name]
                want = expected(name, dtype, shape, 6)
                assert dataset.dtype == want.dtype, (name, dataset.dtype, want.dtype)
                got = dataset[...]
                assert got.shape == want.shape and np.array_equal(got, want), (ranks, cut, name)
            # fp32 parameters are their own masters; the bf16 one has its own.
            link = index.get("masters/embedding.token.weight", getlink=True)
            assert isinstance(link, h5py.SoftLink), link
            assert np.array_equal(index["masters/embedding.token.weight"][...],
                                  index["parameters/embedding.token.weight"][...])
            assert index["masters/blocks.0.mlp.up.weight"].dtype == np.float32
            assert index.attrs["step"] == 6
            assert index.attrs["tokens"] == 12345678901
            assert index.attrs["seed"] == 1234
            assert index.attrs["loss_scale"] == 0.5
            assert index.attrs["config"] == '[run]\nname = "x"\n', index.attrs["config"]
            assert index.attrs["cursors"] == '[{"source":"a","position":3}]', index.attrs["cursors"]
            assert index.attrs["long"] == "x" * 200000  # above HDF5's 64 KiB for an object header
        parts = sorted(p for p in os.listdir(step) if p.startswith("part_"))
        assert parts == [f"part_{i:05d}.h5" for i in range(len(parts))] and len(parts) <= ranks, parts
        # A part that is gone reads as NaN, never as zero.
        os.remove(os.path.join(step, parts[0]))
        with h5py.File(os.path.join(step, "index.h5"), "r") as index:
            missing = sum(int(np.isnan(index[name][...]).sum()) for name in TENSORS if index[name].dtype.kind == "f")
            assert missing > 0, "nothing shows that a part is missing"


for case in [(1, "replicated"), (3, "replicated"), (2, "rows"), (3, "columns"), (4, "flat")]:
    check(*case)
print("ok")
