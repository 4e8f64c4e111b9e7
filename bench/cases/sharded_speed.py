"""A step of a divided job beside an undivided one's, on loopback, with one to four workers."""
import testbed

TITLE = "A step on loopback, Tiny, bfloat16, int16 wire, 12 microbatches of 1 x 512, a thread a worker; seconds"
NOTE = ("Beside: `--shard none` with as many workers. Replicas: 1 with two workers, 2 with more (with two of two nothing would be divided). With "
        "more workers than cores the cores are shared. On CPUs `gradients` and `parameters` compute the logits again of all but a microbatch's last 512 rows (NOTES.md).")
REPEAT = 3
MODES = ("none", "optimizer", "gradients", "parameters")
STEPS, WARM_UP = 9, 3


def step_of(workers, shard):
    """The median time of a step on rank 0, by its own clock."""
    with testbed.Testbed() as cluster:
        cluster.start_workers(*(f"w{1 + i}" for i in range(workers)), threads=1)
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, dtype="bfloat16", wire_dtype="int16", batch_size=1, global_batch_size=12,
                                                 nodes=workers, min_nodes=workers, total_steps=STEPS, checkpoint_every=0, shard=shard,
                                                 replicas=1 if workers == 2 else 2))
        cluster.wait_step(job, STEPS, timeout_s=600)
        points = cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
        return testbed.median([point["step_s"] for point in points if point["step"] > WARM_UP])


def measure(options):
    rows = []
    for workers in range(1, 5):
        found = {shard: [] for shard in MODES}
        for _ in range(options.repeat):  # side by side, for the machine's speed changes
            for shard, times in found.items():
                times.append(step_of(workers, shard))
        whole, *divided = (testbed.median(times) for times in found.values())
        rows.append(testbed.row(f"{workers} workers, --shard none", "s", whole))
        rows += [testbed.row(f"{workers} workers, --shard {shard}", "s", time, reference=whole) for shard, time in zip(MODES[1:], divided)]
    rows[0]["note"] = NOTE
    return rows
