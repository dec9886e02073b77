#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures `tessera tokenize` against the Python package `tokenizers` on the same text, alternating.

usage: bench_tokenizer.py TESSERA TOKENIZER_JSON... [--megabytes N] [--rounds N]

Prints the megabytes of text in a second of processor time of both on one thread, and the ratio; Tessera's in a second of
the clock on one and on two threads; and those of the tokenizer "bytes". Processor time is fair where others use the machine,
and the times of the clock then mean little. The text is Python and C source and English and other manuals of this machine, as JSONL with a
document a file.
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
FOLDERS = ["/usr/share/man", "/usr/lib/python3", "/usr/include", "/usr/share/perl"]


def documents(size):
    texts = []
    for folder in FOLDERS:
        left = size / len(FOLDERS)
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if left <= 0:
                break
            if not path.is_file() or path.is_symlink() or path.stat().st_size > 2_000_000:
                continue
            content = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            try:
                texts.append(content.decode("utf-8"))
                left -= len(content)
            except UnicodeDecodeError:
                pass
    return texts


def tessera_report(tessera, tokenizer, folder, threads):
    command = [tessera, "tokenize", "--tokenizer", tokenizer, "--input", folder / "text.jsonl", "--output", folder / "out",
               "--threads", str(threads), "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def reference_seconds(loaded, texts):
    start = time.process_time()
    for begin in range(0, len(texts), 256):
        loaded.encode_batch_fast(texts[begin:begin + 256], add_special_tokens=False)
    return time.process_time() - start


def rate(megabytes, reports, key):
    return megabytes / statistics.median(report[key] for report in reports)


def main():
    import tokenizers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera", type=pathlib.Path)
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.tessera = options.tessera.resolve()
    texts = documents(options.megabytes * 1e6)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with open(folder / "text.jsonl", "w", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        for path in options.tokenizers:
            loaded = tokenizers.Tokenizer.from_file(path)
            one, two, theirs = [], [], []
            for _ in range(options.rounds):
                one.append(tessera_report(options.tessera, path, folder, 1))
                two.append(tessera_report(options.tessera, path, folder, 2))
                theirs.append(reference_seconds(loaded, texts))
            ours, reference = rate(megabytes, one, "cpu_seconds"), megabytes / statistics.median(theirs)
            print(f"{path}: {megabytes:.1f} MB; {ours:.1f} MB/s of processor time, tokenizers {reference:.1f}, ratio "
                  f"{ours / reference:.1f}; by the clock one thread {rate(megabytes, one, 'seconds'):.1f} MB/s, two "
                  f"{rate(megabytes, two, 'seconds'):.1f}", flush=True)
        reports = [tessera_report(options.tessera, "bytes", folder, 1) for _ in range(options.rounds)]
        print(f"bytes, JSONL: {rate(megabytes, reports, 'cpu_seconds'):.0f} MB/s of processor time")


if __name__ == "__main__":
    main()
