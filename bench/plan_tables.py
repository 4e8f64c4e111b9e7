#!/usr/bin/python3
"""The network tables of guides that people come with, beside what `holdfast plan` computes for the same settings.

usage: bench/plan_tables.py [--write]

Prints Markdown; --write puts it into bench/PLAN.md. Every figure of ours is `holdfast plan --json`'s, at the rate and the seconds of
computing that the guide assumes, and again at what a GPU of today needs. The guides are not part of this repository; their figures are
quoted as they are written, under their titles. Needs the release build (ops/build); nothing is measured here: `bench/run plan` does that."""
import argparse
import functools
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import testbed  # noqa: E402  (needs the path above)
import wires  # noqa: E402

ANALYSIS = "双节点GPT-2 Tiny训练网络带宽分析"
GUIDE = "双节点GPT训练快速指南（1Gbps网络）"
COURSE = "多GPU协同训练与推理"
CHAPTER = "第08章：分布式训练完全指南"
PROGRAM = "分布式训练使用指南"
A100_OPERATIONS_S = 312e12  # in 16 bits, as it is sold
GUIDES_MB_S = 100  # what the guides take 1 Gbit/s to carry
# Assumed, not measured: a microbatch of 16 x 512 tokens of Tiny is 1.5e12 operations (6 for each of 31.1 million multiply-adds a
# token), and 0.03 s is 50e12 a second, a quarter of what a card of 200e12 in bfloat16 is sold with. The guides assume 1 s.
GPU_MICROBATCH_S = 0.03
KEPT_FREE = 0.95


@functools.lru_cache(maxsize=None)
def plan(**flags):
    """What `holdfast plan --json` says to these flags; Tiny, 2 nodes, 16 x 512, nothing hidden, no round trips, unless they say other."""
    flags = {"model": "tiny", "nodes": 2, "batch_size": 16, "overlap": "off", "rtt_ms": 0, "microbatch_s": 1, "link_mb_s": GUIDES_MB_S,
             **flags}
    if "wire_dtype" in flags:
        flags["reduction"] = wires.reduction_of(flags["wire_dtype"])
    if "link_gbit_s" in flags:
        del flags["link_mb_s"]
    arguments = [text for name, value in flags.items() for text in (f"--{name}", value)]
    return json.loads(testbed.output_of([os.path.join(testbed.BIN, "holdfast"), "plan", "--json", *arguments]))


def bytes_of(figures):
    """Of one sync, each way: the gradient, and the embedding's rows where they are sent apart."""
    return figures["bytes_each_way"] + figures["row_bytes_each_way"]


def link_s(figures):
    return figures["link_s"] + figures["row_s"]


def megabytes(**flags):
    return bytes_of(plan(**flags)["figures"]) / 1e6


def table(headings, rows):
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (headings, ["---"] * len(headings), *rows)]
    return "\n".join(lines) + "\n"


def percent(share):
    return f"{share * 100:.1f} %" if share < 0.0995 or share >= 0.9895 else f"{share * 100:.0f} %"


def volume(megabytes_):
    return f"{megabytes_ / 1e6:.2f} TB" if megabytes_ >= 1e6 else f"{megabytes_ / 1e3:.1f} GB"


def minutes(seconds):
    return f"{seconds / 60:.0f} min"


