#!/usr/bin/python3
"""The steps of two workers over a link of 1 Gbit/s, measured, and as `holdfast plan` predicts them. Prints JSON objects.

usage: bench/plan_over_link.py [--accumulation 1,4,8] [--wires int32,int16,bfloat16] [--overlap on,off] [--rate 1gbit]

What the planner is given is measured first, in the same places: the link by `holdfast netcheck`, a microbatch and the optimizer
by jobs of one worker each that run side by side, as the two of the pair will share this machine's processors, too. The first
object printed holds these; then comes one for each setting.
Each program is on a node of its own, in network namespaces of this machine (root, or unprivileged namespaces)."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import over_link  # noqa: E402  (after the line above)
import testbed  # noqa: E402
import wires  # noqa: E402

WORKERS = ("w1", "w2")
MODEL = {"model": "tiny", "batch_size": 1, "block_size": 256, "dtype": "float32"}
STEPS, WARM_UP = 9, 3  # the first steps pack weights, touch memory and choose scales


class Pair:
    """Two workers on nodes of their own, and what the planner is told of them."""

    def __init__(self, cluster, rate):
        self.cluster = cluster
        over_link.limit(cluster, WORKERS, rate)
        cluster.start_service()
        self.link = self.checked_link()
        cluster.start_workers(*WORKERS)

    def checked_link(self):
        """The findings of `holdfast netcheck` between the two nodes."""
        program = f"{testbed.BIN}/holdfast"
        listen = self.cluster.placed("w2", (program, "netcheck", "--listen", f"{self.cluster.node('w2').address}:0", "--json"))
        with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as listener:
            try:
                address = json.loads(listener.stdout.readline())["listening"]
                return json.loads(testbed.output_of(self.cluster.placed("w1", (program, "netcheck", address, "--json"))))
            finally:
                listener.kill()

    def submit(self, accumulation, nodes, **changes):
        store = os.path.join(self.cluster.folder, "checkpoints")  # on this machine's disk: nothing of it is on the link
        return self.cluster.submit(**{**testbed.tiny_spec(self.cluster.folder), **MODEL, "nodes": nodes, "min_nodes": nodes,
                                      "max_nodes": nodes, "gradient_accumulation_steps": accumulation, "total_steps": STEPS,
                                      "warmup_steps": 1, "checkpoint_store": store, **changes})

    def step_times(self, *jobs):
        """Of all steps of the jobs, once these have ended, but for their first ones."""
        times = []
        for job in jobs:
            self.cluster.wait_state(job, "succeeded", timeout_s=600)
            times += [point["step_s"] for point in self.cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"][WARM_UP:]]
        shutil.rmtree(os.path.join(self.cluster.folder, "checkpoints"), ignore_errors=True)
        return times

    def alone(self, accumulation):
        """The median step of one worker while the other trains a job of its own."""
        return statistics.median(self.step_times(*[self.submit(accumulation, 1) for _ in WORKERS]))

    def device(self):
        """Seconds a microbatch, and seconds a step beside its microbatches."""
        one, four = self.alone(1), self.alone(4)
        microbatch_s = (four - one) / 3
        return microbatch_s, max(0.0, one - microbatch_s)

    def together(self, accumulation, wire, overlap):
        job = self.submit(accumulation, 2, reduction=wires.reduction_of(wire), wire_dtype=wire, overlap=overlap)
        return statistics.median(self.step_times(job))


def predicted(link, microbatch_s, update_s, accumulation, wire, overlap):
    model = [text for name, value in MODEL.items() for text in (f"--{name}", value)]
    return json.loads(testbed.output_of(
        [f"{testbed.BIN}/holdfast", "plan", "--json", "--nodes", 2, *model, "--gradient_accumulation_steps", accumulation,
         "--reduction", wires.reduction_of(wire), "--wire_dtype", wire, "--overlap", overlap, "--microbatch_s", microbatch_s, "--update_s",
         update_s, "--link_mb_s", link["link_mb_s"], "--rtt_ms", link["rtt_ms"]]))["figures"]


def measure(cluster, options):
    pair = Pair(cluster, options.rate)
    microbatch_s, update_s = pair.device()
    print(json.dumps({"microbatch_s": microbatch_s, "update_s": update_s, "link_mb_s": pair.link["link_mb_s"],
                      "rtt_ms": pair.link["rtt_ms"]}), flush=True)
    for overlap in options.overlap.split(","):
        for wire in options.wires.split(","):
            for accumulation in map(int, options.accumulation.split(",")):
                figures = predicted(pair.link, microbatch_s, update_s, accumulation, wire, overlap)
                print(json.dumps({"accumulation": accumulation, "wire": wire, "overlap": overlap,
                                  "measured_s": pair.together(accumulation, wire, overlap), "predicted_s": figures["optimizer_step_s"],
                                  "compute_s": figures["optimizer_step_compute_s"]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--accumulation", default="1,4,8", help="gradient_accumulation_steps to try")
    parser.add_argument("--wires", default="int32,int16,bfloat16", help="wire types to try")
    parser.add_argument("--overlap", default="on", help="on, off or both: on,off")
    parser.add_argument("--rate", default="1gbit", help="of each node's link, as tc writes it")
    options = parser.parse_args()
    unknown = [wire for wire in options.wires.split(",") if wire not in wires.ELEMENT_BYTES]
    if unknown:
        parser.error(f"there is no wire type {unknown[0]}: {', '.join(wires.ELEMENT_BYTES)}")
    over_link.run(lambda cluster: measure(cluster, options))


if __name__ == "__main__":
    main()
