"""nanoGPT's recipes for Shakespeare by characters, on another text of that size: ours by `holdfast submit`, theirs in plain PyTorch.

recipe_curves (curves.py) has the loss along the way of each thing that a recipe may say."""
import glob
import os
import statistics

import harness
import peer_python
import testbed

TITLE = "nanoGPT's recipes for a text of a million characters, from the start to the end; 2 threads"
NOTE = ("Small: its README's for a CPU, with biases (4 layers, 128 channels, blocks of 64, batches of 12, {steps} steps); large: train_shakespeare_char.py's (6 layers, 384 "
        "channels, blocks of 256, batches of 64, dropout 0.2), of which {few} steps are timed, for its 5,000 take hours here. The text is the demo's first {size} "
        "characters, nine tenths to learn from. Ours: `holdfast submit` to the end of the job, one worker, exact sums, with its last checkpoint; float32 unless said. "
        "The service and the worker are there before, and so is the peer's PyTorch: "
        "bench/peers/recipe.py from where it is loaded to its last step, without a checkpoint; beside bfloat16 in bfloat16 where that is quicker (autocast); as installed its first {few} steps, times as many as there are. A step: the median of the second half. Loss: the mean over every "
        "window of the other tenth, by `holdfast eval` and by the peer, then over {seeds} seeds; its error is the mean's, from the seeds; of the difference the interval of 95 % by Welch's test, for of {seeds} seeds the error is itself a rough guess.")
SIZE = 1_115_394  # of tiny Shakespeare
STEPS, QUICK_STEPS, FEW = 2000, 100, 60
SMALL = {"layers": 4, "channels": 128, "heads": 4, "block": 64, "batch": 12}
LARGE = {"layers": 6, "channels": 384, "heads": 6, "block": 256, "batch": 64}
INSTALLED, BEST = peer_python.SETUPS
LARGE_STEPS = {INSTALLED: 6, BEST: 12}  # ours are as many as the first
SEEDS = (1, 2, 3)
THREADS = 2
TYPES = ("float32", "bfloat16")


def token_files(folder):
    """(train, valid, how many characters there are): ids by the order of the bytes that occur."""
    pages = os.path.join(folder, "pages")
    testbed.output_of([os.path.join(testbed.ROOT, "ops", "demo_text"), "english", pages])
    text = b""
    for path in sorted(glob.glob(f"{pages}/*.txt")):
        with open(path, "rb") as file:
            text += file.read()
    text = text[:SIZE]
    ids = {byte: number for number, byte in enumerate(sorted(set(text)))}
    tokens = bytes(ids[byte] for byte in text)
    cut = SIZE * 9 // 10
    return (harness.write_tokens(os.path.join(folder, "train.bin"), tokens[:cut]), harness.write_tokens(os.path.join(folder, "val.bin"), tokens[cut:]), len(ids))


