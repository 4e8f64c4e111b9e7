"""One training step of GPT-2 Tiny, 4 x 512 tokens, as a worker does it in a job, beside PyTorch."""
import os
import re

import testbed

TITLE = "Training step of GPT-2 Tiny (30,142,848 parameters), batch 4 x 512 tokens, one process; tokens/s"
NOTE = ("Ours: a real worker in a real job with the exact reduction, so gradient, fixed-point sums, optimizer and the service's "
        "bookkeeping are all in. Peer: PyTorch (torch_step.py). Floor: the matrix products of the step at the best rate of a "
        "2048 x 2048 product in this type, measured in this run by our own op set (bench_step --product) and by PyTorch, whichever "
        "is faster: they may use different libraries for it, and neither of them is known to do them faster than that here.")
TOKENS = 4 * 512
LAYERS, WIDTH, VOCABULARY, BLOCK = 6, 384, 50257, 512
# 2 operations a weight and token, forward once and backward twice; attention's two products see half of each square.
OPERATIONS = 3 * TOKENS * (2 * (12 * WIDTH * WIDTH * LAYERS + VOCABULARY * WIDTH) + 2 * BLOCK * WIDTH * LAYERS)

PRODUCT_RATE = """
a, b = (torch.randn(2048, 2048).to(getattr(torch, sys.argv[1])) for _ in range(2))
best = 0
for _ in range(12):
    start = time.perf_counter(); a @ b
    best = max(best, 2 * 2048 ** 3 / (time.perf_counter() - start))
print(json.dumps({"rate": best}))
"""


def ours(dtype, threads):
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=threads)
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, dtype=dtype, total_steps=8))
        cluster.wait_state(job, "succeeded", timeout_s=900)
        points = cluster.get(f"/v1/jobs/{job}/metrics?limit=100")["metrics"]
        return [TOKENS / point["step_s"] for point in points[2:]]


def our_product_rate(dtype, threads):
    return testbed.json_lines(testbed.output_of([f"{testbed.BIN}/bench_step", "--product", "--threads", threads, "--dtype", dtype]))[-1]["rate"]


def theirs(dtype, threads, peers):
    script = os.path.join(peers, "torch_step.py")
    text = testbed.output_of([testbed.PYTHON, script, "--threads", threads, "--batch", 4, "--steps", 6, "--dtype",
                              {"float32": "fp32", "bfloat16": "bf16"}[dtype]])
    return [float(rate) for rate in re.findall(r"(\d+) tokens/s", text)][2:]


def measure(options):
    rows = []
    for dtype in ("float32", "bfloat16"):
        for threads in (1, 2):
            mine, peer, products = [], [], []
            for _ in range(options.repeat):
                mine += ours(dtype, threads)
                products.append(our_product_rate(dtype, threads))
                if options.peers:
                    peer += theirs(dtype, threads, options.peers)
                    products.append(testbed.torch(PRODUCT_RATE, dtype, threads=threads)["rate"])
            floor = TOKENS * max(products) / OPERATIONS
            rows.append(testbed.row(f"{dtype}, {threads} thread{'s' if threads > 1 else ''}", "tokens/s", testbed.median(mine),
                                    testbed.median(peer), floor, higher_is_better=True, note=NOTE))
    return rows
