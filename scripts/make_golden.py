#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values of small GPT and Llama models: loss, every gradient, weights after three AdamW steps.

An independent implementation in PyTorch, in double precision, under the parameter names of docs. Writes
tests/fixtures/golden/CASE.json (config, batches, figures, index of tensors) and CASE.bin (the tensors).
Run it again only when the model itself is meant to change: scripts/make_golden.py
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "golden"

BASE = dict(
    vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
    num_key_value_heads=3, head_dim=8, max_position_embeddings=16, hidden_act="gelu_new", mlp_gated=False,
    norm="layernorm", norm_eps=1e-5, position="learned", attention_bias=True, mlp_bias=True,
    tie_word_embeddings=True, qk_norm=False)
LLAMA = dict(BASE, num_key_value_heads=1, hidden_act="silu", mlp_gated=True, norm="rmsnorm", norm_eps=1e-6,
             position="rope", attention_bias=False, mlp_bias=False, tie_word_embeddings=False)
# case: (architecture, [model], [model.rope], [model.rope.scaling], label smoothing)
CASES = {
    "gpt": ("gpt", BASE, {}, {}, 0.0),
    "gpt_variant": ("gpt", dict(BASE, tie_word_embeddings=False, hidden_act="gelu", sliding_window=5,
                                num_hidden_layers=3, hidden_size=18, head_dim=6), {}, {}, 0.1),
    "llama": ("llama", LLAMA, {"theta": 500.0},
              {"type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32,
               "low_freq_factor": 1.0, "high_freq_factor": 4.0}, 0.0),
    "llama_norms": ("llama", dict(LLAMA, qk_norm=True, tie_word_embeddings=True, attention_bias=True,
                                  num_attention_heads=4, num_key_value_heads=2, head_dim=10),
                    {"theta": 200.0, "partial_rotary_factor": 0.8},
                    {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0,
                     "beta_slow": 1.0, "attention_factor": 0.1 * math.log(4.0) + 1.0}, 0.0),
    "llama_window": ("llama", dict(LLAMA, sliding_window=4, num_hidden_layers=3, hidden_size=16,
                                   intermediate_size=24), {"theta": 10000.0},
                     {"type": "linear", "factor": 2.5}, 0.05),
}
LENGTH = 13
DOCUMENTS = [[1, 7, 5], [13]]
STEPS = 3
# eps is large: the true gradient of a key bias is zero, and no step may be made of its rounding.
OPTIMIZER = dict(lr=[1e-3, 3e-3, 2e-3], betas=[0.9, 0.95], eps=1e-5, weight_decay=0.1, grad_clip=1.0)


def shapes(m):
    """Logical parameters in declaration order: name -> (shape, decays)."""
    h, i = m["hidden_size"], m["intermediate_size"]
    q, kv = m["num_attention_heads"] * m["head_dim"], m["num_key_value_heads"] * m["head_dim"]
    out = {"embedding.token.weight": ([m["vocab_size"], h], True)}
    if m["position"] == "learned":
        out["embedding.position.weight"] = ([m["max_position_embeddings"], h], True)

    def norm(name, width=h, bias=m["norm"] == "layernorm"):
        out[name + ".weight"] = ([width], False)
        if bias:
            out[name + ".bias"] = ([width], False)

    def linear(name, rows, columns, bias):
        out[name + ".weight"] = ([rows, columns], True)
        if bias:
            out[name + ".bias"] = ([rows], False)

    for n in range(m["num_hidden_layers"]):
        a, p = f"blocks.{n}.attention", f"blocks.{n}.mlp"
        norm(f"blocks.{n}.attention_norm")
        linear(a + ".query", q, h, m["attention_bias"])
        linear(a + ".key", kv, h, m["attention_bias"])
        linear(a + ".value", kv, h, m["attention_bias"])
        if m["qk_norm"]:
            norm(a + ".query_norm", m["head_dim"], False)
            norm(a + ".key_norm", m["head_dim"], False)
        linear(a + ".output", h, q, m["attention_bias"])
        norm(f"blocks.{n}.mlp_norm")
        if m["mlp_gated"]:
            linear(p + ".gate", i, h, m["mlp_bias"])
        linear(p + ".up", i, h, m["mlp_bias"])
        linear(p + ".down", h, i, m["mlp_bias"])
    norm("final_norm")
    if not m["tie_word_embeddings"]:
        out["output.weight"] = ([m["vocab_size"], h], True)
    return out


