"""Two real workers that train Tiny over a link of 1 Gbit/s: what each gets done beside what it does alone."""
import subprocess
import sys

import curve_plot
import link_runs
import shaped_links
import testbed
from cases import step

TITLE = "Tiny, 16 x 512 tokens a microbatch, two workers of a thread each over 1 Gbit/s: efficiency in percent of a worker alone"
NOTE = ("The batch that guides for two nodes over 1 Gbit/s recommend (bench/PLAN.md). A worker alone does as many microbatches a "
        "step, while the other one does the same in a job of its own, so what two processes cost each other on one machine is in both numbers; it is measured before and after, as the speed "
        "of a machine drifts. The plot has beside it what those guides predict: 50.3 M parameters sent twice at 100 MB/s, 1 s of compute a microbatch. "
        "Rows in tokens/s: both workers together, the peer is PyTorch's DistributedDataParallel over gloo (bench/peers/train.py) in the quicker of its two types, which sends float32 "
        "where ours sends int32 and float16 (its compress hook) where ours sends int16; its microbatches are of 8 and twice as many, for two processes with 16 each "
        "take more than 24 GB (so it hides its reduction behind the last 8). Floor: the time alone and each byte at the rate of one bare TCP stream, nothing hidden "
        "behind compute. Overlap as jobs have it by default. With --repeat the median of as many rounds. Not waiting: the share of the same steps in which "
        "the train thread did not wait for the other worker; no drift of the machine is in it, nor what the ring's thread costs a core.")
LABEL = "microbatches a worker and step"
# wire type -> accumulations. A microbatch takes 4 to 14 s on one core: one of 16 a step takes minutes.
SETTINGS = {"int32": (1, 2, 4, 8, 16), "int16": (1, 2, 4, 8, 16), "float32": (1,), "bfloat16": (1,), "float16": (1,), "int8": (1,)}
QUICK = {"int32": (1, 2, 4, 8), "int16": (1, 2, 4, 8)}
BESIDE_DDP = {1: ("int32", "int16"), 4: ("int32", "int16")}  # accumulation -> our wire types
DDP_WIRE = {"int32": "float32", "int16": "float16"}
RATE = "1gbit"
STEPS = {1: 3, 2: 3, 4: 2, 8: 2}  # measured, after one that warms up; elsewhere one
DDP_WARM = 6  # microbatches until PyTorch's memory is warm, where it is kept
BATCH, DDP_BATCH = 16, 8
REPEAT = 1  # rounds, unless told otherwise


def predicted(accumulation, wire):
    """The guides' own formula; they have no 8-bit wire."""
    element_bytes = {"int32": 4, "int16": 2, "bfloat16": 2}.get(wire)
    return element_bytes and 100 * accumulation / (accumulation + 2 * 50.3e6 * element_bytes / 100e6)


