"""Loss curves of each thing that a recipe may say, beside plain PyTorch's of the same recipe."""
import testbed
from cases import recipe

TITLE = "The validation loss along the way, ours and PyTorch's of the same recipe; nats a token"
NOTE = ("4 layers, 128 channels, blocks of 64, batches of 12 windows, {steps} steps, float32, on the demo's first {size} characters, of which nine "
        "tenths are learnt from; {seeds} seeds. Loss: over the windows of the other tenth, each {every} steps. A recipe's first row: after the last step, the mean over seeds "
        "+- its error. Apart: by how much the means of the two curves differ at most, +- the error of that difference. Prolonged: {steps} steps more, from a rate that had fallen to its lowest.")
STEPS, QUICK_STEPS, SEEDS, POINTS = 500, 100, (1, 2, 3), 5
# A recipe by name: what it adds to the common fields of a job, and to the flags of bench/peers/recipe.py.
RECIPES = {
    "as GPT-2": ({}, {}),
    "dropout 0.2": ({"dropout": 0.2}, {"dropout": 0.2}),
    "biases off": ({"biases": "off"}, {"biases": "off"}),
    "a head of its own": ({"tied_head": "off"}, {"head": "own"}),
    "linear": ({"lr_schedule": "linear"}, {"schedule": "linear"}),
    "constant": ({"lr_schedule": "constant"}, {"schedule": "constant"}),
    "wsd": ({"lr_schedule": "wsd"}, {"schedule": "wsd"}),
    "prolonged": ({}, {"prolong": 1}),
}
PROLONGED = "prolonged"


def our_curve(bed, steps, fields, seed, is_prolonged):
    """{step: loss}."""
    every = steps // POINTS
    windows = bed.valid_windows()
    common = {**fields, "seed": seed, "valid_data_path": bed.valid, "eval_every": every, "eval_microbatches": windows // recipe.SMALL["batch"]}
    job = bed.submit(recipe.SMALL, steps, **common)
    curve = bed.validation(job)
    if is_prolonged:
        more = bed.submit(recipe.SMALL, 2 * steps, **common, resume_from=f"job:{job}@{steps}", schedule_start=steps)
        curve |= bed.validation(more)
    return curve


def their_curve(bed, steps, flags, seed):
    said = bed.peer(recipe.SMALL, recipe.BEST, **flags, seed=seed, steps=steps, eval_every=steps // POINTS)
    return {int(step): loss for step, loss in said["curve"].items()}


def means(curves):
    """{step: (mean over seeds, its error)}."""
    return {step: recipe.with_error([curve[step] for curve in curves]) for step in curves[0]}


def rows_of(name, ours, theirs, note):
    last = max(ours)
    rows = [testbed.row(f"{name} (+- {ours[last][1]:.4f}; peer +- {theirs[last][1]:.4f})", "nats", ours[last][0], {recipe.BEST: theirs[last][0]}, note=note)]
    apart = max(ours, key=lambda step: abs(ours[step][0] - theirs[step][0]))
    error = (ours[apart][1] ** 2 + theirs[apart][1] ** 2) ** 0.5
    return rows + [testbed.row(f"{name}: apart, at step {apart} (+- {error:.4f})", "nats", abs(ours[apart][0] - theirs[apart][0]), note=note)]


def measure(options):
    steps, seeds = (QUICK_STEPS, SEEDS[:1]) if options.quick else (STEPS, SEEDS)
    if recipe.BEST not in testbed.PEER.setups:
        raise SystemExit("bench/run recipe_curves: PyTorch is not there at its best: run ops/setup --bench")
    note = NOTE.format(steps=steps, size=f"{recipe.SIZE:,}", seeds=len(seeds), every=steps // POINTS)
    rows = []
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=recipe.THREADS)
        bed = recipe.Recipe(cluster, steps)
        for name, (fields, flags) in RECIPES.items():
            ours = means([our_curve(bed, steps, fields, seed, name == PROLONGED) for seed in seeds])
            theirs = means([their_curve(bed, steps, flags, seed) for seed in seeds])
            rows += rows_of(name, ours, theirs, note)
    return rows
