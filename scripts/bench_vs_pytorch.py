#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same GPT on the same batch shape with PyTorch and with Tessera, in turns, and prints the ratio.

Model, batch and optimizer come from one config file. A step is everything: forward, loss, backward,
clipping, AdamW. Every run is a fresh process, so neither side warms the other's caches, and the peak of
its memory is the kernel's figure (ru_maxrss). PyTorch first tries each thread setting and keeps its best.

  scripts/bench_vs_pytorch.py                          both, five rounds
  scripts/bench_vs_pytorch.py --only pytorch           the PyTorch half alone
  scripts/bench_vs_pytorch.py --json                   one object on stdout
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THREAD_VARIABLES = ["OMP_NUM_THREADS", "BLIS_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
# What PyTorch's speed hangs on: its own team, and the team of the BLAS library below it, which reads the
# environment when it is loaded. None leaves the library's own choice.
THREAD_SETTINGS = {
    "as installed": {"team": None, "blas": None},
    "2 threads": {"team": 2, "blas": 2},
    "2 threads, 1 in BLAS": {"team": 2, "blas": 1},
    "1 thread, 2 in BLAS": {"team": 1, "blas": 2},
    "1 thread": {"team": 1, "blas": 1},
    "2 threads, 2 operations at once": {"team": 2, "blas": 2, "interop": 2},
}


def read_config(path):
    import tomllib

    with open(path, "rb") as file:
        config = tomllib.load(file)
    if "base" in config:
        sys.exit(f"error: {path}: this script reads one file; 'base' is not followed")
    model, train, optimizer = config["model"], config["train"], config["optimizer"]
    unsupported = {
        "architecture": model["architecture"] != "gpt",
        "tie_word_embeddings": not model.get("tie_word_embeddings", True),
        "attention_dropout": model.get("attention_dropout", 0) != 0,
        "hidden_dropout": model.get("hidden_dropout", 0) != 0,
        "precision.compute": config.get("precision", {}).get("compute", "fp32") != "fp32",
        "optimizer.type": optimizer.get("type", "adamw") != "adamw",
    }
    for key, wrong in unsupported.items():
        if wrong:
            sys.exit(f"error: {path}: {key}: the PyTorch side has only the tied fp32 GPT without dropout")
    hidden = model["hidden_size"]
    return {
        "vocab": model["vocab_size"],
        "hidden": hidden,
        "intermediate": model.get("intermediate_size", 4 * hidden),
        "layers": model["num_hidden_layers"],
        "heads": model["num_attention_heads"],
        "positions": model.get("max_position_embeddings", train["seq_length"]),
        "tanh_gelu": model.get("hidden_act", "gelu_new") == "gelu_new",
        "norm_eps": model.get("norm_eps", 1e-5),
        "init": model.get("initializer_range", 0.02),
        "length": train["seq_length"],
        "rows": train["micro_batch_size"],
        "micro_batches": micro_batches(train),
        "clip": train.get("grad_clip", 1.0),
        "lr": optimizer["lr"],
        "betas": optimizer.get("betas", [0.9, 0.95]),
        "eps": optimizer.get("eps", 1e-8),
        "decay": optimizer.get("weight_decay", 0.1),
    }


def micro_batches(train):
    if "gradient_accumulation_steps" in train:
        return train["gradient_accumulation_steps"]
    return max(1, train.get("global_batch_size", train["micro_batch_size"]) // train["micro_batch_size"])


# ---- the PyTorch side, in a process of its own -------------------------------------------------------


def build_model(torch, shape):
    nn, F = torch.nn, torch.nn.functional
    hidden, heads, length = shape["hidden"], shape["heads"], shape["length"]
    gelu = "tanh" if shape["tanh_gelu"] else "none"
    fused_attention = getattr(F, "scaled_dot_product_attention", None)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm = nn.LayerNorm(hidden, eps=shape["norm_eps"])
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.output = nn.Linear(hidden, hidden)
            self.mlp_norm = nn.LayerNorm(hidden, eps=shape["norm_eps"])
            self.up = nn.Linear(hidden, shape["intermediate"])
            self.down = nn.Linear(shape["intermediate"], hidden)
            if fused_attention is None:
                mask = torch.ones(length, length, dtype=torch.bool).triu(1)
                self.register_buffer("mask", mask, persistent=False)

        def attention(self, x):
            rows, positions, _ = x.shape
            q, k, v = self.qkv(x).split(hidden, dim=2)
            q, k, v = (t.view(rows, positions, heads, -1).transpose(1, 2) for t in (q, k, v))
            if fused_attention is not None:
                y = fused_attention(q, k, v, is_causal=True)
            else:
                scores = (q @ k.transpose(-2, -1)) * (hidden // heads) ** -0.5
                y = scores.masked_fill(self.mask, float("-inf")).softmax(-1) @ v
            return self.output(y.transpose(1, 2).reshape(rows, positions, hidden))

        def forward(self, x):
            x = x + self.attention(self.attention_norm(x))
            return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate=gelu))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(shape["vocab"], hidden)
            self.position = nn.Embedding(shape["positions"], hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.final_norm = nn.LayerNorm(hidden, eps=shape["norm_eps"])
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=shape["init"])

        def forward(self, tokens, targets):
            x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.final_norm(x), self.token.weight)
            return F.cross_entropy(logits.view(-1, shape["vocab"]), targets.view(-1))

    return Gpt()


