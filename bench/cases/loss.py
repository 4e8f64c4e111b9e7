"""The cost of a smaller wire type in learning: the loss after as many steps of the same small run, two workers."""
import functools
import os

import curve_plot
import harness
import testbed
import wires

TITLE = "Loss of a small model after the same steps with each wire type, two workers; nats a token"
NOTE = ("3 layers, 128 channels, blocks of 128 bytes of this repository's own text, 8 microbatches of 8 a step, float32, {steps} steps; the mean "
        "of the last {tail}, and the loss on text that it never saw. Same seed and data everywhere, so rows differ by rounding alone, and "
        "by {tail} steps' noise of the curves. Beside: the float32 wire, which is what PyTorch's DDP sums in.")
STEPS, TAIL, EVAL_EVERY = 500, 20, 100
QUICK_STEPS = 100
TEXT = (".cpp", ".h", ".md", ".py")
# Name of a row -> what it asks for. What they are set beside comes first.
RUNS = {"float32": {"wire_dtype": "float32"}, "int32 (exact)": {"wire_dtype": "int32"}, "int16 (exact)": {"wire_dtype": "int16"},
        "bfloat16": {"wire_dtype": "bfloat16"}, "int8": {"wire_dtype": "int8"},
        **{f"int32 (exact), sync every {steps}": {"wire_dtype": "int32", "sync_every": steps} for steps in (8, 16, 32)}}
FLOAT_WIRE = "float32"


@functools.cache  # every run learns from the same text, though somebody writes on it meanwhile
def own_text():
    """Every source and document of this repository, in the order of their paths."""
    found = []
    for folder, folders, names in os.walk(testbed.ROOT):
        folders[:] = sorted(name for name in folders if name not in ("build", "__pycache__") and not name.startswith("."))
        found += [os.path.join(folder, name) for name in sorted(names) if name.endswith(TEXT)]
    text = b""
    for path in found:
        with open(path, "rb") as file:
            text += file.read()
    return text


def spec_of(folder, optimizer_steps, wanted):
    steps = -(-optimizer_steps // wanted.get("sync_every", 1))
    train, valid = os.path.join(folder, "train.bin"), os.path.join(folder, "val.bin")
    text = own_text()
    unseen = len(text) // 20
    harness.write_tokens(train, text[:-unseen])
    harness.write_tokens(valid, text[-unseen:])
    return {"train_data_path": train, "valid_data_path": valid, "n_layer": 3, "n_embd": 128, "n_head": 4, "vocab_size": 256,
            "block_size": 128, "batch_size": 8, "global_batch_size": 64, "nodes": 2, "min_nodes": 2, "max_nodes": 2,
            "total_steps": steps, "warmup_steps": -(-steps // 20), "learning_rate": 1e-3, "min_lr": 1e-4, "dtype": "float32", "seed": 1,
            "checkpoint_every": 0, "eval_every": steps if "sync_every" in wanted else min(EVAL_EVERY, steps // 2), "eval_microbatches": 16,
            "reduction": wires.reduction_of(wanted["wire_dtype"]), **wanted}


def losses(steps, wanted):
    """The points of a run: [{step, loss, validation_loss}]; `step` counts optimizer steps."""
    every = wanted.get("sync_every", 1)
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", "w2")
        job = cluster.submit(**spec_of(cluster.folder, steps, wanted))
        cluster.wait_state(job, "succeeded", timeout_s=1800)
        points = cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
        return [{**point, "step": point["step"] * every, "steps": every} for point in points]


def at_the_end(points):
    """(mean training loss of the last steps, the last validation loss)."""
    last = [point["loss"] for point in points[-max(1, TAIL // points[-1]["steps"]):]]
    return sum(last) / len(last), [point["validation_loss"] for point in points if point["validation_loss"] is not None][-1]


def smoothed(points):
    """Means of as many steps as are averaged at the end, so that the curves can be told apart."""
    size = max(1, TAIL // points[-1]["steps"])
    groups = [points[i:i + size] for i in range(0, len(points) - size + 1, size)]
    return [(group[-1]["step"], sum(point["loss"] for point in group) / size) for group in groups]


def measure(options):
    steps = QUICK_STEPS if options.quick else STEPS
    curves = {name: losses(steps, wanted) for name, wanted in RUNS.items()}
    ends = {name: at_the_end(points) for name, points in curves.items()}
    note = NOTE.format(steps=steps, tail=TAIL)
    rows = [testbed.row(f"{name}, {kind}", "nats", ends[name][which], reference=None if name == FLOAT_WIRE else ends[FLOAT_WIRE][which], note=note)
            for which, kind in enumerate(("training", "validation")) for name in ends]
    if options.write_plots:
        # The first steps are alike and would flatten the rest.
        curve_plot.write(testbed.plot_path("loss"), "Training loss with each wire type, means of 20 steps", "step", "nats a token",
                         {name: smoothed(points)[1:] for name, points in curves.items()})
    return rows
