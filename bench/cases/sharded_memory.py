"""Peak memory of the workers of a divided job beside that of an undivided one, and of PyTorch's DDP with ZeroRedundancyOptimizer."""
import subprocess

import testbed
from cases import memory

TITLE = "Peak memory of a worker: GPT-2 of 124M, 4 workers, a microbatch of 1 x 1024 each, bfloat16, 2 replicas; MB"
PARAMETERS = 124439808
P_MB = 4 * PARAMETERS / 1e6
WORKERS, STEPS = 4, 3
MODES = ("none", "optimizer", "gradients", "parameters")


def peaks(shard, checkpoint_every=0):
    """By worker, from rank 0 on: while it trains, less what the process has without a job."""
    names = [f"w{1 + i}" for i in range(WORKERS)]
    with testbed.Testbed() as cluster:
        cluster.start_workers(*names, threads=1)
        pids = [cluster.training_pid(name) for name in names]
        before = [memory.peak_memory_of(pid) for pid in pids]
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, model="small", block_size=1024, dtype="bfloat16", wire_dtype="int16", batch_size=1,
                                                 gradient_accumulation_steps=1, nodes=WORKERS, min_nodes=WORKERS, total_steps=1000,
                                                 checkpoint_every=checkpoint_every, shard=shard))
        cluster.wait_step(job, STEPS, timeout_s=900)
        return [memory.peak_memory_of(pid) - idle for pid, idle in zip(pids, before)]


def peaks_of_torch(setup):
    """By rank, less what the process has after `import torch`."""
    bare = memory.peak_of_program(*testbed.PEER.command("-c", "import torch"))
    ranks = []
    for rank in range(WORKERS):
        arguments = testbed.PEER.script("train.py", "--model", "small", "--block", 1024, "--batch", 1, "--threads", 1, "--steps", STEPS, "--rank",
                                        rank, "--world", WORKERS, "--zero", setup=setup, threads=1)
        command = [testbed.PYTHON, "-c", memory.PEAK_OF_A_PROGRAM, *map(str, arguments)]
        ranks.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    found = [testbed.json_lines(rank.communicate(timeout=1800)[0]) for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("bench/run sharded_memory: a rank of PyTorch ended with an error")
    return max(lines[-1]["megabytes"] for lines in found) - bare


def measure(_options):
    whole = {every: peaks("none", every) for every in (0, 1)}
    peer = {setup: peaks_of_torch(setup) for setup in testbed.PEER.setups}
    rows = [testbed.row("--shard none", "MB", max(whole[0]), peer),
            testbed.row("--shard none: rank 0, while a checkpoint is written", "MB", whole[1][0])]
    for shard in MODES[1:]:
        rows.append(testbed.row(f"--shard {shard}", "MB", max(peaks(shard)), reference=max(whole[0])))
        rows.append(testbed.row(f"--shard {shard}: rank 0, while a checkpoint is written", "MB", peaks(shard, 1)[0], reference=whole[1][0]))
    activations = max(whole[0]) - 5 * P_MB
    rows[0]["note"] = (f"The most that any of the workers took, less the process without a job. P is {P_MB:.0f}: the parameters in float32. "
                       f"Of an undivided job 5 P are state, gradients and sums (int16), the other {activations:.0f} activations and scratch. "
                       "Peer: DDP with ZeroRedundancyOptimizer over gloo (bench/peers/train.py --zero), less `import torch`.")
    return rows
