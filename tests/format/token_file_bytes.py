#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the files of `tessera tokenize` with the same data packed here from the format's description.

usage: token_file_bytes.py TESSERA
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

END_OF_DOCUMENT = 256
UINT16 = 8


def packed_index(lengths):
    offsets, end = [], 0
    for length in lengths:
        offsets.append(end)
        end += 2 * length
    count = len(lengths)
    return (
        b"MMIDIDX\x00\x00"
        + struct.pack("<QBQQ", 1, UINT16, count, count + 1)
        + struct.pack(f"<{count}i", *lengths)
        + struct.pack(f"<{count}q", *offsets)
        + struct.pack(f"<{count + 1}q", *range(count + 1))
    )


def main():
    tessera = sys.argv[1]
    random.seed(1003)
    texts = ["x", "seven..", "\u00e9\U0001f600\x00", "a" * 100_000]
    texts += ["".join(chr(random.randrange(1, 0xD000)) for _ in range(random.randrange(1, 1003))) for _ in range(301)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = "".join(json.dumps({"text": text}, ensure_ascii=i % 2 == 0) + "\n" for i, text in enumerate(texts))
        (folder / "in.jsonl").write_text(lines, encoding="utf-8")
        command = [tessera, "tokenize", "--tokenizer", "bytes", "--input", folder / "in.jsonl", "--output", folder / "o"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        documents = [list(text.encode("utf-8")) + [END_OF_DOCUMENT] for text in texts]
        tokens = [token for document in documents for token in document]
        for suffix, expected in (
            (".bin", struct.pack(f"<{len(tokens)}H", *tokens)),
            (".idx", packed_index([len(document) for document in documents])),
        ):
            got = (folder / f"o{suffix}").read_bytes()
            if got != expected:
                at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
                sys.exit(f"{suffix}: {len(got)} bytes, expected {len(expected)}; first difference at byte {at}")
    print(f"{len(texts)} documents, {len(tokens)} tokens: .bin and .idx are equal")


if __name__ == "__main__":
    main()