def one_sync():
    claims = (("float32", "402.4 MB, 4.02 s"), ("float16", "201.2 MB, 2.01 s"), ("bfloat16", "-"), ("int8", "-"), ("int32", "-"),
              ("int16", "-"))
    rows = []
    for wire, claim in claims:
        at_100, at_1g = plan(wire_dtype=wire)["figures"], plan(wire_dtype=wire, link_gbit_s=1)["figures"]
        rows.append((wire, claim, f"{bytes_of(at_100) / 1e6:.1f} MB", f"{link_s(at_100):.2f} s", f"{link_s(at_1g):.2f} s"))
    return ("## One synchronisation of Tiny between two nodes\n\n"
            + table(("wire type", f"《{ANALYSIS}》", "each way", f"at {GUIDES_MB_S} MB/s", "at 1 Gbit/s (0.94 of it)"), rows) +
            f"""
Two things are wrong in that guide. It counts 50.3 million parameters, with "about 5M" a layer; a layer of 384 channels has
12 x 384² and some more, 1.77 million, and the model has {plan()['parameters']:,}. And it takes the ring's 2(N-1)/N for "about 2" with
N = 2, where it is exactly 1: each node sends one gradient and receives one, and the link does both at once.
Together that is a factor of {402.4 * 1e6 / plan(wire_dtype='float32')['figures']['bytes_each_way']:.1f}.

Of the float types {plan(wire_dtype='float32')['figures']['row_bytes_each_way'] / 1e6:.1f} MB are rows: what the tokens of a microbatch give the embedding's gradient goes apart
from the head's part of it, a row for each different token, so at most 8,192 here. An exact sum takes them in before it is
sent (with overlap on it sends them apart, too). The tables below count them with these types, in every column.
""")


def whole_runs():
    claims = ((1000, "402 GB", "201 GB"), (250, "101 GB", "50 GB"), (10000, "4 TB", "2 TB"), (2500, "1 TB", "503 GB"))
    rows = [(f"{syncs:,}", fp32, volume(syncs * megabytes(wire_dtype="float32")), fp16, volume(syncs * megabytes(wire_dtype="float16")))
            for syncs, fp32, fp16 in claims]
    return ("## Whole runs, by the number of synchronisations\n\n"
            + table(("synchronisations", f"《{ANALYSIS}》, FP32", "float32", f"《{ANALYSIS}》, FP16", "float16"), rows) +
            """
Bytes that each node sends (and as many that it receives). The guide calls a microbatch a step; here a step is an optimizer
step, with one synchronisation, whatever the accumulation.
""")


def shares():
    claims = (("float32", 1, "80 %"), ("float16", 1, "67 %"), ("float16", 2, "50 %"), ("float16", 4, "33 %"), ("float16", 8, "20 %"),
              ("float16", 16, "11 %"))
    rows = []
    for wire, accumulation, claim in claims:
        settings = {"wire_dtype": wire, "gradient_accumulation_steps": accumulation}
        rows.append((wire, accumulation, claim, percent(plan(**settings)["figures"]["communication_share"]),
                     percent(plan(**settings, microbatch_s=GPU_MICROBATCH_S, link_gbit_s=1)["figures"]["communication_share"])))
    quick = plan(wire_dtype="float16", gradient_accumulation_steps=8, microbatch_s=GPU_MICROBATCH_S, link_gbit_s=1)["figures"]
    return ("## Share of communication in a step, by accumulation\n\n"
            + table(("wire type", "accumulation", f"《{ANALYSIS}》", f"1 s a microbatch, {GUIDES_MB_S} MB/s",
                     f"{GPU_MICROBATCH_S} s a microbatch, 1 Gbit/s"), rows) +
            f"""
With the guide's own second of computing a microbatch the shares are 40 to 70 % of what it says. But a GPU of
today needs no second for 16 x 512 tokens of Tiny: {GPU_MICROBATCH_S * 1000:.0f} ms is 50e12 operations a second, a quarter of
the peak of a card with 200e12. Then the same link is far tighter than the guide fears: its recommended setting (FP16,
accumulation 8) waits {percent(quick['communication_share'])} of the time.
""")


def what_helps():
    rows = []
    for sync_every in (1, 8, 16, 32):
        for wire in ("int32", "int16", "bfloat16", "int8"):
            settings = {"wire_dtype": wire, "sync_every": sync_every, "gradient_accumulation_steps": 8,
                        "microbatch_s": GPU_MICROBATCH_S}
            by_link = [percent(plan(**settings, overlap="on", rtt_ms=0.2, link_gbit_s=gbit_s)["figures"]["efficiency"])
                       for gbit_s in (1, 2.5, 10)]
            rows.append((sync_every, wire, *by_link))
    advice = plan(gradient_accumulation_steps=8, microbatch_s=GPU_MICROBATCH_S, link_gbit_s=1, overlap="on", rtt_ms=0.2)
    lines = [f"- {r['target'] * 100:.0f} %: `--gradient_accumulation_steps {s['gradient_accumulation_steps']} --wire_dtype "
             f"{s['wire_dtype']} --sync_every {s['sync_every']}` gives {percent(r['figures']['efficiency'])}"
             + ("" if r["reached"] else ", the most there is") for r in advice["recommendations"] for s in (r["settings"],)]
    return (f"## Efficiency of two nodes whose device takes {GPU_MICROBATCH_S} s a microbatch (accumulation 8, overlap on)\n\n"
            + table(("sync_every", "wire type", "1 Gbit/s", "2.5 Gbit/s", "10 Gbit/s"), rows) +
            "\nWhat `holdfast plan` recommends at 1 Gbit/s with the exact reduction:\n\n" + "\n".join(lines) + "\n")


