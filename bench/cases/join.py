"""How long a ring waits for workers that join it, over links of 1 Gbit/s."""
import os

import testbed

TITLE = "Two workers train Tiny over links of 1 Gbit/s, others join: seconds without a committed step, beyond a step"
NOTE = ("Floor: the state (three tensors of 120.6 MB) once through such a link, at the rate of one bare TCP stream. Workers that join "
        "together form one generation, and pass the pieces on: two cost what one costs. No peer: torchrun ends every process for "
        "a join (see `recovery`).")
STATE_BYTES = 3 * 4 * testbed.TINY_PARAMETERS


def measure(options):
    rows = []
    for joiners in (1, 2):
        runs = [testbed.json_lines(testbed.output_of([os.path.join(testbed.ROOT, "bench", "join_over_link.py"), "--joiners", joiners]))[-1]
                for _ in range(options.repeat)]
        note = NOTE if all(run["generations"] == 2 for run in runs) else NOTE + f" Generations seen: {[r['generations'] for r in runs]}."
        rows.append(testbed.row(f"{joiners} joining", "s", testbed.median([run["pause_s"] for run in runs]),
                                floor=testbed.median([STATE_BYTES / run["plain_bytes_per_s"] for run in runs]), note=note))
    return rows
