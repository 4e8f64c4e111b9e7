#!/usr/bin/python3
"""Three workers that train a model whose state is divided among them, over links of 1 Gbit/s, and a fourth that joins them: how long the
three go without a committed step, and when the fourth computes and has its parts. Prints one JSON object.

usage: bench/sharded_join_over_link.py [--model small] [--block 1024] [--dtype bfloat16] [--rate 1gbit] ...

Each program is on a node of its own, in network namespaces of this machine (root, or unprivileged namespaces)."""
import argparse
import datetime
import statistics
import sys
import time

sys.dont_write_bytecode = True
import over_link  # noqa: E402  (after the line above)
import testbed  # noqa: E402

FIRST, JOINER = ("w1", "w2", "w3"), "w4"
STEPS_AFTER = 4


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def measure(cluster, options):
    over_link.limit(cluster, (*FIRST, JOINER), options.rate)
    cluster.start_service()
    cluster.start_workers(*FIRST, threads=1)
    job = cluster.submit(**testbed.tiny_spec(cluster.folder, model=options.model, block_size=options.block, batch_size=1, dtype=options.dtype,
                                             wire_dtype="int16", global_batch_size=options.microbatches, nodes=3, min_nodes=2, max_nodes=4,
                                             total_steps=over_link.NEVER, hash_every=0, shard=options.shard, replicas=2))
    cluster.wait_step(job, options.before, timeout_s=over_link.STEP_TIMEOUT_S)
    cluster.start_worker(JOINER, threads=1)

    def is_whole():
        shown = cluster.job(job)
        return shown["world_size"] == 4 and shown["division"] and shown["division"]["bytes_to_come"] == 0

    testbed.harness.wait_until(is_whole, options.timeout, "the newcomer's parts")
    whole = time.time()
    cluster.wait_step(job, cluster.job(job)["step"] + STEPS_AFTER, timeout_s=over_link.STEP_TIMEOUT_S)
    points = cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
    events = cluster.get(f"/v1/jobs/{job}/events?limit=1000")["events"]
    generations = sorted({point["generation"] for point in points})
    times = [when(point["time"]) for point in points]
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]  # [i]: before point i + 1
    joined = next(i for i, point in enumerate(points) if point["generation"] == generations[-1])
    computes = next((when(event["time"]) for event in events if event["kind"] == "newcomer_computes"), times[joined])
    filled = next(i for i in range(joined, len(points)) if times[i] >= computes)
    # Until the newcomer computes the three share the work as before; after that a step is a shorter one.
    return {"generations": len(generations), "step_before_s": statistics.median(gaps[1:joined - 1]), "longest_before_s": max(gaps[1:joined - 1]),
            "gap_at_join_s": gaps[joined - 1], "stopped_s": gaps[joined - 1] - points[joined]["step_s"],
            "stopped_before_s": statistics.median(gap - point["step_s"] for gap, point in zip(gaps[:joined - 1], points[1:])), "longest_after_s": max(gaps[joined:]), "median_after_s": statistics.median(gaps[joined:]),
            "step_until_it_computes_s": statistics.median(gaps[joined:filled] or gaps[joined:]),
            "step_after_s": statistics.median(gaps[-STEPS_AFTER:]), "computes_after_s": computes - times[joined - 1],
            "computes_after_steps": filled - joined, "whole_after_s": whole - times[joined - 1],
            "whole_after_steps": sum(1 for at in times[joined:] if at <= whole),
            "messages": [event["message"] for event in events if event["kind"] in ("state_copied", "newcomer_computes")]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="small", help="small is GPT-2 of 124M")
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--shard", default="optimizer", choices=("optimizer", "gradients"))
    parser.add_argument("--microbatches", type=int, default=12, help="in a step: a multiple of 3 and 4 is dealt evenly before and after")
    parser.add_argument("--before", type=int, default=5, help="the step after which the fourth starts")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds until the newcomer is to have its parts")
    over_link.main(parser, measure)


if __name__ == "__main__":
    main()
