#!/usr/bin/python3
"""Workers that train Tiny over links of 1 Gbit/s, and others that join them: how long the ring waits. Prints one JSON object.

usage: bench/join_over_link.py [--joiners N] [--rate 1gbit]

Each program is on a node of its own, in network namespaces of this machine (root, or unprivileged namespaces)."""
import argparse
import datetime
import json
import statistics
import sys

sys.dont_write_bytecode = True
import over_link  # noqa: E402  (after the line above)
import testbed  # noqa: E402

FIRST = ("w1", "w2")
STEPS_AFTER = 6


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def measure(cluster, joiners, rate):
    over_link.limit(cluster, FIRST + joiners, rate)
    plain = testbed.plain_tcp_rate(connect_in=cluster.placed("w1", ()), listen_in=cluster.placed("w2", ()),
                                   host=cluster.node("w2").address)
    cluster.start_service()
    cluster.start_workers(*FIRST)
    job = cluster.submit(**testbed.tiny_spec(cluster.folder, batch_size=1, block_size=64, global_batch_size=4, nodes=2, min_nodes=2,
                                             max_nodes=4, total_steps=1000, hash_every=0, dtype="float32"))
    cluster.wait_step(job, 6, timeout_s=120)
    for name in joiners:
        cluster.start_worker(name)
    world = len(FIRST + joiners)
    testbed.harness.wait_until(lambda: cluster.job(job)["world_size"] == world, 120, "the join")
    cluster.wait_step(job, cluster.job(job)["step"] + STEPS_AFTER, timeout_s=120)
    points = cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
    copies = [e["message"] for e in cluster.get(f"/v1/jobs/{job}/events?limit=1000")["events"] if e["kind"] == "state_copied"]
    generations = sorted({point["generation"] for point in points})
    before = [point for point in points if point["generation"] < generations[-1]]
    after = [point for point in points if point["generation"] == generations[-1]]
    step_s = statistics.median(point["step_s"] for point in after[1:])
    pause = when(after[0]["time"]) - when(before[-1]["time"]) - step_s
    return {"joiners": len(joiners), "generations": len(generations), "pause_s": pause, "step_s": step_s, "plain_bytes_per_s": plain,
            "copies": copies}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--joiners", type=int, default=1, help="how many join at once, 1 or 2")
    parser.add_argument("--rate", default="1gbit", help="of each node's link, as tc writes it")
    options = parser.parse_args()
    over_link.run(lambda cluster: print(json.dumps(measure(cluster, tuple(f"w{3 + i}" for i in range(options.joiners)), options.rate))))


if __name__ == "__main__":
    main()
