"""A checkpoint of Tiny with its optimizer state (362 MB): what training waits for, the rest, the bytes, reading it back."""
import os

import peer_python
import testbed

TITLE = "Checkpoint of Tiny: 30,142,848 parameters with both moments"
NOTE = ("Peer: torch.save of the same tensors with fsync, all of it a stall, and torch.load; at its best the shorter stall of a kept copy "
        "that a thread saves and of torch.distributed.checkpoint.async_save, where PyTorch has it. The peer makes its copy while training waits, ours beside "
        "the next step's passes, so the stalls have no ratio: what ours costs is in the steps slowed down. Write floor: the stored bytes written in one go with fsync. Ours runs while the worker trains on, to a folder "
        "and to the service over HTTP; restore is reading every byte of one, checking it and unpacking. Steps slowed down: those of 512 tokens "
        "that lay wholly within the writing of one, beside the others of the same job; it writes on the cores that train.")
EVERY = 40  # steps; writing one takes some of them
THREADS = min(4, os.cpu_count())  # of the worker, of what verifies, and of PyTorch; the worker takes at most 4 for a checkpoint


def write_and_sync(folder, size):
    path = os.path.join(folder, "floor")
    block = os.urandom(1 << 20)

    def write():
        with open(path, "wb") as file:
            for _ in range(size >> 20):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

    taken = testbed.seconds(write)
    os.remove(path)
    return taken


def slow_down(points, checkpoints):
    """By how many percent the steps within the writing of a checkpoint took longer than those after it; None without both."""
    took = {point["step"]: point["step_s"] for point in points}
    during, without = [], []
    for checkpoint in checkpoints:
        left_s = checkpoint["write_s"]
        for step in range(checkpoint["step"] + 1, checkpoint["step"] + EVERY + 1):
            if step in took:
                (during if left_s >= took[step] else without if left_s <= 0 else []).append(took[step])
                left_s -= took[step]
    return 100 * (testbed.median(during) / testbed.median(without) - 1) if during and without else None


def checkpoints_of_a_run(to_folder):
    """The catalogue rows of a few checkpoints, the seconds to read the newest back, the folder's write floor, steps' slow-down."""
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=THREADS)
        store = {"checkpoint_store": os.path.join(cluster.folder, "store")} if to_folder else {}
        job = cluster.submit(**testbed.tiny_spec(cluster.folder, batch_size=1, total_steps=3 * EVERY,
                                                 checkpoint_every=EVERY, keep_last=0, **store))
        cluster.wait_state(job, "succeeded", timeout_s=600)
        rows = cluster.get(f"/v1/jobs/{job}/checkpoints")["checkpoints"]
        newest = max(rows, key=lambda row: row["step"])
        restore = testbed.seconds(lambda: cluster.cli("ckpt", "verify", f"job:{job}@{newest['step']}", "--threads", str(THREADS)))
        points = cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
        return rows, restore, write_and_sync(cluster.folder, newest["stored_bytes"]), slow_down(points, rows)


def torch_saves(setup, elements=testbed.TINY_PARAMETERS):
    """{way: what bench/peers/checkpoint.py says of it}."""
    with testbed.Testbed() as cluster:
        found = testbed.peer_script("checkpoint.py", os.path.join(cluster.folder, "peer"), "--elements", elements,
                                    "--threads", THREADS, setup=setup, threads=THREADS)
        return {each.pop("way"): each for each in found}


def stall_of(ways, setup):
    return ways["save"]["stall_s"] if setup == peer_python.AS_INSTALLED else min(way["stall_s"] for way in ways.values() if "stall_s" in way)


def measure(options):
    places = {"folder": [], "service": []}
    peer = {setup: [] for setup in testbed.PEER.setups}
    for _ in range(options.repeat):  # in turn, so that a busy minute falls on both sides
        for place, runs in places.items():
            runs.append(checkpoints_of_a_run(to_folder=place == "folder"))
        for setup, runs in peer.items():
            runs.append(torch_saves(setup))
    stalls = testbed.by_setup({setup: [stall_of(ways, setup) for ways in runs] for setup, runs in peer.items()})
    sizes, loads = (testbed.by_setup({setup: [ways["load"][key] for ways in runs] for setup, runs in peer.items()})
                            for key in ("bytes", "load_s"))
    rows = []
    for name, runs in places.items():
        typical = {key: testbed.median([c[key] for taken, *_ in runs for c in taken])
                   for key in ("stall_s", "write_s", "stored_bytes", "raw_bytes")}
        restore, floor = (testbed.median([run[i] for run in runs]) for i in (1, 2))
        slower = testbed.median([run[3] for run in runs if run[3] is not None])
        rows += [testbed.row(f"{name}: stall", "s", typical["stall_s"], stalls, is_alike=False, note=NOTE),
                 testbed.row(f"{name}: written in the background", "s", typical["write_s"], floor=floor, note=NOTE),
                 testbed.row(f"{name}: steps slowed down meanwhile", "%", slower, note=NOTE),
                 testbed.row(f"{name}: bytes", "MB", typical["stored_bytes"] / 1e6, {setup: size / 1e6 for setup, size in sizes.items()}, note=NOTE),
                 testbed.row(f"{name}: raw bytes / stored", "x", typical["raw_bytes"] / typical["stored_bytes"], higher_is_better=True, note=NOTE),
                 testbed.row(f"{name}: read back and checked", "s", restore, loads, note=NOTE)]
    return rows
