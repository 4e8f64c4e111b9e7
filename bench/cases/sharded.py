"""A state divided among workers beside one that each has whole: bytes that a worker sends and seconds, a step, over shaped links."""
import os

import testbed

TITLE = "A real text (manual pages), 4 layers of 256, bfloat16, int16 wire, steps 100 to 200, links of 1 Gbit/s; a worker's step"
NOTE = ("Beside: `--shard none`, the same job on as many workers. Sent: all that leaves a worker's interface, its words to the service "
        "among them. A worker's state is divided by `--shard optimizer`; replicas are the owners of each part. {faults}")
SCRIPT = os.path.join(testbed.ROOT, "bench", "sharded_over_link.py")
REPEAT = 1
CELLS = ((4, 2), (4, 1), (2, 1))  # workers, replicas


def run(workers, replicas):
    return testbed.json_lines(testbed.output_of([SCRIPT, "--workers", workers, "--replicas", replicas], timeout_s=1800))[-1]


def measure(options):
    rows, hurt, whole = [], 0, {}
    for workers, replicas in CELLS:
        for number in {0, replicas}:
            if (workers, number) not in whole:
                whole[workers, number] = [run(workers, number) for _ in range(options.repeat)]
        sides = {number: whole[workers, number] for number in (replicas, 0)}
        hurt += sum(run["generations"] != 1 for runs in sides.values() for run in runs)
        if len({one["loss"] for runs in sides.values() for one in runs}) != 1:
            raise SystemExit(f"bench/run sharded: {workers} workers with {replicas} replicas do not have the losses of --shard none")
        for name, unit, key, scale in (("sent", "MB", "bytes_per_step", 1e-6), ("step", "s", "step_s", 1)):
            ours, beside = (testbed.median([one[key] * scale for one in sides[number]]) for number in (replicas, 0))
            rows.append(testbed.row(f"{workers} workers, replicas {replicas}: {name}", unit, ours, reference=beside))
    faults = f"{hurt} runs went through a fault; their numbers are not to be trusted." if hurt else ""
    rows[0]["note"] = NOTE.format(faults=faults).strip()
    return rows
