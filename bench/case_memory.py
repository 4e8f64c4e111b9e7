"""Peak memory of one worker that trains Tiny, as the kernel counts it (VmHWM), and what it is made of."""
import testbed

TITLE = "Peak memory of a worker: Tiny, microbatches of 4 x 512 tokens; MB"
P_MB = 4 * testbed.TINY_PARAMETERS / 1e6
PARTS = (("parameters, float32", 1), ("gradients of a microbatch, float32", 1), ("AdamW moments, float32", 2),
         ("sums of the reduction, int32", 1), ("copy for the checkpoint being written", 3))


def peak_memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmHWM"].split()[0]) * 1024 / 1e6


def peak(dtype, checkpoint):
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1")
        pid = cluster.training_pid("w1")
        before = peak_memory_of(pid)
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, dtype=dtype, total_steps=6, checkpoint_every=2 if checkpoint else 0))
        cluster.wait_step(job, 5, timeout_s=600)
        return before, peak_memory_of(pid)


def measure(options):
    rows = []
    for dtype in ("float32", "bfloat16"):
        idle, training = peak(dtype, checkpoint=False)
        _, writing = peak(dtype, checkpoint=True)
        cast = P_MB / 2 if dtype == "bfloat16" else 0
        known = 5 * P_MB + cast
        rows += [testbed.row(f"{dtype}: the process without a job", "MB", idle),
                 testbed.row(f"{dtype}: while training", "MB", training, None, known),
                 testbed.row(f"{dtype}: while a checkpoint is written", "MB", writing, None, known + 3 * P_MB),
                 testbed.row(f"{dtype}: activations and scratch (the rest)", "MB", training - idle - known)]
    made_of = "; ".join(f"{name} {share * P_MB:.0f}" for name, share in PARTS)
    for each in rows:
        each["note"] = f"Made of (MB): {made_of}; bfloat16 adds the cast parameters, {P_MB / 2:.0f}. Floor: the sum of those held then."
    return rows
