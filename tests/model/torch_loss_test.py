"""Compares our training with PyTorch's: equal weights, batches and optimizer settings must give equal losses.

torch_loss_test.py DUMP_PROGRAM [CASE...]      exits 77 (skipped) if PyTorch cannot be imported

The bounds. A loss in float32 is rounded at every operation, and training carries differences on. How far two correct
float32 runs drift apart depends on the model and the number of steps, so this test measures it. PyTorch runs twice, in
float32 and in float64, and the float64 run is taken as exact. The largest relative distance of PyTorch's float32 losses
from it is the drift that rounding explains. The distance of our losses from the float64 run may be 8 times that drift,
because the same roundings come in another order and other processors need room; or it may be 1e-6, a few units in the
last place of a loss. In addition, every loss must be within a relative 1e-4 of PyTorch's float32 loss, at every step.
(Measured: 1.4e-7 over 50 steps and 3.2e-7 over 300.)
"""
import array
import json
import math
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
try:
    import numpy
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: PyTorch cannot be imported by {sys.executable} ({error}). Debian's package is python3-torch.")
    sys.exit(SKIPPED)

DRIFT_FACTOR = 8
DRIFT_FLOOR = 1e-6

LOSS_BOUND = 1e-4
NORM_BOUND = 1e-4  # for the gradient norms of the first steps: under Adam a gradient of wrong size hardly changes the losses

# name: (n_layer, n_embd, n_head, vocab_size, block_size, batch_size, steps, dropout, head)
CASES = {
    "fifty_steps": (2, 64, 4, 211, 32, 4, 50, 0, "tied"),
    "three_hundred_steps": (2, 32, 2, 61, 16, 4, 300, 0, "tied"),
    "dropout": (2, 64, 4, 211, 32, 4, 50, 0.2, "tied"),
    "own_head": (2, 64, 4, 211, 32, 4, 50, 0, "own"),
}

def mixed(x):
    """splitmix64's finisher of an array of uint64, whose products are modulo 2^64."""
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def halves(x):
    return x & numpy.uint64(0xFFFFFFFF)


def dropout_factors(run, step, site, rows, columns, dtype):
    """What each element of a site (rows, columns) is multiplied by in a step: "Dropout" in ops/MANUAL.md, written anew."""
    if run["dropout"] == 0:
        return 1
    key = numpy.array([run["seed"]], dtype=numpy.uint64)
    for part in (0, step, 0):  # the seed alone, the step, the microbatch
        key = mixed(key + numpy.uint64(part) + numpy.uint64(0x9E3779B97F4A7C15))
    keys = mixed(key + numpy.uint64(site << 40) + numpy.arange(rows, dtype=numpy.uint64))[:, None]
    x = halves(halves(keys) + halves(numpy.arange(columns, dtype=numpy.uint64) * numpy.uint64(0x9E3779B9)))
    x = halves((x ^ (x >> numpy.uint64(16))) * numpy.uint64(0x85EBCA6B))
    x ^= x >> numpy.uint64(13)
    x = halves((x ^ (keys >> numpy.uint64(32))) * numpy.uint64(0xC2B2AE35))
    x ^= x >> numpy.uint64(16)
    kept = torch.tensor(x >= numpy.uint64(int(run["dropout"] * 2 ** 32 + 0.5)))
    return kept * torch.tensor(1 / (1 - run["dropout"]), dtype=torch.float32).to(dtype)