def build_optimizer(torch, model, shape):
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": shape["decay"]}, {"params": vectors, "weight_decay": 0.0}]
    options = {"lr": shape["lr"], "betas": tuple(shape["betas"]), "eps": shape["eps"]}
    try:
        return torch.optim.AdamW(groups, foreach=True, **options)
    except TypeError:  # PyTorch before 1.12
        return torch.optim.AdamW(groups, **options)


def pytorch_worker(options):
    import torch

    shape = json.loads(options.worker)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.interop_threads:
        torch.set_num_interop_threads(options.interop_threads)
    torch.manual_seed(1234)
    model = build_model(torch, shape)
    optimizer = build_optimizer(torch, model, shape)
    tokens_per_step = shape["micro_batches"] * shape["rows"] * shape["length"]

    def step():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(shape["micro_batches"]):
            data = torch.randint(shape["vocab"], (shape["rows"], shape["length"] + 1))
            loss = model(data[:, :-1], data[:, 1:].contiguous()) / shape["micro_batches"]
            loss.backward()
        if shape["clip"] > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), shape["clip"])
        optimizer.step()
        return float(loss)

    step()
    seconds = []
    for _ in range(options.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "tokens_per_second": tokens_per_step / statistics.median(seconds),
        "step_seconds": seconds,
        "parameters": sum(p.numel() for p in model.parameters()),
        "version": torch.__version__,
        "fused_attention": hasattr(torch.nn.functional, "scaled_dot_product_attention"),
    }))


# ---- the parent: starts both sides in turns ----------------------------------------------------------


