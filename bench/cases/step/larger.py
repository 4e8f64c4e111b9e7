"""Training steps of GPT-2 with 124M and 355M parameters beside PyTorch: speed, memory, and what a checkpoint holds up."""
import functools
import os
import typing

import peer_python
import testbed
from cases import checkpoint, memory, step

TITLE = "GPT-2 of 124M and 355M, sequences of 1024 tokens, two threads"
REPEAT = 1
NOTE = ("Ours: a real worker in a real job with the exact reduction, the median of the steps before its first checkpoint, the first one left out. Peer: "
        "bench/peers/train.py, beside bfloat16 in the quicker of its two types, and of memory in the smaller one; as installed its second step alone, for one may take minutes, at its best the second half of ten. Floor: the step's matrix products at the best rate of a 2048 x 2048 product, as in `step`. Memory: VmHWM of the training "
        "process, with a checkpoint being written too, beside the whole process of the peer, which writes none. Stall: for how long training waits for a "
        "checkpoint with both moments, and by how much the step after the first one is longer, beside which it is copied and written; peer: torch.save with fsync of tensors of that size, at its best a kept copy "
        "that a thread saves, the second time. Its copy is made while training waits: the stalls have no ratio.")
BLOCK, THREADS = 1024, 2
PEERS_STEPS = dict(zip(peer_python.SETUPS, (2, 10)))  # as installed, at its best; the first half is left out, in which its memory warms up


class Model(typing.NamedTuple):
    name: str
    layers: int
    width: int
    parameters: int
    batch: int
    dtypes: tuple
    every: int  # steps from one checkpoint to the next: as many as the first one takes to be written, at least


MODELS = (Model("small", 12, 768, 124439808, 4, ("float32", "bfloat16"), 20), Model("medium", 24, 1024, 354823168, 1, ("bfloat16",), 4))


def ours(model, dtype):
    """(tokens a second, MB, [seconds that each checkpoint held up], by how many seconds the step after the first was longer)."""
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=THREADS)
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, model=model.name, block_size=BLOCK, batch_size=model.batch, global_batch_size=model.batch,
                                                 dtype=dtype, total_steps=2 * model.every + 2, eval_every=0, checkpoint_every=model.every, keep_last=0,
                                                 checkpoint_store=os.path.join(cluster.folder, "store")))
        cluster.wait_state(job, "succeeded", timeout_s=3600)
        points = cluster.get(f"/v1/jobs/{job}/metrics?limit=100")["metrics"]
        stored = sorted(cluster.get(f"/v1/jobs/{job}/checkpoints")["checkpoints"], key=lambda each: each["step"])
        usual_s = testbed.median([point["step_s"] for point in points[1:model.every]])
        return points[1]["tokens"] / usual_s, memory.peak_memory_of(cluster.training_pid("w1")), [each["stall_s"] for each in stored], points[model.every]["step_s"] - usual_s


@functools.cache
def theirs_in(each, model, setup, turn):
    """(tokens a second, MB) in this type, in this turn."""
    megabytes, steps = memory.run_program(*testbed.PEER.script("train.py", "--model", model.name, "--threads", THREADS, "--batch", model.batch, "--block", BLOCK,
                                                               "--steps", PEERS_STEPS[setup], "--dtype", each, setup=setup, threads=THREADS))
    return testbed.median([one["tokens_per_s"] for one in steps[PEERS_STEPS[setup] // 2:]]), megabytes


def theirs(model, dtype, setup, turn):
    """The most tokens a second and the fewest MB of the types that are tried."""
    speeds, megabytes = zip(*(theirs_in(each, model, setup, turn) for each in step.peers_types(dtype, THREADS, setup)))
    return max(speeds), min(megabytes)


def rows_of(model, dtype, stalls, repeat):
    mine, peer = [], {setup: [] for setup in testbed.PEER.setups}
    products = []
    for turn in range(repeat):
        mine.append(ours(model, dtype))
        products.append(step.best_product_rate(dtype, THREADS))
        for setup, runs in peer.items():
            runs.append(theirs(model, dtype, setup, turn))
    floor = testbed.median(products) / step.operations_per_token(model.layers, model.width, BLOCK)
    speeds, megabytes = (testbed.by_setup({setup: [run[i] for run in runs] for setup, runs in peer.items()}) for i in (0, 1))
    name = f"{model.name}, {dtype}, batch {model.batch}"
    seconds = [stall for run in mine for stall in run[2][1:-1]]  # none where the first was still being written when it was due
    return [testbed.row(f"{name}: speed", "tokens/s", testbed.median([run[0] for run in mine]), speeds, floor=floor, higher_is_better=True, note=NOTE),
            testbed.row(f"{name}: memory", "MB", testbed.median([run[1] for run in mine]), megabytes, note=NOTE),
            testbed.row(f"{name}: stall of the first checkpoint", "s", testbed.median([run[2][0] for run in mine]), stalls, is_alike=False, note=NOTE),
            testbed.row(f"{name}: the step after it, longer by", "s", testbed.median([run[3] for run in mine]), note=NOTE),
            testbed.row(f"{name}: stall of the second", "s", testbed.median(seconds) if seconds else None, stalls, is_alike=False, note=NOTE),
            testbed.row(f"{name}: stall of the last", "s", testbed.median([run[2][-1] for run in mine]), stalls, is_alike=False, note=NOTE)]


def measure(options):
    rows = []
    for model in MODELS[:1] if options.quick else MODELS:
        stalls = {setup: checkpoint.stall_of(checkpoint.torch_saves(setup, model.parameters), setup) for setup in testbed.PEER.setups}
        for dtype in model.dtypes:
            rows += rows_of(model, dtype, stalls, options.repeat)
    return rows