class Recipe:
    def __init__(self, cluster, steps):
        self.cluster, self.steps = cluster, steps
        self.train, self.valid, self.vocabulary = token_files(cluster.folder)

    def submit(self, size, steps, **more):
        """The id of a job that has ended."""
        fields = {"train_data_path": self.train, "n_layer": size["layers"], "n_embd": size["channels"], "n_head": size["heads"], "block_size": size["block"],
                  "batch_size": size["batch"], "vocab_size": self.vocabulary, "total_steps": steps, "warmup_steps": min(100, steps // 2), "learning_rate": 1e-3,
                  "min_lr": 1e-4, "beta2": 0.99, "weight_decay": 0.1, "grad_clip": 1.0, "dtype": "float32", "checkpoint_every": steps, **more}
        flags = [text for name, value in fields.items() for text in (f"--{name}", str(value))]
        job = self.cluster.cli_json("submit", *flags)["id"]
        self.cluster.wait_state(job, "succeeded", timeout_s=1800)
        return job

    def points(self, job, after=0):
        return self.cluster.get(f"/v1/jobs/{job}/metrics?limit=1000&after={after}")["metrics"]

    def validation(self, job):
        return {point["step"]: point["validation_loss"] for point in self.points(job) if point["validation_loss"] is not None}

    def valid_windows(self):
        return (os.path.getsize(self.valid) // 2 - 1) // SMALL["block"]

    def ours(self, size, dropout, seed, dtype, steps):
        """(seconds from `holdfast submit` to the end, seconds of a step, loss)."""
        job = []
        seconds = testbed.seconds(lambda: job.append(self.submit(size, steps, dropout=dropout, seed=seed, dtype=dtype)))
        points = self.points(job[0], after=steps // 2)
        loss = self.cluster.cli_json("eval", "--from", f"job:{job[0]}", "--data", self.valid, "--precision", dtype, "--threads", str(THREADS))["loss"]
        return seconds, statistics.median(point["step_s"] for point in points), loss

    def peer(self, size, setup, **more):
        flags = [text for name, value in {**size, "vocabulary": self.vocabulary, "threads": THREADS, **more}.items() for text in (f"--{name}", value)]
        return testbed.peer_script("recipe.py", self.train, self.valid, *flags, setup=setup, threads=THREADS)[-1]

    def theirs(self, size, dropout, seed, setup, only=0, dtype="float32"):
        """(seconds to its last step, seconds of a step, loss)."""
        said = self.peer(size, setup, dropout=dropout, seed=seed, steps=self.steps, only=only, dtype=dtype)
        return said["train_s"], said["step_s"], said["loss"]

    def quicker_type(self, size, dropout, few):
        """That of the peer at its best: bfloat16 only where its steps are shorter. Seconds of a step of both."""
        taken = {dtype: self.theirs(size, dropout, SEEDS[0], BEST, only=few, dtype=dtype)[1] for dtype in TYPES}
        return min(taken, key=taken.get), taken


def with_error(values):
    """(mean, its standard error)."""
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}  # 95 %, two-sided, by degrees of freedom


def apart(ours, theirs):
    """(difference of the means, half of its interval of 95 %) of two samples of a few runs each (Welch 1947)."""
    (mean, error), (their_mean, their_error) = with_error(ours), with_error(theirs)
    both = error ** 2 + their_error ** 2
    freedom = both ** 2 / (error ** 4 / (len(ours) - 1) + their_error ** 4 / (len(theirs) - 1)) if both else 1
    return mean - their_mean, STUDENT.get(int(freedom), 2.228) * both ** 0.5


def rows_of(recipe, dropout, seeds, note):
    few = min(FEW, recipe.steps)
    mine, peer, half = [], [], []
    for seed in seeds:
        mine.append(recipe.ours(SMALL, dropout, seed, "float32", recipe.steps))
        half.append(recipe.ours(SMALL, dropout, seed, "bfloat16", recipe.steps))
        if BEST in testbed.PEER.setups:
            peer.append(recipe.theirs(SMALL, dropout, seed, BEST))
    whole, steps = ({dtype: {} for dtype in TYPES} for _ in range(2))
    quicker = peer
    if peer:
        if recipe.quicker_type(SMALL, dropout, few)[0] == "bfloat16":
            quicker = [recipe.theirs(SMALL, dropout, seed, BEST, dtype="bfloat16") for seed in seeds]
        for dtype, runs in (("float32", peer), ("bfloat16", quicker)):
            whole[dtype][BEST], steps[dtype][BEST] = (testbed.median([run[i] for run in runs]) for i in (0, 1))
    if INSTALLED in testbed.PEER.setups:
        until_few, step_s, _ = recipe.theirs(SMALL, dropout, seeds[0], INSTALLED, only=few)
        for dtype in TYPES:
            whole[dtype][INSTALLED], steps[dtype][INSTALLED] = until_few + step_s * (recipe.steps - few), step_s
    rows = []
    for dtype, runs in (("float32", mine), ("bfloat16", half)):
        name = f"small, dropout {dropout}, {dtype}"
        rows += [testbed.row(name, "s", testbed.median([run[0] for run in runs]), whole[dtype], note=note),
                 testbed.row(f"{name}: a step", "ms", 1000 * testbed.median([run[1] for run in runs]), {setup: 1000 * s for setup, s in steps[dtype].items()}, note=note)]
    for dtype, runs, beside in (("float32", mine, peer), ("bfloat16", half, quicker)):
        loss, error = with_error([run[2] for run in runs])
        there, their_error = with_error([run[2] for run in beside]) if beside else (None, 0.0)
        rows.append(testbed.row(f"small, dropout {dropout}, {dtype}: loss (+- {error:.4f}; peer +- {their_error:.4f})", "nats", loss, {BEST: there} if peer else None, note=note))
        if len(beside) > 1:
            difference, half = apart([run[2] for run in runs], [run[2] for run in beside])
            rows.append(testbed.row(f"small, dropout {dropout}, {dtype}: loss less the peer's (95 %: +- {half:.4f})", "nats", difference, note=note))
    return rows


def row_of_large(recipe, note):
    mine = [recipe.ours(LARGE, 0.2, 1, dtype, LARGE_STEPS[INSTALLED])[1] for dtype in ("float32", "bfloat16")]
    peer = {setup: recipe.theirs(LARGE, 0.2, 1, setup, only=LARGE_STEPS[setup])[1] for setup in testbed.PEER.setups}
    beside = {"float32": peer, "bfloat16": dict(peer)}
    if BEST in peer:
        beside["bfloat16"][BEST] = min(recipe.quicker_type(LARGE, 0.2, LARGE_STEPS[BEST])[1].values())
    return [testbed.row(f"large, {dtype}: a step", "s", seconds, beside[dtype], note=note) for dtype, seconds in zip(TYPES, mine)]


def measure(options):
    steps, seeds = (QUICK_STEPS, SEEDS[:1]) if options.quick else (STEPS, SEEDS)
    note = NOTE.format(steps=steps, few=min(FEW, steps), size=f"{SIZE:,}", seeds=len(seeds))
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=THREADS)
        recipe = Recipe(cluster, steps)
        rows = [row for dropout in (0.0, 0.2) for row in rows_of(recipe, dropout, seeds, note)]
        return rows + ([] if options.quick else row_of_large(recipe, note))