def gpt2_loss(p, run, step, inputs, targets):
    """GPT-2 as formulas over the dictionary of parameters p: pre-LayerNorm, GELU (tanh), learned positions."""
    C, NH = run["n_embd"], run["n_head"]
    B, T = inputs.shape
    later = torch.ones(T, T, dtype=torch.bool).triu(1)

    def linear(x, name):
        return F.linear(x, p[name + ".weight"], p[name + ".bias"])

    def norm(x, name):
        return F.layer_norm(x, (C,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

    def attention(x, name):
        q, k, v = (t.view(B, T, NH, C // NH).transpose(1, 2) for t in linear(x, name + ".c_attn").split(C, 2))
        scores = (q @ k.transpose(2, 3) / math.sqrt(C // NH)).masked_fill(later, -math.inf)
        weights = scores.softmax(3).reshape(B * NH * T, T)
        weights = (weights * dropout_factors(run, step, 1 + 3 * layer, B * NH * T, T, x.dtype)).view(B, NH, T, T)
        return linear((weights @ v).transpose(1, 2).reshape(B, T, C), name + ".c_proj")

    def dropped(x, site):
        return (x.reshape(B * T, C) * dropout_factors(run, step, site, B * T, C, x.dtype)).view(B, T, C)

    x = dropped(p["wte.weight"][inputs] + p["wpe.weight"][:T], 0)
    for layer in range(run["n_layer"]):
        h = f"h.{layer}"
        x = x + dropped(attention(norm(x, h + ".ln_1"), h + ".attn"), 2 + 3 * layer)
        x = x + dropped(linear(gelu(linear(norm(x, h + ".ln_2"), h + ".mlp.c_fc")), h + ".mlp.c_proj"), 3 + 3 * layer)
    logits = norm(x, "ln_f") @ p.get("lm_head.weight", p["wte.weight"]).t()
    return F.cross_entropy(logits.view(B * T, -1), targets.reshape(-1))


def read_binary(path, typecode):
    values = array.array(typecode)
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


def torch_losses(folder, run, dtype):
    """Losses and gradient norms of PyTorch's training from what the dump program wrote."""
    weights = torch.tensor(read_binary(f"{folder}/weights.bin", "f"), dtype=torch.float32).to(dtype)
    p = {e["name"]: weights[e["offset"]:e["offset"] + e["count"]].view(e["shape"]).clone().requires_grad_()
         for e in run["table"]}
    shape = (run["steps"], run["batch_size"], run["block_size"])
    inputs, targets = (torch.tensor(read_binary(f"{folder}/{name}.bin", "i"), dtype=torch.int64).view(shape)
                       for name in ("inputs", "targets"))
    settings = run["optimizer"]
    groups = [{"params": [p[e["name"]] for e in run["table"] if e["decay"] == decay],
               "weight_decay": settings["weight_decay"] if decay else 0.0} for decay in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"])
    losses, norms = [], []
    for step, rate in enumerate(settings["learning_rates"]):
        optimizer.zero_grad()
        loss = gpt2_loss(p, run, step, inputs[step], targets[step])
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(p.values()), settings["grad_clip"])))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, norms


def largest_difference(ours, theirs):
    """The largest relative difference, and its step."""
    differences = [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]
    worst = max(range(len(differences)), key=differences.__getitem__)
    return differences[worst], worst


def compare(name, ops, run, single, exact):
    """True when our losses are within both bounds, and fall; prints what was found."""
    ours = run["losses"]
    against_single, single_step = largest_difference(ours, single)
    against_exact, exact_step = largest_difference(ours, exact)
    drift, _ = largest_difference(single, exact)
    allowed = max(DRIFT_FACTOR * drift, DRIFT_FLOOR)
    print(f"{name} {ops}: loss {ours[0]:.4f} -> {ours[-1]:.4f}; from PyTorch float32 at most {against_single:.2e} "
          f"(step {single_step}, bound {LOSS_BOUND:.0e}); from float64 at most {against_exact:.2e} (step {exact_step}, "
          f"PyTorch float32 {drift:.2e}, bound {allowed:.2e})")
    return against_single < LOSS_BOUND and against_exact < allowed and ours[-1] < ours[0] - 0.5


def run_case(program, name):
    passed = True
    reference = None
    for ops in ("ref", "cpu"):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, folder, ops, *map(str, CASES[name])], check=True)
            with open(f"{folder}/run.json", encoding="utf-8") as file:
                run = json.load(file)
            if reference is None:  # weights and batches do not depend on the op set
                reference = [torch_losses(folder, run, dtype) for dtype in (torch.float32, torch.float64)]
            (single, _), (exact, exact_norms) = reference
            passed &= compare(name, ops, run, single, exact)
            difference, step = largest_difference(run["gradient_norms"][:5], exact_norms[:5])
            print(f"{name} {ops}: gradient norm of the first 5 steps within {difference:.2e} (step {step}, bound {NORM_BOUND:.0e})")
            passed &= difference < NORM_BOUND
    return passed


def main():
    torch.set_num_threads(1)
    program, names = sys.argv[1], sys.argv[2:] or list(CASES)
    results = [run_case(os.path.abspath(program), name) for name in names]
    print("passed" if all(results) else "FAILED: a difference above is beyond its bound")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
