#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs into a new folder, moves it, and trains from it. Usage: install_tree.py BUILD_FOLDER"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

build = Path(sys.argv[1]).resolve()
folder = Path(tempfile.mkdtemp(prefix="tessera_install_"))
try:
    subprocess.run(["cmake", "--install", build, "--prefix", folder / "first"], check=True, stdout=subprocess.DEVNULL)
    (folder / "first").rename(folder / "moved")
    run = [folder / "moved/bin/train", "--config", folder / "moved/share/tessera/configs/gpt/tiny.toml", "--set",
           "train.steps=2", "--set", "run.peak_flops=1e11", "--set", "train.eval_interval=0"]
    subprocess.run(run, check=True, cwd=folder)
    subprocess.run([folder / "moved/bin/tessera", "generate", "--checkpoint", folder / "runs/gpt_tiny", "--prompt", "It",
                    "--max-tokens", "3"], check=True, cwd="/")
finally:
    shutil.rmtree(folder)
