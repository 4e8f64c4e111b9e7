"""nanoGPT's training loop in plain PyTorch: random windows, AdamW with decay on matrices, warm-up and cosine, clipping.

recipe.py TRAIN VALID --layers 4 --channels 128 --heads 4 --block 64 --batch 12 --steps 2000 [--vocabulary 128] [--dropout 0.2]
          [--seed 1] [--threads N] [--only STEPS] [--biases off] [--head own] [--schedule cosine|linear|constant|wsd]
          [--prolong 1] [--eval_every N] [--dtype bfloat16]

TRAIN, VALID: token files of uint16. Prints one JSON object: seconds of a step (the median of the second half), and the mean loss over every window of VALID,
one after the other, unless --only ends it early; then the steps alone are of use. "train_s": from where PyTorch is
loaded to the end of the last step. With --eval_every also "curve", that loss by step. With
--prolong it goes on for as many steps, and warms up again from the least rate."""
import argparse
import json
import math
import statistics
import time

import numpy
import torch

from gpt2 import GPT2

RATE, LEAST_RATE, WARMUP, BETAS, DECAY, CLIP = 1e-3, 1e-4, 100, (0.9, 0.99), 0.1, 1.0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("train")
    parser.add_argument("valid")
    for name, value in (("layers", 4), ("channels", 128), ("heads", 4), ("block", 64), ("batch", 12), ("steps", 2000), ("vocabulary", 256), ("seed", 1), ("threads", 1), ("only", 0), ("prolong", 0), ("eval_every", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--biases", choices=("on", "off"), default="on")
    parser.add_argument("--head", choices=("tied", "own"), default="tied")
    parser.add_argument("--schedule", choices=("cosine", "linear", "constant", "wsd"), default="cosine")
    return parser.parse_args()


def rate_at(step, steps, schedule):
    """A step from `steps` on is of a run that is prolonged by as many."""
    lowest, step = (LEAST_RATE, step - steps) if step >= steps else (0, step)
    warm = min(WARMUP, steps // 2)
    if step < warm:
        return lowest + (RATE - lowest) * (step + 1) / (warm + 1)
    if schedule == "constant":
        return RATE
    first = steps - steps // 10 if schedule == "wsd" else warm
    share = max(0, step - first) / max(1, steps - first)
    return LEAST_RATE + (RATE - LEAST_RATE) * (0.5 * (1 + math.cos(math.pi * share)) if schedule == "cosine" else 1 - share)


def mean_loss(model, valid, options):
    model.eval()
    windows = (len(valid) - 1) // options.block
    total = 0.0
    with torch.no_grad():
        for first in range(0, windows, 64):
            count = min(64, windows - first)
            part = valid[first * options.block:(first + count) * options.block + 1]
            total += model(part[:-1].view(count, -1), part[1:].view(count, -1)).item() * count
    return total / windows


def adamw(groups):
    try:
        return torch.optim.AdamW(groups, lr=RATE, betas=BETAS, fused=True)  # on CPUs from PyTorch 2.4 on
    except (RuntimeError, TypeError):
        return torch.optim.AdamW(groups, lr=RATE, betas=BETAS)


def main():
    options = parse()
    begun = time.perf_counter()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    train, valid = (torch.from_numpy(numpy.fromfile(path, dtype="<u2").astype(numpy.int64)) for path in (options.train, options.valid))
    model = GPT2(options.layers, options.channels, options.heads, options.block, options.vocabulary, options.dropout, options.biases == "on", options.head == "own")
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays], "weight_decay": DECAY if decays else 0.0} for decays in (True, False)]
    optimizer = adamw(groups)
    taken, curve = [], {}
    for step in range(options.only or options.steps * (2 if options.prolong else 1)):
        begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, options.steps, options.schedule)
        firsts = torch.randint(len(train) - options.block, (options.batch,))
        tokens, targets = (torch.stack([train[i + ahead:i + ahead + options.block] for i in firsts.tolist()]) for ahead in (0, 1))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.dtype == "bfloat16"):
            loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        taken.append(time.perf_counter() - begin)
        if options.eval_every and (step + 1) % options.eval_every == 0:
            curve[step + 1] = mean_loss(model, valid, options)
            model.train()
    train_s = time.perf_counter() - begun
    print(json.dumps({"train_s": train_s, "step_s": statistics.median(taken[len(taken) // 2:]), "loss": None if options.only else mean_loss(model, valid, options), "curve": curve}))


if __name__ == "__main__":
    main()
