#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the small tokenizers of tests/fixtures/tokenizer and what the reference libraries encode with them.

Needs `pip install tokenizers tiktoken`. Each kind has the parts of a published family; the vocabularies are trained on
data/corpus.txt and have some hundred tokens. golden.json holds {"texts": [...], "ids": {kind: [[...], ...]}}.
"""
import base64
import json
import pathlib
import random

import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests/fixtures/tokenizer"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
SPACE = "\u2581"
EXTRA = ["caf\u00e9 na\u00efve \u4e2d\u6587 \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \U0001f600 don't 12345 x = y + 1;\n\tif (a) { b(); }\n"] * 40


def corpus():
    return [(ROOT / "data/corpus.txt").read_text()[:120_000], *EXTRA]


def byte_level(pre_tokenizer, controls, vocab=600, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=controls, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return json.loads(tokenizer.to_str())


def split(pattern, *before):
    parts = [*before, pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    return pre_tokenizers.Sequence(parts)


def byte_fallback(**parts):
    """Characters, and bytes for those that are too rare."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>", "<s>", "</s>", *bytes_of], limit_alphabet=90, show_progress=False))
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = content["added_tokens"][:3]
    content.update(pre_tokenizer=None, **parts)
    content["decoder"] = json.loads(json.dumps({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}))
    return content


def replace_spaces():
    return {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}


def add_token(content, text, **flags):
    vocab = content["model"]["vocab"]
    next_id = max([*vocab.values(), *(token["id"] for token in content["added_tokens"])]) + 1
    content["added_tokens"].append({"id": next_id, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                                    "normalized": False, "special": False, **flags})


def kinds():
    gpt2 = byte_level(pre_tokenizers.ByteLevel(False), ["<|endoftext|>"])
    # The older way to write merges.
    gpt2["model"]["merges"] = [pair if isinstance(pair, str) else " ".join(pair) for pair in gpt2["model"]["merges"]]
    llama3 = byte_level(split(CL100K), [])
    llama3["model"]["ignore_merges"] = True
    # A token that no merges lead to, for which whole words are looked up.
    llama3["model"]["vocab"]["\u0120quixotic"] = 600
    for name in ("<|begin_of_text|>", "<|end_of_text|>"):
        add_token(llama3, name, special=True)
    qwen = byte_level(split(QWEN), [], normalizer=normalizers.NFC())
    add_token(qwen, "<|endoftext|>", special=True)
    add_token(qwen, "<tool_call>")
    neox = byte_level(pre_tokenizers.ByteLevel(True), ["<|endoftext|>"])
    for count in (2, 4):
        add_token(neox, " " * count, normalized=True)
    add_token(neox, "word", single_word=True)
    add_token(neox, "<left>", lstrip=True)
    add_token(neox, "<right>", rstrip=True)
    digits = byte_level(split(r"[\u4e00-\u9fa5]+", pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("contiguous")),
                        ["<|endoftext|>"])
    prepend = {"type": "Prepend", "prepend": SPACE}
    llama2 = byte_fallback(normalizer={"type": "Sequence", "normalizers": [prepend, replace_spaces()]})
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
    mistral = byte_fallback(normalizer=None)
    mistral["pre_tokenizer"] = metaspace
    gemma = byte_fallback(normalizer=replace_spaces())
    gemma["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    gemma["decoder"]["decoders"].pop()
    pieces = byte_fallback(normalizer=None)
    pieces["pre_tokenizer"] = {**metaspace, "prepend_scheme": "always", "split": True}
    return {"gpt2": gpt2, "llama3": llama3, "qwen": qwen, "neox": neox, "digits": digits, "llama2": llama2,
            "mistral": mistral, "gemma": gemma, "pieces": pieces}


def texts():
    rng = random.Random(1003)
    fixed = ["", "a", " ", "\n", "\0", "Hello world", " Hello  world ", "don't DON'T I'LL we've '\u017f", "12345 1 22 333",
             "x\n\n\ny \n z\r\n\tw", "caf\u00e9 cafe\u0301 \u212b \uac00 \u1100\u1161\u11a8", "\u4e2d\u6587 \u65e5\u672c\u8a9e", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
             "<|endoftext|>", "a<|endoftext|>b", "<s>x</s><unk>", "<0x0A>", "<tool_call>x<tool_call>", " <tool_call> ",
             "<|begin_of_text|> <|end_of_text|>", "a   b    c     d", "word sword word, words", "x <left> y", "x <right> y",
             SPACE, SPACE + "a " + SPACE, "quixotic quixotic", "\ufeffbom", "\u3000\u00a0\u0085\u2028.", "a" * 300, " " * 300,
             "\n" * 300, "^" * 300, "\U0001f600" * 100, "\u200d" * 100, "ab" * 200, "e\u0301\u0323" * 60, "x" + " " * 100 + "y", "0" * 100,
             "\U00010d40\U0001e4d0\U00031350 \U0001e08f\u0301", "x;\n\tif (a) { b(); }\n}\n", "\u0661\u0662\u00bd\u216b"]
    pieces = [*" \n\t'<>|.,aeiouXYZ019", "the", " the", "'s", "\u00e9", "\u0301", "\u4e2d", "\U0001f600", "<tool_call>", SPACE, "\r\n", "\0", "\u200b"]
    return fixed + ["".join(rng.choices(pieces, k=rng.randrange(1, 40))) for _ in range(150)]


def encode(content, samples):
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.encode_special_tokens = True
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in samples]


def rank_file(content):
    """The tokens of a byte-level file in the order of their ids, as tiktoken writes them."""
    alphabet = {character: byte for byte, character in byte_characters().items()}
    vocab = sorted((i, token) for token, i in content["model"]["vocab"].items() if set(token) <= set(alphabet))
    singles = [bytes([byte]) for byte in range(256)]
    longer = [bytes(alphabet[c] for c in token) for _, token in vocab]
    return {token: rank for rank, token in enumerate(singles + [token for token in longer if len(token) > 1])}


def byte_characters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + len(table) - len(printable))
    return table


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    samples, ids = texts(), {}
    made = kinds()
    for name, content in made.items():
        (FOLDER / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False) + "\n")
        ids[name] = encode(content, samples)
    ranks = rank_file(made["llama3"])
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()]
    (FOLDER / "small.tiktoken").write_text("".join(lines))
    encoding = tiktoken.Encoding("small", pat_str=CL100K, mergeable_ranks=ranks, special_tokens={})
    ids["small.tiktoken"] = [encoding.encode_ordinary(text) for text in samples]
    rows = ",\n".join(f' "{name}": {json.dumps(lists, separators=(",", ":"))}' for name, lists in ids.items())
    golden = f'{{"texts": {json.dumps(samples)},\n"ids": {{\n{rows}\n}}}}\n'
    (FOLDER / "golden.json").write_text(golden)
    print(f"{len(samples)} texts, {len(ids)} tokenizers in {FOLDER}")


if __name__ == "__main__":
    main()
