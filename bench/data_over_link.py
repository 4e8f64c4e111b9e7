#!/usr/bin/python3
"""A data set of the service comes to workers over shaped links: how long until all have it, with one worker and with several, and what
the service sent. With --kill the service ends in the middle (kill -9) and is started again after a while. Prints one JSON object.

usage: bench/data_over_link.py [--workers 4] [--mib 1024] [--rate 1gbit] [--kill]

Each program is on a node of its own, in network namespaces of this machine (root, or unprivileged namespaces)."""
import argparse
import os
import random
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import over_link  # noqa: E402  (after the line above)
import testbed  # noqa: E402
from network import networked_cluster  # noqa: E402

AWAY_S = 2.0  # a killed service
SLOW_MS = 500  # a step: this machine's processors are there for what nodes of their own would do, the data


def write_tokens(folder, mib):
    os.makedirs(folder)
    values = random.Random(1)
    with open(os.path.join(folder, "train.bin"), "wb") as file:
        for _ in range(mib):
            file.write(values.randbytes(1 << 20))


def sent_by_service(cluster):
    table = testbed.output_of([*cluster.placed("service", ()), "cat", "/proc/self/net/dev"])
    return sum(int(line.split(":")[1].split()[8]) for line in table.splitlines() if ":" in line and line.split(":")[0].strip() != "lo")


def take_memory(mib):
    """So much is taken from the machine once and given back. The host of a virtual machine gives memory when it is first touched, which
    takes seconds a GiB: what is measured is not to have it among it, for five nodes would wait for theirs side by side."""
    held = [b"\1" * (1 << 30) for _ in range(mib >> 10)]
    del held


def whole(folder):
    return any("whole" in files for _, _, files in os.walk(folder))


def measure(cluster, options):
    names = [f"w{1 + i}" for i in range(options.workers)]
    cluster.start_service()
    data = os.path.join(cluster.folder, "data")
    write_tokens(data, options.mib)
    environment = {"HOLDFAST_SERVER": cluster.url, "HOLDFAST_TOKEN": cluster.token()}
    pushed = testbed.seconds(lambda: testbed.output_of(
        [*cluster.placed("service", ()), f"{testbed.BIN}/holdfast", "data", "push", data, "--name", "big"], environment, timeout_s=900))
    over_link.limit(cluster, ("service", *names), options.rate)
    roots = {name: os.path.join(cluster.folder, f"root-{name}") for name in names}
    for name, root in roots.items():
        os.mkdir(root)
        cluster.start_worker(name, arguments=("--data_root", root), slow_ms=SLOW_MS)
    cluster.wait_workers(*names)
    take_memory(3 * options.mib * options.workers)
    before, begun = sent_by_service(cluster), time.monotonic()
    job = cluster.submit(train_data_path="data:big", n_layer=1, n_embd=32, n_head=1, vocab_size=65536, block_size=64, batch_size=1,
                         global_batch_size=4 * options.workers, dtype="float32", nodes=options.workers, min_nodes=options.workers,
                         total_steps=over_link.NEVER, checkpoint_every=0)
    came = {}
    killed_at = back_at = None
    first_step = None
    while len(came) < len(names):
        now = time.monotonic() - begun
        if now > options.timeout:
            raise SystemExit(f"after {now:.0f} s only {sorted(came)} have the data set")
        came.update({name: now for name in names if name not in came and whole(roots[name])})
        if options.kill and killed_at is None and now > options.kill:
            cluster.service.signal(signal.SIGKILL)
            cluster.service.popen.wait()
            killed_at = now
        if killed_at is not None and back_at is None and now > killed_at + AWAY_S:
            cluster.start_service()
            back_at = now
        if first_step is None and (killed_at is None or back_at is not None) and cluster.job(job)["step"] > 0:
            first_step = now
        time.sleep(0.02)
    size = options.mib << 20
    return {"workers": options.workers, "mib": options.mib, "seconds": max(came.values()), "first_whole_s": min(came.values()),
            "first_step_s": first_step, "service_sent": (sent_by_service(cluster) - before) / size, "pushed_s": pushed,
            "killed_at_s": killed_at, "messages": [event["message"] for event in cluster.get(f"/v1/jobs/{job}/events?limit=1000")["events"]
                                                   if event["kind"].startswith("data_")]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--mib", type=int, default=1024, help="of the data set")
    parser.add_argument("--kill", type=float, default=0, metavar="SECONDS", help="end the service so long after the job's submission")
    parser.add_argument("--timeout", type=float, default=300)
    networked_cluster.DISK_MB = 4096  # the service keeps the data set there
    over_link.main(parser, measure)


if __name__ == "__main__":
    main()