def rope_tables(m, rope, scaling):
    """cos and sin, [LENGTH, rotary / 2]; the scalings as their papers and Hugging Face define them."""
    dim = int(m["head_dim"] * rope.get("partial_rotary_factor", 1.0))
    inverse = 1.0 / rope["theta"] ** (torch.arange(0, dim, 2) / dim)
    size = 1.0
    kind = scaling.get("type")
    if kind == "linear":
        inverse = inverse / scaling["factor"]
    elif kind == "llama3":
        old = scaling["original_max_position_embeddings"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        wavelength = 2 * math.pi / inverse
        smooth = (old / wavelength - low) / (high - low)
        blended = (1 - smooth) * inverse / scaling["factor"] + smooth * inverse
        medium = (wavelength <= old / low) & (wavelength >= old / high)
        inverse = torch.where(wavelength > old / low, inverse / scaling["factor"],
                              torch.where(medium, blended, inverse))
    elif kind == "yarn":
        old = scaling["original_max_position_embeddings"]

        def correction(rotations):
            return dim * math.log(old / (rotations * 2 * math.pi)) / (2 * math.log(rope["theta"]))

        low = max(math.floor(correction(scaling["beta_fast"])), 0)
        high = min(math.ceil(correction(scaling["beta_slow"])), dim - 1)
        ramp = ((torch.arange(dim // 2) - low) / (high - low if high != low else 0.001)).clamp(0, 1)
        keep = 1 - ramp
        inverse = inverse / scaling["factor"] * (1 - keep) + inverse * keep
        size = scaling["attention_factor"]
    angles = torch.outer(torch.arange(LENGTH).double(), inverse)
    return angles.cos() * size, angles.sin() * size


def rotate(x, cos, sin):
    """x [rows, length, heads, head_dim]: halves against each other in the leading columns."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    c, s = cos[:, :, None, :], sin[:, :, None, :]
    return torch.cat([a * c - b * s, b * c + a * s, rest], dim=-1)


def forward(w, m, rope, scaling, tokens, positions, document):
    rows, length = tokens.shape
    heads, kv_heads, d = m["num_attention_heads"], m["num_key_value_heads"], m["head_dim"]

    def norm(x, name):
        if m["norm"] == "layernorm":
            return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], m["norm_eps"])
        return rms(x, w[name + ".weight"])

    def rms(x, gain):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + m["norm_eps"]) * gain

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    def activation(x):
        if m["hidden_act"] == "silu":
            return F.silu(x)
        return F.gelu(x, approximate="tanh" if m["hidden_act"] == "gelu_new" else "none")

    x = w["embedding.token.weight"][tokens]
    if m["position"] == "learned":
        x = x + w["embedding.position.weight"][positions]
    else:
        cos, sin = rope_tables(m, rope, scaling)
        cos, sin = cos[positions], sin[positions]
    i = torch.arange(length)
    visible = (i[None, :] <= i[:, None]) & (document[:, :, None] == document[:, None, :])
    if m.get("sliding_window"):
        visible = visible & (i[:, None] - i[None, :] < m["sliding_window"])
    for n in range(m["num_hidden_layers"]):
        a = f"blocks.{n}.attention"
        y = norm(x, f"blocks.{n}.attention_norm")
        q = linear(y, a + ".query").view(rows, length, heads, d)
        k = linear(y, a + ".key").view(rows, length, kv_heads, d)
        v = linear(y, a + ".value").view(rows, length, kv_heads, d)
        if m["qk_norm"]:
            q, k = rms(q, w[a + ".query_norm.weight"]), rms(k, w[a + ".key_norm.weight"])
        if m["position"] == "rope":
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k = k.repeat_interleave(heads // kv_heads, dim=2)
        v = v.repeat_interleave(heads // kv_heads, dim=2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(d)
        scores = scores.masked_fill(~visible[:, None], float("-inf"))
        y = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).reshape(rows, length, heads * d)
        x = x + linear(y, a + ".output")
        p = f"blocks.{n}.mlp"
        y = norm(x, f"blocks.{n}.mlp_norm")
        u = linear(y, p + ".up")
        u = activation(linear(y, p + ".gate")) * u if m["mlp_gated"] else activation(u)
        x = x + linear(u, p + ".down")
    head = "embedding.token.weight" if m["tie_word_embeddings"] else "output.weight"
    return F.linear(norm(x, "final_norm"), w[head])


def make_batch(m, generator):
    tokens = torch.randint(0, m["vocab_size"], (len(DOCUMENTS), LENGTH), generator=generator)
    positions, document = torch.zeros_like(tokens), torch.zeros_like(tokens)
    targets = torch.full_like(tokens, -1)
    weights = torch.randint(0, 4, tokens.shape, generator=generator) / 2.0  # 0, 0.5, 1 or 1.5
    for row, lengths in enumerate(DOCUMENTS):
        start = 0
        for number, count in enumerate(lengths):
            end = start + count
            positions[row, start:end] = torch.arange(count)
            document[row, start:end] = number
            targets[row, start:end - 1] = tokens[row, start + 1:end]
            weights[row, end - 1] = 0
            start = end
    return tokens, positions, document, targets, weights


def loss_of(w, m, rope, scaling, smoothing, batch):
    tokens, positions, document, targets, weights = batch
    logits = forward(w, m, rope, scaling, tokens, positions, document)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten().clamp(min=0), reduction="none",
                             label_smoothing=smoothing)
    return (losses * weights.flatten()).sum() / weights.sum()


def run_case(name, architecture, m, rope, scaling, smoothing):
    generator = torch.Generator().manual_seed(sum(name.encode()))
    table = shapes(m)
    w = {}
    for key, (shape, _) in table.items():
        start = 1.0 if "norm" in key and key.endswith(".weight") else 0.0
        values = start + torch.randn(shape, generator=generator) * (0.1 if len(shape) == 1 else 0.15)
        w[key] = values.float().double().requires_grad_()  # fp32 holds the start exactly
    initial = {key: value.detach().clone() for key, value in w.items()}
    groups = [{"params": [w[k] for k in table if table[k][1]], "weight_decay": OPTIMIZER["weight_decay"]},
              {"params": [w[k] for k in table if not table[k][1]], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=OPTIMIZER["betas"], eps=OPTIMIZER["eps"])
    batches, losses, norms = [], [], []
    first_gradients = {}
    for step in range(STEPS):
        batch = make_batch(m, generator)
        batches.append({"tokens": batch[0].tolist(), "weights": batch[4].tolist()})
        optimizer.zero_grad()
        loss = loss_of(w, m, rope, scaling, smoothing, batch)
        loss.backward()
        if step == 0:
            first_gradients = {key: value.grad.clone() for key, value in w.items()}
        norm = math.sqrt(sum(float(value.grad.pow(2).sum()) for value in w.values()))
        for value in w.values():
            value.grad.mul_(min(1.0, OPTIMIZER["grad_clip"] / norm))
        for group in optimizer.param_groups:
            group["lr"] = OPTIMIZER["lr"][step]
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm)

    blob, index = bytearray(), []
    for key, (shape, decays) in table.items():
        entry = {"name": key, "shape": shape, "decays": decays, "offset": len(blob)}
        blob += initial[key].float().numpy().tobytes()
        blob += first_gradients[key].numpy().tobytes()
        blob += w[key].detach().numpy().tobytes()
        index.append(entry)
    (OUT / f"{name}.bin").write_bytes(bytes(blob))
    document = {"torch": torch.__version__, "architecture": architecture, "model": m, "rope": rope,
                "scaling": scaling, "label_smoothing": smoothing, "length": LENGTH, "documents": DOCUMENTS,
                "optimizer": OPTIMIZER, "batches": batches, "losses": losses, "gradient_norms": norms,
                "tensors": index}
    (OUT / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"{name}: losses {losses}, gradient norms {norms}, {len(blob)} bytes")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for case, values in CASES.items():
        run_case(case, *values)
