"""One training step of GPT-2 Tiny, as a worker does it in a job, beside PyTorch and beside plain loops."""
import testbed

TITLE = "Training step of GPT-2 Tiny (30,142,848 parameters), sequences of 512 tokens, one process; tokens/s"
NOTE = ("Ours: a real worker in a real job with the exact reduction, so gradient, fixed-point sums, optimizer and the service's "
        "bookkeeping are all in. Peer: PyTorch (bench/peers/train.py). Floor: the matrix products of the step at the best rate of a "
        "2048 x 2048 product in this type, measured in this run by our own op set (bench_step --product) and by PyTorch, whichever "
        "is faster. "
        "Plain loops: that row is beside our own reference op set, one loop a formula as in llm.c's CPU code, and both sides are "
        "bench_step, without service or reduction; a single step of theirs, for it takes minutes.")
LAYERS, WIDTH, VOCABULARY, BLOCK = 6, 384, 50257, 512
# 2 operations a weight and token, forward once and backward twice; attention's two products see half of each square.
OPERATIONS_PER_TOKEN = 3 * (2 * (12 * WIDTH * WIDTH * LAYERS + VOCABULARY * WIDTH) + 2 * BLOCK * WIDTH * LAYERS)
STEPS = {4: 8, 16: 5}  # by sequences in a batch; the first two are left out

PRODUCT_RATE = """
a, b = (torch.randn(2048, 2048).to(getattr(torch, sys.argv[1])) for _ in range(2))
best = 0
for _ in range(12):
    start = time.perf_counter(); a @ b
    best = max(best, 2 * 2048 ** 3 / (time.perf_counter() - start))
print(json.dumps({"rate": best}))
"""


def ours(dtype, threads, batch):
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=threads)
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, dtype=dtype, batch_size=batch, total_steps=STEPS[batch]))
        cluster.wait_state(job, "succeeded", timeout_s=900)
        points = cluster.get(f"/v1/jobs/{job}/metrics?limit=100")["metrics"]
        return [point["tokens"] / point["step_s"] for point in points[2:]]


def our_product_rate(dtype, threads):
    return testbed.json_lines(testbed.output_of([f"{testbed.BIN}/bench_step", "--product", "--threads", threads, "--dtype", dtype]))[-1]["rate"]


def theirs(dtype, threads, batch, setup):
    steps = testbed.peer_script("train.py", "--threads", threads, "--batch", batch, "--steps", STEPS[batch] - 1, "--dtype", dtype,
                                setup=setup, threads=threads)
    return [step["tokens_per_s"] for step in steps[2:]]


def bench_step_rate(*arguments):
    """Tokens a second of the last step, of one sequence in float32 on one thread."""
    program = [f"{testbed.BIN}/bench_step", "--dtype", "float32", "--threads", 1, "--batch", 1]
    lines = testbed.json_lines(testbed.output_of([*program, *arguments], timeout_s=1800))
    return [line["tokens_per_second"] for line in lines if "tokens_per_second" in line][-1]


def beside_pytorch(dtype, threads, batch, repeat):
    mine, peer, products = [], {setup: [] for setup in testbed.PEER.setups}, []
    for _ in range(repeat):
        mine += ours(dtype, threads, batch)
        products.append(our_product_rate(dtype, threads))
        for setup, rates in peer.items():
            rates += theirs(dtype, threads, batch, setup)
            products.append(testbed.torch(PRODUCT_RATE, dtype, setup=setup, threads=threads)["rate"])
    name = f"{dtype}, {threads} thread{'s' if threads > 1 else ''}, batch {batch}"
    return testbed.row(name, "tokens/s", testbed.median(mine), testbed.by_setup(peer), floor=max(products) / OPERATIONS_PER_TOKEN,
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