def links():
    claims = ((1, "2.0 s, 20 %"), (10, "0.2 s, 2.4 %"), (100, "0.02 s, 0.25 %"))
    rows = []
    for gbit_s, claim in claims:
        settings = {"wire_dtype": "float16", "gradient_accumulation_steps": 8, "link_gbit_s": gbit_s}
        slow, quick = plan(**settings)["figures"], plan(**settings, microbatch_s=GPU_MICROBATCH_S)["figures"]
        rows.append((f"{gbit_s} Gbit/s", claim, f"{link_s(slow):.3f} s", percent(slow["communication_share"]),
                     percent(quick["communication_share"])))
    return ("## Other links (FP16, accumulation 8)\n\n"
            + table(("link", f"《{ANALYSIS}》: time, share", "time", "share at 1 s a microbatch",
                     f"share at {GPU_MICROBATCH_S} s"), rows) +
            """
"1Gbps → 10Gbps: efficiency 10 times" in its advice contradicts its own table: the time on the link falls to a tenth, and
efficiency can only go from 80 to 98 %.
""")


def guide():
    figures = plan(wire_dtype="float16", gradient_accumulation_steps=8)["figures"]
    steps = 1953  # 100,000 samples / 256 x 5 passes, as the guide counts
    quick = plan(wire_dtype="float16", gradient_accumulation_steps=8, microbatch_s=GPU_MICROBATCH_S, link_gbit_s=1)["figures"]
    on_link_s, compute_s = steps * link_s(figures), steps * figures["optimizer_step_compute_s"]
    rows = (("synchronisations", "244", f"{steps:,}"),
            ("on the network, each way", "48.8 GB", volume(steps * bytes_of(figures) / 1e6)),
            (f"time of that at {GUIDES_MB_S} MB/s", "8 min", minutes(on_link_s)),
            ("computing, at 1 s a microbatch", "33 min", minutes(compute_s)),
            ("share of communication", "19.5 %", percent(figures["communication_share"])),
            ("two nodes against one", "1.6 x", f"{figures['of_one_node']:.2f} x"),
            (f"two nodes against one at {GPU_MICROBATCH_S * 1000:.0f} ms a microbatch, 1 Gbit/s", "-", f"{quick['of_one_node']:.2f} x"))
    return ("## Five passes over 100,000 samples, FP16, accumulation 8\n\n" + table(("", f"《{GUIDE}》", "holdfast plan"), rows) +
            """
The guide's effective batch of 256 holds the accumulation already (16 x 2 x 8), so 1,953 are optimizer steps: each has one
synchronisation and eight microbatches of computing. It divides by 8 once more, and counts one microbatch a step.
At the speed of a GPU of today its settings make two nodes slower than one.
""")


