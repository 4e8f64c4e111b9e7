"""Training steps of GPT-2 in PyTorch over random tokens; one JSON object a step.

train.py [--model tiny] [--threads N] [--batch 4] [--block 512] [--dtype bfloat16] [--accumulation 1] [--steps 6]
         [--rank R --world N --master HOST:PORT] [--wire float32|float16] [--zero]
         [--device cuda] [--compile [MODE]] [--vocabulary 50304]

With --world 2 or more each process is one rank of DistributedDataParallel over gloo; GLOO_SOCKET_IFNAME picks the interface, and
--wire float16 is DDP's fp16_compress_hook, --zero its ZeroRedundancyOptimizer. Gradients are reduced once a step, however many microbatches it has.
--device cuda and --compile are for ops/check_gpu, which sets a step on a GPU beside ours; a vocabulary that is a multiple of 64
lets the libraries' products use whole tiles."""
import argparse
import contextlib
import json
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from gpt2 import GPT2, SIZES


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--block", type=int, default=512)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", nargs="?", const="default", help="the model by torch.compile in this mode")
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--master", default="127.0.0.1:29512")
    parser.add_argument("--zero", action="store_true", help="AdamW's moments divided among the ranks")
    parser.add_argument("--wire", choices=("float32", "float16"), default="float32")
    return parser.parse_args()


def make_optimizer(model, zero):
    if zero:
        return ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=3e-4)
    try:
        return torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)  # one pass over memory; on CPUs from PyTorch 2.4 on
    except (RuntimeError, TypeError):
        return torch.optim.AdamW(model.parameters(), lr=3e-4)


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    layers, channels, heads, _ = SIZES[options.model]
    model = GPT2(layers, channels, heads, options.block, options.vocabulary).to(options.device)
    if options.world > 1:
        dist.init_process_group("gloo", init_method=f"tcp://{options.master}", rank=options.rank, world_size=options.world)
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
        if options.wire == "float16":
            model.register_comm_hook(None, fp16_compress_hook)
    optimizer = make_optimizer(model, options.zero)
    if options.compile:
        model = torch.compile(model, mode=options.compile)
    for step in range(options.steps):
        start = time.perf_counter()
        for microbatch in range(options.accumulation):
            tokens, targets = (torch.randint(0, 50257, (options.batch, options.block)).to(options.device) for _ in range(2))
            last = microbatch == options.accumulation - 1
            with contextlib.nullcontext() if options.world == 1 or last else model.no_sync():
                with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.dtype == "bfloat16"):
                    loss = model(tokens, targets)
                (loss / options.accumulation).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if options.device == "cuda":
            torch.cuda.synchronize()
        taken = time.perf_counter() - start
        tokens = options.batch * options.block * options.accumulation * options.world
        print(json.dumps({"step": step, "loss": loss.item(), "step_s": taken, "tokens_per_s": tokens / taken}), flush=True)


if __name__ == "__main__":
    main()
