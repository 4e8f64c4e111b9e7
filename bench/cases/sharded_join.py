"""How long three workers whose state is divided wait for a fourth that joins them, over links of 1 Gbit/s."""
import os

import testbed

TITLE = "A fourth worker joins three, GPT-2 of 124M, bfloat16, --shard optimizer, links of 1 Gbit/s; seconds"
NOTE = ("A thread each, {microbatches} microbatches of 1 x {block}, so that the newcomer's parts come within one run. Between commits: the longest time between two committed steps, beside the median step "
        "before the join; in `at the join` the new generation begins, in `after it` the newcomer takes what it lacks, a little after each "
        "step. In no step: the time between two commits less the later step's own. A step whose gradients outgrow int16 computes twice, with and without a join. It computes when it has all compute copies, after {steps} steps here, and is through with its own parts after {all_steps}. "
        "Floor: a copy of the whole state (12 bytes a parameter) at the link's rate. {faults}")
SCRIPT = os.path.join(testbed.ROOT, "bench", "sharded_join_over_link.py")
REPEAT = 1
BLOCK, MICROBATCHES = 64, 4
STATE_BYTES, LINK_BYTES_PER_S = 12 * 124439808, 1e9 / 8


def measure(options):
    command = [SCRIPT, "--block", BLOCK, "--microbatches", MICROBATCHES]
    runs = [testbed.json_lines(testbed.output_of(command, timeout_s=5400))[-1] for _ in range(options.repeat)]

    def of(key):
        return testbed.median([run[key] for run in runs])

    faults = "Generations seen: more than two; the numbers are not to be trusted." if any(run["generations"] != 2 for run in runs) else ""
    note = NOTE.format(block=BLOCK, microbatches=MICROBATCHES, steps=of("computes_after_steps"), all_steps=of("whole_after_steps"), faults=faults).strip()
    rows = [testbed.row(f"between commits, {where}", "s", of(key), reference=of("step_before_s"), note=note)
            for where, key in (("the longest before", "longest_before_s"), ("at the join", "gap_at_join_s"), ("the median after it", "median_after_s"),
                               ("the longest after it", "longest_after_s"))]
    rows.append(testbed.row("in no step, at the join", "s", of("stopped_s"), reference=of("stopped_before_s")))
    return rows + [testbed.row("from the last step of three until the newcomer computes", "s", of("computes_after_s"),
                               floor=STATE_BYTES / LINK_BYTES_PER_S),
                   testbed.row("until each part is on as many workers as it is to be", "s", of("whole_after_s"))]
