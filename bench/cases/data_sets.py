"""A data set comes from the service to four workers over links of 1 Gbit/s, beside one copy of it to one worker."""
import os

import testbed

TITLE = "A data set of 1 GiB (quick: 256 MiB) to workers over links of 1 Gbit/s; seconds until all have it"
NOTE = ("Each program in a network namespace of its own; steps take half a second. Reference: one worker alone, which is one copy. `sent`: what left the service, in "
        "copies of the data set; workers get the rest from each other. With a kill: the service ends with kill -9 {kill:.0f} s after the job was "
        "submitted and is back after 2 s. Floor: the data set's bytes at the link's rate.")
SCRIPT = os.path.join(testbed.ROOT, "bench", "data_over_link.py")
REPEAT = 3
KILL_S, LINK_BYTES_PER_S = 3, 1e9 / 8


def measure(options):
    mib = 256 if options.quick else 1024
    floor = (mib << 20) / LINK_BYTES_PER_S

    def run(*arguments):
        return [testbed.json_lines(testbed.output_of([SCRIPT, "--mib", mib, *arguments], timeout_s=1800))[-1] for _ in range(options.repeat)]

    def of(runs, key):
        return testbed.median([run[key] for run in runs])

    one, four, killed = run("--workers", 1), run("--workers", 4), run("--workers", 4, "--kill", KILL_S)
    alone = of(one, "seconds")
    note = NOTE.format(kill=KILL_S)
    return [testbed.row("one worker", "s", alone, floor=floor, note=note),
            testbed.row("four workers", "s", of(four, "seconds"), reference=alone, floor=floor),
            testbed.row("four workers, the service killed in the middle", "s", of(killed, "seconds"), reference=alone, floor=floor),
            testbed.row("four workers: the first step is committed", "s", of(four, "first_step_s"), reference=alone),
            testbed.row("sent by the service to four workers", "copies", of(four, "service_sent")),
            testbed.row("sent by the service to one worker", "copies", of(one, "service_sent"))]