def course():
    rows = []
    models = (("13B (40 layers, 5120)", {"n_layer": 40, "n_embd": 5120, "n_head": 40, "block_size": 2048}, "26 GB: 45.5 GB, 76 ms"),
              ("GPT-2 small", {"model": "small"}, "125M: 1 ms"), ("GPT-2 large", {"model": "large"}, "1.5B: 12 ms"),
              ("GPT-2 xl", {"model": "xl"}, "-"))
    for name, flags, claim in models:
        figures = [plan(**flags, nodes=8, wire_dtype="int16", link_mb_s=rate)["figures"] for rate in (300e3, 32e3, 25e3)]
        rows.append((name, claim, f"{plan(**flags)['parameters']:,}", f"{bytes_of(figures[0]) / 1e9:.2f} GB",
                     *(f"{link_s(f) * 1000:.1f} ms" for f in figures)))
    return ("## Eight cards, FP16\n\n"
            + table(("model", f"《{COURSE}》", "parameters", "each way", "NVLink 3.0, 300 GB/s each way",
                     "PCIe 4.0 x16, 32 GB/s", "InfiniBand HDR, 25 GB/s"), rows) +
            """
The ring's formula is right there (the figures are those of int16, two bytes an element as FP16 and no rows). But its 600 GB/s of NVLink are the sum of both directions, 300 each way, and the others' rates
are each way: PCIe is not 18.7 times as slow, but half of that. GPT-2 Large has 774 million parameters; 1.5 billion is XL. Its
table of a 13B model on one A100 (850 ms for 32 x 2048 tokens) cannot have been measured: that is 5.1e15 operations, 16 s at the
card's peak, and the optimizer's state alone needs more memory than the card has.
""")


def chapter():
    eight = {"model": "small", "nodes": 8, "batch_size": 12, "wire_dtype": "int32", "microbatch_s": 0.5}
    step = plan(**eight, gradient_accumulation_steps=5)["figures"]
    one, over_1g = plan(**eight)["figures"], plan(**eight, link_gbit_s=1)["figures"]
    rows = (("a step, batch 12 x accumulation 40", '3,840 "tokens"', f"{step['tokens_per_step']:,} tokens"),
            ("gradient each way, GPT-2 124M, 8 nodes, float32", "-", f"{bytes_of(one) / 1e6:.0f} MB"),
            ("a link where that takes the 50 ms it allows", "-", f"{bytes_of(one) / 0.05 * 8 / 1e9:.0f} Gbit/s"),
            ("efficiency at 500 ms a microbatch, 1 Gbit/s", "91 % (no link named)", percent(over_1g["efficiency"])))
    return ("## GPT-2 124M on eight devices\n\n" + table(("", f"《{CHAPTER}》", "holdfast plan"), rows) +
            """
40 in that configuration is 5 for each of 8 devices, so 12 x 40 sequences of 1,024 tokens are a step; the chapter multiplies by 8
a second time and takes sequences for tokens. Its 550 ms a step for eight devices holds inside one machine, not over Ethernet.
""")


def efficiencies(**flags):
    """Of the guides' FP16, with these flags: at their second of computing, and at what a GPU of today takes."""
    return tuple(percent(plan(wire_dtype="float16", **flags, microbatch_s=seconds)["figures"]["efficiency"]) for seconds in (1, GPU_MICROBATCH_S))


def hours_of_a_million_steps(devices):
    """Of the course's 13B model, 32 x 2048 tokens a step, with cards that do nothing but multiply."""
    parameters = plan(n_layer=40, n_embd=5120, n_head=40, block_size=2048)["parameters"]
    return 1e6 * 6 * parameters * 32 * 2048 / (devices * A100_OPERATIONS_S) / 3600


def figures_of_guides(rows, heading):
    cells = [(" and ".join(f"《{title}》" for title in ((titles,) if isinstance(titles, str) else titles)), says, right) for titles, says, right in rows]
    return table(("guide", "it says", heading), cells)


