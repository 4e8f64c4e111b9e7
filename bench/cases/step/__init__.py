"""One training step of GPT-2 Tiny, as a worker does it in a job, beside PyTorch and beside plain loops."""
import dataclasses

import peer_python
import testbed

TITLE = "Training step of GPT-2 Tiny (30,142,848 parameters), sequences of 512 tokens, one process; tokens/s"
NOTE = ("Ours: a real worker in a real job with the exact reduction, so gradient, fixed-point sums and optimizer are in, and what the "
        "service is told goes on beside it. Peer: PyTorch (bench/peers/train.py), beside bfloat16 in the quicker of its two "
        "types; at its best the second half of 20 steps, of 10 with 16 sequences. Floor: the matrix products of the step at the best rate of a 2048 x 2048 product in this type, measured in this run by our own op set (bench_step --product) and by PyTorch, whichever "
        "is faster. "
        "Plain loops: that row is beside our own reference op set, one loop a formula as in llm.c's CPU code, and both sides are "
        "bench_step, without service or reduction; a single step of theirs, for it takes minutes.")
VOCABULARY = 50257
STEPS = {4: 8, 16: 5}  # by sequences in a batch; the first two are left out
PEERS_BEST_STEPS = {4: 20, 16: 10}  # the first half is left out: with tcmalloc its memory is warm after five to seven steps


@dataclasses.dataclass(frozen=True)
class Instructions:
    """Environment variables that keep either side to some of the processor's instructions; by default it uses all."""

    ours: dict = dataclasses.field(default_factory=dict)
    peers: dict = dataclasses.field(default_factory=dict)


def operations_per_token(layers, width, block):
    """2 a weight and token, forward once and backward twice; attention's two products see half of each square."""
    return 3 * (2 * (12 * width * width * layers + VOCABULARY * width) + 2 * block * width * layers)


def ours(dtype, threads, batch, instructions):
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=threads, environment=instructions.ours)
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, dtype=dtype, batch_size=batch, total_steps=STEPS[batch]))
        cluster.wait_state(job, "succeeded", timeout_s=900)
        points = cluster.get(f"/v1/jobs/{job}/metrics?limit=100")["metrics"]
        return [point["tokens"] / point["step_s"] for point in points[2:]]


def peers_product_rate(dtype, threads, setup, instructions=Instructions()):
    """Operations a second of a product of PyTorch's in this type."""
    return testbed.torch(peer_python.PRODUCT_RATE, dtype, 2048, setup=setup, threads=threads, environment=instructions.peers)["rate"]


def best_product_rate(dtype, threads, instructions=Instructions()):
    """Operations a second of the quickest product in this type: ours, or PyTorch's in one of its set-ups."""
    program = [f"{testbed.BIN}/bench_step", "--product", "--threads", threads, "--dtype", dtype]
    return max([testbed.json_lines(testbed.output_of(program, instructions.ours))[-1]["rate"],
                *(peers_product_rate(dtype, threads, setup, instructions) for setup in testbed.PEER.setups)])


def peers_types(dtype, threads, setup, instructions=Instructions()):
    """What PyTorch is tried in beside ours: beside bfloat16 in float32, too, and there alone where its products in bfloat16 are not
    half as quick, as without instructions for them: a step would take minutes."""
    if dtype == "float32":
        return [dtype]
    half, full = (peers_product_rate(each, threads, setup, instructions) for each in ("bfloat16", "float32"))
    return ["float32", "bfloat16"] if half > full / 2 else ["float32"]


def theirs(types, threads, batch, setup, instructions):
    """Tokens a second of each step, in the type whose median is the better one."""
    count, left_out = (PEERS_BEST_STEPS[batch], PEERS_BEST_STEPS[batch] // 2) if setup == peer_python.AT_BEST else (STEPS[batch] - 1, 2)
    tried = []
    for each in types:
        steps = testbed.peer_script("train.py", "--threads", threads, "--batch", batch, "--steps", count, "--dtype", each,
                                    setup=setup, threads=threads, environment=instructions.peers)
        tried.append([step["tokens_per_s"] for step in steps[left_out:]])
    return max(tried, key=testbed.median)


def bench_step_rate(*arguments):
    """Tokens a second of the last step, of one sequence in float32 on one thread."""
    program = [f"{testbed.BIN}/bench_step", "--dtype", "float32", "--threads", 1, "--batch", 1]
    lines = testbed.json_lines(testbed.output_of([*program, *arguments], timeout_s=1800))
    return [line["tokens_per_second"] for line in lines if "tokens_per_second" in line][-1]


def beside_pytorch(dtype, threads, batch, repeat, instructions=Instructions()):
    mine, peer, products = [], {setup: [] for setup in testbed.PEER.setups}, []
    types = {setup: peers_types(dtype, threads, setup, instructions) for setup in peer}
    for _ in range(repeat):
        mine += ours(dtype, threads, batch, instructions)
        products.append(best_product_rate(dtype, threads, instructions))
        for setup, rates in peer.items():
            rates += theirs(types[setup], threads, batch, setup, instructions)
    name = f"{dtype}, {threads} thread{'s' if threads > 1 else ''}, batch {batch}"
    return testbed.row(name, "tokens/s", testbed.median(mine), testbed.by_setup(peer), floor=testbed.median(products) / operations_per_token(6, 384, 512),
                       higher_is_better=True, note=NOTE)


def measure(options):
    settings = [(dtype, threads, 4, options.repeat) for dtype in ("float32", "bfloat16") for threads in (1, 2)]
    if not options.quick:  # a step of 16 sequences takes PyTorch half a minute here
        settings += [(dtype, 2, 16, 1) for dtype in ("float32", "bfloat16")]
    rows = [beside_pytorch(dtype, threads, batch, repeat) for dtype, threads, batch, repeat in settings]
    if not options.quick:
        rows.append(testbed.row("float32, 1 thread, batch 1, beside plain loops", "tokens/s", bench_step_rate("--steps", 3),
                                reference=bench_step_rate("--device", "ref", "--steps", 1), higher_is_better=True, note=NOTE))
    return rows
