"""What ops/run_2nodes asks before it submits: how fast the device and the link are, and which settings lose least to the link.

The settings that it takes by itself train the same: as many tokens in a step, as exact a sum. Others are only spoken of."""
import json
import os
import subprocess
import time

NODE_1_WAIT_S = 60
LINK_SECONDS = 1  # for each of three measurements: there, back, both at once


def json_of(arguments, timeout_s=300):
    """What a program prints as JSON; None, with the reason shown, when it cannot."""
    try:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        print(f"{os.path.basename(str(arguments[0]))} took longer than {timeout_s} s", flush=True)
        return None
    if done.returncode:
        print((done.stderr or done.stdout).strip(), flush=True)
        return None
    return json.loads(done.stdout)


def device_speed(worker, spec, device):
    """{microbatch_s, memory_bytes, ...} of this machine's device with the job's model, or None."""
    fields = {name: value for name, value in spec.items() if name in ("model", "vocab_size", "block_size", "batch_size", "dtype", "recompute", "dropout", "tied_head")}
    print(f"measuring this node's device with microbatches of {spec['batch_size']} x {spec['block_size']} ...", flush=True)
    return json_of([worker, "--measure", json.dumps(fields), "--device", device])


def link_speed(holdfast, address):
    """{link_mb_s, rtt_ms, ...} of the way to the other node, which listens there; None when it cannot be measured."""
    print(f"measuring the network to {address} ...", flush=True)
    return json_of([holdfast, "netcheck", address, "--seconds", LINK_SECONDS, "--json"], timeout_s=60)


def wait_for_node_1(workers, own):
    """The living workers that are not this node's, as soon as there are some; [] when none comes for a minute."""
    deadline = time.monotonic() + NODE_1_WAIT_S
    told = False
    while time.monotonic() < deadline:
        others = [node for node in workers() if node["state"] == "alive" and not node["id"].startswith(own)]
        if others:
            return others
        if not told:
            print(f"waiting for node 1 for up to {NODE_1_WAIT_S} s, to measure the network between the two (PLAN=off begins at once)", flush=True)
            told = True
        time.sleep(0.5)
    return []


def plan(holdfast, spec, speed, link, keep, workers_of_a_node):
    """`holdfast plan`'s report, or None. What the user gave by name, `keep`, stays as it is."""
    fields = ("model", "vocab_size", "block_size", "batch_size", "gradient_accumulation_steps", "nodes", "dtype", "recompute", "dropout", "tied_head",
              "wire_dtype", "overlap", "sync_every")
    flags = [text for name in fields if name in spec for text in (f"--{name}", spec[name])]
    flags += ["--workers_per_node", workers_of_a_node, "--microbatch_s", speed["microbatch_s"]]
    if speed["device"] != "cpu":  # a worker on the CPU shares its memory with everything else there
        flags += ["--device_memory_gib", speed["memory_bytes"] / 2**30]
    if keep:
        flags += ["--keep", ",".join(keep)]
    if link:
        flags += ["--link_mb_s", link["link_mb_s"], "--rtt_ms", link["rtt_ms"]]
    return json_of([holdfast, "plan", "--json", *flags])


def text(report):
    """The verdict, and a table: one node alone, the settings asked for, and those that train the same. What else to know."""
    alone, *both = report["comparison"]
    rows = [(alone["name"], alone["settings"], alone["tokens_per_s"])]
    rows += [(f"two nodes, {row['name']}", row["settings"], row["tokens_per_s"]) for row in both]
    lines = [report["verdict"], f"  {'':<30} {'microbatch x accumulation, wire':<44} {'tokens/s':>10} {'of one node':>12}"]
    lines += [f"  {name:<30} {settings:<44} {rate:>10,.0f} {rate / rows[0][2]:>11.2f}x" for name, settings, rate in rows]
    return "\n".join(lines + [f"note: {note}" for note in report["notes"]])
