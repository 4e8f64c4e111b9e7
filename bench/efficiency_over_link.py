#!/usr/bin/python3
"""How long a step takes on workers that reduce over shaped links, or on as many that train alone. Prints one JSON object.

usage: bench/efficiency_over_link.py [--workers 2] [--alone] [--worker PROGRAM] [--accumulation 8] [--wire int16]
                                     [--overlap on|off] [--sync_every N] [--batch 4] [--model tiny] ...

Each program is on a node of its own, in network namespaces of this machine (root, or unprivileged namespaces). With --alone every
worker has a job of its own, all at the same time: what they cost each other by sharing this machine is then in both numbers, and
only what they cost each other by talking is in one. With --sync_every N a step of the job is N optimizer steps; what is printed
is of one of them."""
import argparse
import json
import statistics
import sys

sys.dont_write_bytecode = True
import over_link  # noqa: E402  (after the line above)
import testbed  # noqa: E402
import wires  # noqa: E402


def spec_of(options, folder, nodes):
    wanted = {"model": options.model, "batch_size": options.batch, "block_size": options.block, "dtype": options.dtype,
              "gradient_accumulation_steps": options.accumulation, "nodes": nodes, "min_nodes": nodes, "max_nodes": nodes,
              "reduction": wires.reduction_of(options.wire), "wire_dtype": options.wire, "total_steps": over_link.NEVER, "hash_every": 0}
    if options.overlap:
        wanted["overlap"] = options.overlap
    if options.sync_every > 1:
        wanted["sync_every"] = options.sync_every
    return testbed.tiny_spec(folder, **wanted)


def typical(points, optimizer_steps):
    """The median of (step_s, communication_s) of an optimizer step; the job's first step is a warm-up."""
    return tuple(statistics.median(point[key] for point in points[1:]) / optimizer_steps for key in ("step_s", "communication_s"))


def measure(cluster, options):
    names = [f"w{1 + i}" for i in range(options.workers)]
    over_link.limit(cluster, names, options.rate)
    plain = None
    if options.plain_tcp:
        plain = testbed.plain_tcp_rate(connect_in=cluster.placed(names[0], ()), listen_in=cluster.placed(names[1], ()),
                                       host=cluster.node(names[1]).address)
    cluster.start_service()
    environment = {"HOLDFAST_BENCH_MICROBATCH_MS": str(options.microbatch_ms)} if options.microbatch_ms else {}
    cluster.start_workers(*names, environment=environment)
    jobs = [cluster.submit(**spec_of(options, cluster.folder, 1 if options.alone else options.workers))
            for _ in range(options.workers if options.alone else 1)]
    last = 1 + -(-options.steps // options.sync_every)
    for job in jobs:
        cluster.wait_step(job, last, timeout_s=over_link.STEP_TIMEOUT_S)
    points = [cluster.get(f"/v1/jobs/{job}/metrics?limit={last}")["metrics"] for job in jobs]
    generations = len({(job, point["generation"]) for job, of_job in zip(jobs, points) for point in of_job})
    step_s, communication_s = (statistics.mean(values) for values in zip(*(typical(of_job, options.sync_every) for of_job in points)))
    return {"workers": options.workers, "alone": options.alone, "accumulation": options.accumulation, "wire": options.wire,
            "overlap": options.overlap, "sync_every": options.sync_every, "step_s": step_s, "communication_s": communication_s,
            "tokens_per_step": points[0][-1]["tokens"], "jobs": len(jobs), "generations": generations, "plain_bytes_per_s": plain}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2, choices=(2, 3, 4), help="2 to 4, a thread each")
    parser.add_argument("--alone", action="store_true", help="a job for each worker, instead of one for all")
    parser.add_argument("--worker", metavar="PROGRAM", help="instead of holdfast-worker")
    parser.add_argument("--microbatch_ms", type=float, help="for bench_emulated_worker")
    parser.add_argument("--accumulation", type=int, default=1, help="microbatches of each worker in a step")
    parser.add_argument("--wire", default="int32", choices=sorted(wires.ELEMENT_BYTES))
    parser.add_argument("--overlap", choices=("on", "off"), help="the job's default unless given")
    parser.add_argument("--sync_every", type=int, default=1)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--block", type=int, default=512)
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--steps", type=int, default=4, help="optimizer steps that are measured, after the job's first; made whole steps of the job")
    parser.add_argument("--rate", default="1gbit", help="of each node's link, as tc writes it")
    parser.add_argument("--plain_tcp", action="store_true", help="also the rate of one bare TCP stream between two nodes")
    options = parser.parse_args()
    if min(options.accumulation, options.sync_every, options.steps, options.batch, options.block) < 1:
        parser.error("--accumulation, --sync_every, --steps, --batch and --block must be at least 1")
    return options


def main():
    options = parse()
    over_link.run(lambda cluster: print(json.dumps(measure(cluster, options))), program=options.worker)


if __name__ == "__main__":
    main()
