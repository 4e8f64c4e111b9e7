"""gloo's all-reduce of float32, one process a rank; rank 0 prints one JSON object a round.

all_reduce.py --rank R --world N --master HOST:PORT [--elements N] [--piece ELEMENTS] [--wire float16|float16_alone] [--rounds 6]

GLOO_SOCKET_IFNAME picks the interface. With --piece the buffer is reduced in pieces of so many elements, all under way at once,
as DistributedDataParallel does it with its buckets. --wire float16 sends half of the bytes, as DDP's fp16_compress_hook does: each
piece is rounded and scaled, and is under way while the next one is, and is widened after. float16_alone: of numbers that are float16
before and after."""
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
    parser.add_argument("--wire", choices=("float32", "float16", "float16_alone"), default="float32")
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{options.master}", rank=options.rank, world_size=options.world)
    values = torch.randn(options.elements)
    if options.wire == "float16_alone":
        values = values.to(torch.float16)
    pieces = values.split(options.piece or options.elements)
    for number in range(options.rounds):
        dist.barrier()
        start = time.perf_counter()
        under_way = []
        for piece in pieces:
            sent = piece.to(torch.float16).div_(options.world) if options.wire == "float16" else piece
            under_way.append((piece, sent, dist.all_reduce(sent, async_op=True)))
        for piece, sent, work in under_way:
            work.wait()
            if sent is not piece:
                piece.copy_(sent)
        taken = time.perf_counter() - start
        if options.rank == 0 and number:  # the first one connects
            print(json.dumps({"seconds": taken}), flush=True)
        values.fill_(1.0)
    dist.barrier()
    dist.destroy_process_group()  # left to the end of the process it can end it ("terminate called")


if __name__ == "__main__":
    main()
