#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the ids of `tessera tokenize` with those of the reference libraries, document by document.

usage: compare_tokenizer.py TESSERA TOKENIZER... [--megabytes N] [--seed S]

TOKENIZER is a tokenizer.json (reference: the Python package `tokenizers`) or a .tiktoken file (reference: `tiktoken`).
The text is what this machine has: programs and manuals in many languages, translations, and made documents: emoji,
every character of Unicode, long runs of one character, nulls, texts that look like control tokens, random characters
and bytes that are no UTF-8. Prints the first differences and exits with 1 when there are any.
"""
import argparse
import gzip
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {100256: CL100K, 128000: CL100K, 151643: CL100K.replace(r"\p{N}{1,3}", r"\p{N}")}
FOLDERS = ["/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/i18n", "/usr/lib/python3",
           "/usr/share/perl", "/usr/include", "/usr/share/common-licenses", "/usr/share/unicode"]


def found_documents(rng, size):
    """Contents of files of this machine, as bytes; packed ones unpacked. Not all are UTF-8."""
    files = [path for folder in FOLDERS for path in pathlib.Path(folder).rglob("*")
             if path.is_file() and not path.is_symlink() and path.stat().st_size < 4_000_000]
    files.sort()
    rng.shuffle(files)
    for path in files:
        if size <= 0:
            return
        content = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        if content:
            size -= len(content)
            yield content


def made_documents(rng):
    everything = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for begin in range(0, len(everything), 4096):
        yield "".join(everything[begin:begin + 4096]).encode()
        yield " ".join(everything[begin:begin + 4096]).encode()
    for unit in ("^", "a", " ", "\n", "\r\n", "\t", "0", "\u200d", "\U0001f600", "\u4e2d", "\u0301", "e\u0301\u0323", "\0",
                 "\u2581", "'s", "A", " a", "\u00a0", "ab", "!?"):
        for count in (1, 2, 3, 7, 31, 32, 33, 127, 1003, 100_003):
            yield (unit * count).encode()
            yield (unit * count + "x").encode()
            yield ("x" + unit * count).encode()
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<|begin_of_text|>", "<tool_call>",
             "</tool_call>", "<think>", "<0x0A>", "<|reserved_special_token_3|>", "[INST]"]
    for name in names:
        for text in ("{}", " {} ", "a{}b", "{}{}", "{}\n", "\n{}"):
            yield text.replace("{}", name).encode()
    pieces = names + ["'S", "'\u017f", "'LL", "'Re", "don't", "12345", " 1", "\u0661\u0662", "\u216b", "\u00bd", "  ", "\n\n", " \n ", "\r",
                      "caf\u00e9", "cafe\u0301", "\ufb01", "\uac00", "\u1100\u1161", "\u212b", "\u0344", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
                      "\u2581", "_", "$", "\u20ac", "\u3000", "\u180e", "\u200b", "\ufeff", "\u0085", "x", "Hello", "hELLO"]
    for _ in range(20_000):
        yield "".join(rng.choices(pieces, k=rng.randrange(1, 24))).encode()
    for _ in range(2_000):
        yield "".join(rng.choices(everything[:0x3100] + everything[0xAC00:0xD7A4], k=rng.randrange(1, 200))).encode()
    for _ in range(3_000):
        yield bytes(rng.choices([0x61, 0x20, 0x80, 0xBF, 0xC0, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xED, 0xA0, 0xF0, 0x9F, 0x98, 0xF4,
                                 0xFF, 0xFE, 0x00], k=rng.randrange(1, 30)))


def write_inputs(folder, documents):
    """Valid texts as one JSONL file, others as files of their own. Returns the texts in the order of the tokens."""
    texts, others = [], []
    with open(folder / "0.jsonl", "w", encoding="utf-8") as lines:
        for document in documents:
            try:
                text = document.decode("utf-8")
            except UnicodeDecodeError:
                others.append(document)
                continue
            lines.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            texts.append(text)
    for i, document in enumerate(others):
        (folder / f"{i + 1:09}.txt").write_bytes(document)
    order = sorted((f"{i + 1:09}.txt", document) for i, document in enumerate(others))
    # "0.jsonl" sorts first: '.' is below '0'.
    return texts + [document.decode("utf-8", "replace") for _, document in order]


def reference(tokenizer, texts):
    if tokenizer.suffix == ".json":
        import tokenizers

        loaded = tokenizers.Tokenizer.from_file(str(tokenizer))
        loaded.encode_special_tokens = True
        for begin in range(0, len(texts), 1000):
            for encoding in loaded.encode_batch_fast(texts[begin:begin + 1000], add_special_tokens=False):
                yield encoding.ids
        return
    import base64

    import tiktoken

    ranks = {base64.b64decode(t): int(r) for t, r in (x.split() for x in tokenizer.read_bytes().splitlines() if x)}
    encoding = tiktoken.Encoding("compared", pat_str=PATTERNS[len(ranks)], mergeable_ranks=ranks, special_tokens={})
    for text in texts:
        yield encoding.encode_ordinary(text)


def read_tokens(prefix):
    index = prefix.with_suffix(".idx").read_bytes()
    code, sequences = index[17], struct.unpack_from("<Q", index, 18)[0]
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    tokens = memoryview(prefix.with_suffix(".bin").read_bytes()).cast({8: "H", 4: "i"}[code])
    at = 0
    for length in lengths:
        yield list(tokens[at:at + length])
        at += length


def compare(tessera, tokenizer, folder, texts):
    command = [tessera, "tokenize", "--tokenizer", tokenizer, "--input", folder / "in", "--output", folder / "out",
               "--invalid", "replace", "--json"]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    wrong = tokens = 0
    for text, ours, theirs in zip(texts, read_tokens(folder / "out"), reference(tokenizer, texts)):
        tokens += len(theirs)
        if ours[:-1] == theirs:
            continue
        wrong += 1
        if wrong <= 10:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours) - 1, len(theirs)))
            print(f"  differ at token {at}: ours {ours[at:at + 6]}, reference {theirs[at:at + 6]}: {text[:60]!r}")
    if report["documents"] != len(texts):
        sys.exit(f"{report['documents']} documents, {len(texts)} texts")
    size = sum(len(text.encode()) for text in texts)
    print(f"{tokenizer}: {len(texts)} documents, {size / 1e6:.1f} MB, {tokens} tokens, {wrong} documents differ "
          f"({report['seconds']:.1f} s)", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera", type=pathlib.Path)
    parser.add_argument("tokenizers", type=pathlib.Path, nargs="+")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--seed", type=int, default=1003)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "in").mkdir()
        made = list(made_documents(rng))
        found = found_documents(rng, options.megabytes * 1e6 - sum(map(len, made)))
        texts = write_inputs(folder / "in", [document for part in (made, found) for document in part])
        sys.exit(1 if sum([compare(options.tessera, t, folder, texts) for t in options.tokenizers]) else 0)


if __name__ == "__main__":
    main()