def run_child(command, environment=None):
    """The JSON object that a command prints, with the peak of its resident memory."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"error: exit {child.returncode} from: {' '.join(command)}")
    result = json.loads(text)
    result["resident_peak_bytes"] = usage.ru_maxrss * 1024
    return result


def run_pytorch(options, shape, setting, steps):
    threads = THREAD_SETTINGS[setting]
    command = [options.python, __file__, "--worker", json.dumps(shape), "--steps", str(steps)]
    if threads["team"]:
        command += ["--threads", str(threads["team"]), "--interop-threads", str(threads.get("interop", 1))]
    environment = dict(os.environ)
    if threads["blas"]:
        environment.update(dict.fromkeys(THREAD_VARIABLES, str(threads["blas"])))
    return run_child(command, environment)


def run_tessera(options):
    return run_child([options.tessera, "bench", "step", "--config", str(options.config), "--json",
                      "--warmup", "1", "--steps", str(options.steps)])


def best_thread_setting(options, shape, say):
    """Two passes over all settings, so that one burst of other work cannot rule out the best."""
    rates = dict.fromkeys(THREAD_SETTINGS, 0.0)
    for _ in range(2):
        for setting in THREAD_SETTINGS:
            rate = run_pytorch(options, shape, setting, 2)["tokens_per_second"]
            rates[setting] = max(rates[setting], rate)
    for setting, rate in rates.items():
        say(f"pytorch, {setting}: {rate:.0f} tokens/s")
    return max(rates, key=rates.get)


def summary(runs):
    figures = {
        "tokens_per_second": statistics.median(r["tokens_per_second"] for r in runs),
        "tokens_per_second_all": [r["tokens_per_second"] for r in runs],
        "resident_peak_bytes": max(r["resident_peak_bytes"] for r in runs),
    }
    for key in ("matmul_peak_share", "peak_memory_bytes"):
        if key in runs[0]:
            figures[key] = statistics.median(r[key] for r in runs)
    return figures


def compare(options):
    def say(line):
        print(line, file=sys.stderr, flush=True)

    shape = read_config(options.config)
    result = {"config": str(options.config), "rounds": options.rounds}
    with_pytorch, with_tessera = options.only != "tessera", options.only != "pytorch"
    runs = {"pytorch": [], "tessera": []}
    if with_pytorch:
        setting = options.setting or best_thread_setting(options, shape, say)
        result["pytorch_threads"] = setting
    for index in range(options.rounds):
        line = f"round {index + 1}:"
        if with_pytorch:
            runs["pytorch"].append(run_pytorch(options, shape, setting, options.steps))
            line += f" pytorch {runs['pytorch'][-1]['tokens_per_second']:.0f}"
        if with_tessera:
            runs["tessera"].append(run_tessera(options))
            line += f" tessera {runs['tessera'][-1]['tokens_per_second']:.0f}"
        say(line + " tokens/s")
    for side, side_runs in runs.items():
        if side_runs:
            result[side] = summary(side_runs)
    if with_pytorch:
        result["pytorch"]["version"] = runs["pytorch"][0]["version"]
        result["pytorch"]["parameters"] = runs["pytorch"][0]["parameters"]
    if with_pytorch and with_tessera:
        result["ratio"] = statistics.median(
            t["tokens_per_second"] / p["tokens_per_second"] for p, t in zip(runs["pytorch"], runs["tessera"]))
        result["memory_ratio"] = (result["tessera"]["resident_peak_bytes"]
                                  / result["pytorch"]["resident_peak_bytes"])
    return result


def print_table(result):
    print(f"{'':10} {'tokens/s':>10} {'resident peak':>15}")
    for side in ("pytorch", "tessera"):
        if side in result:
            figures = result[side]
            print(f"{side:10} {figures['tokens_per_second']:10.1f}"
                  f" {figures['resident_peak_bytes'] / 2**20:11.0f} MiB")
    if "pytorch" in result:
        print(f"PyTorch {result['pytorch']['version']}, {result['pytorch_threads']},"
              f" {result['pytorch']['parameters']:,} parameters")
    if "matmul_peak_share" in result.get("tessera", {}):
        print(f"Tessera reaches {result['tessera']['matmul_peak_share']:.1%} of the measured matmul peak")
    if "ratio" in result:
        print(f"ratio {result['ratio']:.2f} in speed, {result['memory_ratio']:.2f} in memory"
              f" (medians of {result['rounds']} alternating runs)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs/bench/gpt_14m.toml")
    parser.add_argument("--tessera", default=str(ROOT / "build/release/bin/tessera"), help="the program to run")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that has PyTorch")
    parser.add_argument("--only", choices=["pytorch", "tessera"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="timed steps of one run, after one more")
    parser.add_argument("--setting", choices=THREAD_SETTINGS, help="skip the search for the best")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--interop-threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        pytorch_worker(options)
        return
    result = compare(options)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