def ddp(accumulation, wire, setup, dtype):
    """Tokens a second of two ranks of PyTorch's DDP over links of the same rate, a thread each; the first steps are a warm-up."""
    steps = STEPS.get(accumulation, 1)
    accumulation *= BATCH // DDP_BATCH
    warm = max(1, -(-DDP_WARM // accumulation)) if setup == testbed.peer_python.AT_BEST else 1
    with shaped_links.ShapedLinks(RATE, 2) as where:
        text = testbed.run_together([[*place, "env", "GLOO_SOCKET_IFNAME=eth0", *testbed.PEER.script(
            "train.py", "--rank", rank, "--world", 2, "--master", f"{shaped_links.address(0)}:29512", "--threads", 1, "--batch", DDP_BATCH,
            "--accumulation", accumulation, "--wire", DDP_WIRE[wire], "--dtype", dtype, "--steps", warm + steps, setup=setup)]
            for rank, place in enumerate(where)], timeout_s=1800)
    return testbed.median([step["tokens_per_s"] for step in testbed.json_lines(text)[warm:]])


def ddp_by_setup(accumulation, wire):
    """Without a set-up with which DDP does not get through; {} where links cannot be shaped, which takes root."""
    rates = {}
    try:
        for setup in testbed.PEER.setups:
            try:
                rates[setup] = max(ddp(accumulation, wire, setup, dtype) for dtype in step.peers_types("bfloat16", 1, setup))
            except SystemExit as why:
                print(f"bench/run: no ratio to DDP {setup}: {why}", file=sys.stderr)
    except (subprocess.CalledProcessError, FileNotFoundError, PermissionError) as why:
        print(f"bench/run: no ratio to DDP: links cannot be shaped here ({why})", file=sys.stderr)
    return rates


def plot(settings, measured):
    series = {f"{wire}, measured": [(count, measured[wire, count]) for count in counts] for wire, counts in settings.items()}
    for wire, name in (("int32", "predicted, 4 bytes"), ("int16", "predicted, 2 bytes")):
        series[name] = [(count, predicted(count, wire)) for count in settings[wire]]
    curve_plot.write(testbed.plot_path("efficiency"), "Two workers over 1 Gbit/s: percent of a worker alone", LABEL,
                     "efficiency, %", series, powers=True, marks=True)


def chosen(options):
    """Wire type -> accumulations that are to be measured."""
    settings = QUICK if options.quick else SETTINGS
    if options.accumulation:
        unknown = set(options.accumulation) - set(SETTINGS["int32"])
        if unknown:
            raise SystemExit(f"bench/run: --accumulation {min(unknown)}: efficiency has {', '.join(map(str, SETTINGS['int32']))}")
        settings = {wire: [count for count in counts if count in options.accumulation] for wire, counts in SETTINGS.items()}
    return {wire: counts for wire, counts in settings.items() if counts}


def measure(options):
    settings = chosen(options)
    runs, measured, rows, plain = [], {}, [], None
    for count in sorted({count for counts in settings.values() for count in counts}):
        wires = [wire for wire, counts in settings.items() if count in counts]

        def run(**changes):
            runs.append(link_runs.run(batch=BATCH, accumulation=count, steps=STEPS.get(count, 1), **changes))
            each = runs[-1]
            kind = "alone" if each["alone"] else each["wire"]
            print(f"bench/run: {count} a step, {kind}: {each['step_s']:.2f} s a step", file=sys.stderr, flush=True)  # this case takes long
            return each

        before = run(alone=True, plain_tcp=plain is None)
        plain = plain or before["plain_bytes_per_s"]
        rounds = []  # of (a worker alone beside them, wire type -> the run)
        for _ in range(options.repeat):
            together = {wire: run(wire=wire) for wire in wires}
            after = run(alone=True)
            rounds.append((link_runs.between(before, after), together))
            before = after
        for wire in wires:
            measured[wire, count] = testbed.median([link_runs.efficiency(beside, together[wire]) for beside, together in rounds])
            floor = testbed.median([link_runs.without_hiding(beside, wire, plain) for beside, _ in rounds])
            waited = testbed.median([together[wire]["communication_s"] / together[wire]["step_s"] for _, together in rounds])
            rows.append(testbed.row(f"{count} a step, {wire}", "%", measured[wire, count], floor=floor, higher_is_better=True))
            rows.append(testbed.row(f"{count} a step, {wire}: not waiting", "%", 100 * (1 - waited), higher_is_better=True))
            if wire in BESIDE_DDP.get(count, ()):
                rate = testbed.median([together[wire]["tokens_per_step"] / together[wire]["step_s"] for _, together in rounds])
                rows.append(testbed.row(f"{count} a step, {wire}: both workers", "tokens/s", rate, ddp_by_setup(count, wire), higher_is_better=True))
    note = NOTE + f" Plain TCP: {plain / 1e6:.0f} MB/s." + link_runs.faults_in(runs)
    for each in rows:
        each["note"] = note
    if options.write_plots:
        plot(settings, measured)
    return rows
