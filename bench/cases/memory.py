"""Peak memory of one worker that trains Tiny, as the kernel counts it, and what it is made of, beside PyTorch's training step."""
import os

import testbed  # the first: it says where the end-to-end tests' modules are
import processes
from cases import step

TITLE = "Peak memory of a worker: Tiny, microbatches of 4 and 16 x 512 tokens; MB"
P_MB = 4 * testbed.TINY_PARAMETERS / 1e6
PARTS = (("parameters, float32", 1), ("gradients of a microbatch, float32", 1), ("AdamW moments, float32", 2),
         ("sums of the reduction, int32", 1), ("copy for the checkpoint being written", 3))
DTYPES = ("float32", "bfloat16")

# Runs a program to its end and says what it held at most, after what it printed; the children of this process are that one.
PEAK_OF_A_PROGRAM = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(json.dumps({"megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6}))
"""


def run_program(*arguments):
    """(the most memory that it had in MB, the JSON objects that it printed)."""
    *printed, last = testbed.json_lines(testbed.output_of([testbed.PYTHON, "-c", PEAK_OF_A_PROGRAM, *arguments], timeout_s=3600))
    return last["megabytes"], printed


def peak_of_program(*arguments):
    return run_program(*arguments)[0]


def peak_of_torch(dtype, batch, setup):
    """Two steps: from the second on the optimizer's state is there, too."""
    threads = os.cpu_count()
    return peak_of_program(*testbed.PEER.script("train.py", "--threads", threads, "--batch", batch, "--dtype", dtype, "--steps", 2,
                                                setup=setup, threads=threads))


def peak_memory_of(pid):
    return processes.peak_memory_of(pid) / 1e6


def peak(dtype, batch, checkpoint_every=0):
    """(before the job, while it trains)."""
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=os.cpu_count())
        pid = cluster.training_pid("w1")
        before = peak_memory_of(pid)
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, dtype=dtype, batch_size=batch, total_steps=1000,
                                                 checkpoint_every=checkpoint_every))
        cluster.wait_step(job, 5 if checkpoint_every else 3, timeout_s=600)
        return before, peak_memory_of(pid)


def rows_of(dtype, batch):
    idle, training = peak(dtype, batch)
    known = 5 * P_MB + (P_MB / 2 if dtype == "bfloat16" else 0)
    name = f"{dtype}, batch {batch}"
    able = [setup for setup in testbed.PEER.setups if dtype in step.peers_types(dtype, os.cpu_count(), setup)]
    rows = [testbed.row(f"{name}: while training", "MB", training, {setup: peak_of_torch(dtype, batch, setup) for setup in able}, floor=known),
            testbed.row(f"{name}: activations and scratch (the rest)", "MB", training - idle - known)]
    if batch == 4:
        _, writing = peak(dtype, batch, checkpoint_every=2)
        rows.insert(0, testbed.row(f"{dtype}: the process without a job", "MB", idle))
        rows.insert(2, testbed.row(f"{name}: while a checkpoint is written", "MB", writing, floor=known + 3 * P_MB))
    return rows


def measure(_options):
    rows = [each for dtype in DTYPES for batch in (4, 16) for each in rows_of(dtype, batch)]
    made_of = "; ".join(f"{name} {share * P_MB:.0f}" for name, share in PARTS)
    note = f"Made of (MB): {made_of}; bfloat16 adds the cast parameters, {P_MB / 2:.0f}. Floor: the sum of those held then."
    if testbed.PEER.setups:
        bare = peak_of_program(*testbed.PEER.command("-c", "import torch"))
        note += (" Peer: PyTorch's training step (bench/peers/train.py), two steps, the whole process, as ours is; of that "
                 f"{bare:.0f} MB are there after `import torch` alone.")
    for each in rows:
        each["note"] = note
    return rows
