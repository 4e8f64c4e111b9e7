"""A checkpoint of Tiny with its optimizer state (362 MB): what training waits for, the rest, the bytes, reading it back."""
import os
import shutil

import testbed

TITLE = "Checkpoint of Tiny: 30,142,848 parameters with both moments"
NOTE = ("Peer: torch.save of the same tensors with fsync, all of it a stall, and torch.load. Stall floor: one copy of the bytes "
        "in memory, by as many threads. Write floor: the stored bytes written in one go with fsync. Ours runs while the worker trains on, to a folder "
        "and to the service over HTTP; restore is reading every byte of one, checking it and unpacking. Steps slowed down: those of 512 tokens "
        "that lay wholly within the writing of one, beside the others of the same job; it writes on the cores that train.")
EVERY = 40  # steps; writing one takes some of them
THREADS = min(4, os.cpu_count())  # of the worker, of what verifies, and of PyTorch; the worker takes at most 4 for a checkpoint

TORCH_SAVE = """
folder, elements = sys.argv[1], int(sys.argv[2])
state = {name: torch.randn(elements) for name in ("parameters", "exp_avg", "exp_avg_sq")}
path = os.path.join(folder, "peer.pt")
start = time.perf_counter()
with open(path, "wb") as file:
    torch.save(state, file); file.flush(); os.fsync(file.fileno())
saved = time.perf_counter(); size = os.path.getsize(path)
torch.load(path)
loaded = time.perf_counter()
copy = {name: tensor.clone() for name, tensor in state.items()}
start_copy = time.perf_counter()
for name in state: copy[name].copy_(state[name])
print(json.dumps({"save_s": saved - start, "load_s": loaded - saved, "bytes": size, "copy_s": time.perf_counter() - start_copy}))
"""


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


def torch_save():
    with testbed.Testbed() as cluster:
        folder = os.path.join(cluster.folder, "peer")
        os.mkdir(folder)
        result = testbed.torch(TORCH_SAVE, folder, str(testbed.TINY_PARAMETERS), threads=THREADS)
        shutil.rmtree(folder)
        return result


def measure(options):
    places = {"folder": [], "service": []}
    peer = []
    for _ in range(options.repeat):  # in turn, so that a busy minute falls on both sides
        for place, runs in places.items():
            runs.append(checkpoints_of_a_run(to_folder=place == "folder"))
        if options.peers:
            peer.append(torch_save())
    of_peer = {key: testbed.median([p[key] for p in peer]) for key in ("save_s", "load_s", "bytes", "copy_s")}
    rows = []
    for name, runs in places.items():
        typical = {key: testbed.median([c[key] for taken, *_ in runs for c in taken])
                   for key in ("stall_s", "write_s", "stored_bytes", "raw_bytes")}
        restore, floor = (testbed.median([run[i] for run in runs]) for i in (1, 2))
        slower = testbed.median([run[3] for run in runs if run[3] is not None])
        rows += [testbed.row(f"{name}: stall", "s", typical["stall_s"], of_peer["save_s"], of_peer["copy_s"], note=NOTE),
                 testbed.row(f"{name}: written in the background", "s", typical["write_s"], None, floor, note=NOTE),
                 testbed.row(f"{name}: steps slowed down meanwhile", "%", slower, note=NOTE),
                 testbed.row(f"{name}: bytes", "MB", typical["stored_bytes"] / 1e6, of_peer["bytes"] and of_peer["bytes"] / 1e6,
                             None, note=NOTE),
                 testbed.row(f"{name}: raw bytes / stored", "x", typical["raw_bytes"] / typical["stored_bytes"], None, None,
                             higher_is_better=True, note=NOTE),
                 testbed.row(f"{name}: read back and checked", "s", restore, of_peer["load_s"], None, note=NOTE)]
    return rows