def other_figures():
    at_8, at_16 = efficiencies(gradient_accumulation_steps=8, link_gbit_s=1), efficiencies(gradient_accumulation_steps=16, link_gbit_s=1)
    on_10g = efficiencies(gradient_accumulation_steps=8, link_gbit_s=10)
    quick = f"{GPU_MICROBATCH_S * 1000:.0f} ms"
    rows = (
        ((ANALYSIS, GUIDE), "FP16 training halves the traffic", "not in PyTorch: autocast keeps float32 gradients, and DDP sends those unless fp16_compress_hook is set. Here the wire's type is a flag of its own"),
        (ANALYSIS, "50.3 M parameters", "its own parts add up to 49.5 M"),
        (ANALYSIS, "10,000 steps, accumulation 8: 251.5 GB, 42 min, 20 %", f"1,250 synchronisations: {volume(1250 * megabytes(wire_dtype='float16'))} each way, {minutes(1250 * megabytes(wire_dtype='float16') / GUIDES_MB_S)}"),
        (ANALYSIS, "FP16, accumulation 8 to 16, 1 Gbit/s: an efficiency of 75 to 85 %", f"{at_8[0]} to {at_16[0]} at its second a microbatch, {at_8[1]} to {at_16[1]} at {quick}"),
        (GUIDE, "Small has 117 M parameters", f"{plan(model='small')['parameters']:,}"),
        (GUIDE, "one node with a batch of 128 beside two with 256", "other batches and other numbers of steps: not the same training"),
        (GUIDE, "10 Gbit/s raise the efficiency from 80 to 98 %", f"from {at_8[0]} to {on_10g[0]} at its second a microbatch, from {at_8[1]} to {on_10g[1]} at {quick}"),
        ((COURSE, CHAPTER), "accumulation alone lowers the traffic", "DDP reduces in every backward() outside of no_sync(); nanoGPT, which the chapter quotes, has it reduce in the last one alone"),
        (COURSE, "GPU 2 does B1 and F3 at the same time (the pipeline's picture)", "one device does one thing at a time"),
        (COURSE, "the bubble's share is (p-1)/m", "that is the bubble beside useful time; of all time it is (p-1)/(m+p-1)"),
        (COURSE, "12 bytes a parameter for Adam in mixed precision", "16: the float32 copy of the weights is left out"),
        (COURSE, "ZeRO-3 sends as much as DDP, and, later, more", "1.5 times as much"),
        (COURSE, "A100: 6 NVLinks, 600 GB/s", "12 of 50 GB/s both ways together"),
        (COURSE, "InfiniBand is 24 times as slow as NVLink", f"{300 / 25:.0f} times: 25 GB/s each way beside 300"),
        (COURSE, "8 cards over InfiniBand: 250 ms a step", "shorter than its own all-reduce of 1.82 s; over PCIe likewise (200 ms, 1.42 s)"),
        (COURSE, "an all-reduce of 26 GB takes 11 ms, or 76 ms", "150 ms at 300 GB/s each way"),
        (COURSE, "a million steps of 13B on 8 cards: 30.6 hours over NVLink, 55.6 over PCIe", f"{hours_of_a_million_steps(8):.0f} hours at the peak of eight cards, whatever joins them: 110 and 200 ms are no steps of 32 x 2048 tokens"),
        (CHAPTER, "two weeks on one GPU, four days on eight", "3.5 times; a table of the same chapter says 7.3"),
        (CHAPTER, "tokens_per_iter 524,288, growing with the devices", "12 x 40 x 1,024 = 491,520; nanoGPT divides the accumulation by the number of devices, so it does not grow"),
        (CHAPTER, "178,913 tokens/s", "178,735"),
        (CHAPTER, "four days at about 200,000 tokens/s", "69 billion tokens; nanoGPT's 600,000 steps are 295 billion"),
        (CHAPTER, "10 M parameters with 4 layers of 256 channels", "3.2 M; and 6 heads do not divide 256, so its command fails"),
        (CHAPTER, "ZeRO-1 saves 4 times, ZeRO-2 8 times the memory", "limits for many devices in 16 bits; its own example on 8 saves 1.8, 2.9 and 8 times"),
        (CHAPTER, "FP16 saves half of the memory", "of what layers keep 43 % (32 bytes instead of 56, [activations.h](../model/activations.h)), and the weights are there twice: [README.md](README.md) has workers measured, 7 % less with batches of 4, 23 % with 16 (2026-11-25)"),
    )
    return "## Other figures of the guides that do not hold\n\n" + figures_of_guides(rows, "right")


