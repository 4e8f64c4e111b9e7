#!/usr/bin/python3
"""A real text trained by workers whose state is divided or not, over shaped links: bytes that each sends, and time, a step. Prints one
JSON object.

usage: bench/sharded_over_link.py [--workers 4] [--replicas 0] [--rate 1gbit] [--layers 4] [--width 256] ...

Each program is on a node of its own, in network namespaces of this machine (root, or unprivileged namespaces). With --replicas 0 the
state is not divided. What goes to the service is in the bytes, too."""
import argparse
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import over_link  # noqa: E402  (after the line above)
import testbed  # noqa: E402

DEMO_TEXT = os.path.join(testbed.ROOT, "ops", "demo_text")


def prepare(folder):
    """Manual pages as bytes; their token file."""
    text, data = os.path.join(folder, "text"), os.path.join(folder, "data")
    subprocess.run([DEMO_TEXT, "english", text], check=True, capture_output=True)
    testbed.output_of([f"{testbed.BIN}/holdfast", "data", "prepare", "--tokenizer", "bytes", "--output", data, text])
    return os.path.join(data, "train.bin")


def sent_bytes(cluster, name):
    table = testbed.output_of([*cluster.placed(name, ()), "cat", "/proc/self/net/dev"])
    return sum(int(line.split(":")[1].split()[8]) for line in table.splitlines() if ":" in line and line.split(":")[0].strip() != "lo")


def measure(cluster, options):
    names = [f"w{1 + i}" for i in range(options.workers)]
    over_link.limit(cluster, names, options.rate)
    cluster.start_service()
    cluster.start_workers(*names)
    spec = {"train_data_path": prepare(cluster.folder), "n_layer": options.layers, "n_embd": options.width, "n_head": options.width // 64,
            "vocab_size": 257, "block_size": 128, "batch_size": 4, "gradient_accumulation_steps": 1, "dtype": options.dtype,
            "wire_dtype": options.wire, "learning_rate": 6e-4, "warmup_steps": 100, "total_steps": over_link.NEVER, "checkpoint_every": 0,
            "hash_every": 0, "nodes": options.workers, "min_nodes": options.workers, "max_nodes": options.workers}
    if options.replicas:
        spec.update(shard="optimizer", replicas=options.replicas)
    job = cluster.submit(**spec)
    seen = []
    for step in (options.first, options.first + options.steps):
        cluster.wait_step(job, step, timeout_s=over_link.STEP_TIMEOUT_S)
        seen.append((cluster.job(job)["step"], [sent_bytes(cluster, name) for name in names]))
    (first, before), (last, after) = seen
    points = [point for point in cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
              if options.first < point["step"] <= options.first + options.steps]
    return {"workers": options.workers, "replicas": options.replicas,
            "bytes_per_step": statistics.mean((b - a) / (last - first) for a, b in zip(before, after)),
            "most_bytes_per_step": max((b - a) / (last - first) for a, b in zip(before, after)),
            "step_s": statistics.median(point["step_s"] for point in points),
            "communication_s": statistics.median(point["communication_s"] for point in points),
            "loss": points[-1]["loss"], "generations": len({point["generation"] for point in points})}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=4, choices=(2, 3, 4), help="2 to 4, a thread each")
    parser.add_argument("--replicas", type=int, default=0, help="owners of each part of the state; 0: --shard none")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256, help="a multiple of 64")
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--wire", default="int16", choices=("int16", "int32"))
    parser.add_argument("--first", type=int, default=100, help="the step from which on it is measured")
    parser.add_argument("--steps", type=int, default=100, help="how many are measured")
    over_link.main(parser, measure)


if __name__ == "__main__":
    main()
