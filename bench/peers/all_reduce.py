"""gloo's all-reduce of float32, one process a rank; rank 0 prints one JSON object a round.

all_reduce.py --rank R --world N --master HOST:PORT [--elements N] [--piece ELEMENTS] [--wire float16] [--rounds 6]

GLOO_SOCKET_IFNAME picks the interface. With --piece the buffer is reduced in pieces of so many elements, all under way at once,
as DistributedDataParallel does it with its buckets. --wire float16 sends half of the bytes, as DDP's fp16_compress_hook does: each
piece is rounded and scaled before, and widened after."""
import argparse
import json
import time

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--master", default="127.0.0.1:29511")
    parser.add_argument("--elements", type=int, default=30142848)
    parser.add_argument("--piece", type=int)
    parser.add_argument("--wire", choices=("float32", "float16"), default="float32")
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{options.master}", rank=options.rank, world_size=options.world)
    values = torch.randn(options.elements)
    pieces = values.split(options.piece or options.elements)
    for number in range(options.rounds):
        dist.barrier()
        start = time.perf_counter()
        sent = pieces if options.wire == "float32" else [piece.to(torch.float16).div_(options.world) for piece in pieces]
        for piece, half, work in [(piece, half, dist.all_reduce(half, async_op=True)) for piece, half in zip(pieces, sent)]:
            work.wait()
            if half is not piece:
                piece.copy_(half)
        taken = time.perf_counter() - start
        if options.rank == 0 and number:  # the first one connects
            print(json.dumps({"seconds": taken}), flush=True)
        values.fill_(1.0)


if __name__ == "__main__":
    main()