def figures_that_hold():
    rows = (
        (CHAPTER, "7B in float32 with AdamW: 112 GB a device; on 8 of them 63 GB with ZeRO-1, 38.5 with ZeRO-2, 14 with ZeRO-3", "28 + 28 + 56; 28 + 28 + 7; 28 + 3.5 + 7; 3.5 + 3.5 + 7, and activations on top. Undivided, and with the sums of the reduction, 140 GB in float32 here"),
        (CHAPTER, "activations of every fourth layer alone: 75 % less memory, 20 to 30 % more time", "of what is kept; the four layers that are computed again are in memory besides. Here `--recompute block` keeps 93 % less of each layer (87.5 % in 16 bits), has one whole layer at a time, and multiplies 22 % more: two thirds of the forward pass"),
        ((CHAPTER, PROGRAM), "16 bits are twice as fast", "1.6 to 2.1 times on an AMD EPYC with AVX512_BF16, no faster on an Intel Xeon whose VDPBF16PS is slow, 2.1 and 3.5 times with AMX (one and two threads; [README.md](README.md)), 3.6 times on an H200 (2026-11-26, [HIP.md](HIP.md))"),
    )
    return "## Figures that hold\n\n" + figures_of_guides(rows, "beside it")


def device_memory(**flags):
    """Bytes of a GPU's memory, for as long as a worker is in the job."""
    flags = {"batch_size": 1, "dtype": "bfloat16", "reduction": "exact", "wire_dtype": "int16", "recompute": "block", **flags}
    arguments = [text for name, value in flags.items() for text in (f"--{name}", value)]
    parts = json.loads(testbed.output_of([os.path.join(testbed.BIN, "holdfast"), "plan", "--memory", "--json", *arguments]))["parts"]
    return sum(part["bytes"] for part in parts if part["place"] in ("device", "gpu"))


def what_fits():
    rows = []
    for model, size in (("small", "124M"), ("medium", "355M"), ("large", "774M"), ("xl", "1.5B")):
        for nodes in (4, 8):
            cells = []
            for shard, offload in (("none", "none"), ("optimizer", "none"), ("gradients", "none"), ("parameters", "none"), ("parameters", "optimizer")):
                needed = device_memory(model=model, nodes=nodes, shard=shard, offload=offload, replicas=2) / 1e9
                fits = next((f", fits {card}" for card in (16, 24, 32) if needed <= card * KEPT_FREE), "")
                cells.append(f"{needed:.1f}{fits}")
            rows.append((f"{model} ({size})", nodes, *cells))
    return ("## What fits: GB of a device's memory, by `--shard`\n\n"
            + table(("GPT-2", "workers", "none", "optimizer", "gradients", "parameters", "parameters, `--offload optimizer`"), rows) +
            f"""
bfloat16, int16 on the wire, a microbatch of 1 x 1024 with `--recompute block`, two owners of each part. "Fits 16" is a card of 16 GB of
which {100 - 100 * KEPT_FREE:.0f} % are left for the runtime and its libraries. On a CPU 12 bytes a parameter come on top at rank 0 while a checkpoint is written; of a divided state 12 / N at each of N workers.
""")


def document():
    parts = (one_sync(), whole_runs(), shares(), what_helps(), what_fits(), links(), guide(), course(), chapter(), other_figures(),
             figures_that_hold())
    return ("# What the network costs: guides that people come with, recomputed\n\n"
            "People who train GPT-2 on two nodes over 1 Gbit/s come with guides that say what the network will cost. Five such guides (in\n"
            "Chinese; they are not part of this repository) are quoted here under their titles, each beside what `holdfast plan` computes for\n"
            "the same settings. In short: the two about this very setting count three times the bytes, and a second of computing where a\n"
            "GPU of today needs some 30 ms (an assumption, explained below). So the link does better than they say, and is still far too slow for it.\n"
            "All else that they say, and how it is here, is in [GUIDES.md](GUIDES.md).\n\n"
            "Made by `bench/plan_tables.py --write` from `holdfast plan --json`; formulas and assumptions are in\n"
            "[rendezvous/plan/model.h](../rendezvous/plan/model.h). How near the planner comes to measured steps is `bench/run plan`.\n\n"
            + "\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write bench/PLAN.md")
    options = parser.parse_args()
    text = document()
    if options.write:
        with open(os.path.join(testbed.ROOT, "bench", "PLAN.md"), "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
