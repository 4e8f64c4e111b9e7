#!/usr/bin/python3
"""The fault matrix: every kind of fault, at every moment, to every kind of worker, with real processes in network namespaces.

    tests/e2e/matrix.py --all --write bench/FAULTS.md      the whole table
    tests/e2e/matrix.py --only kill:commit:rank0           one cell; "kill", "*:commit" and "cut:compute" mean several
    tests/e2e/matrix.py --short                            a few, for every change
    tests/e2e/matrix.py --gpus                             those of nodes with two workers, each with a GPU of its own, which the CPU
                                                           plays: they add up among themselves, by a played RCCL
    tests/e2e/matrix.py --sharded                          those that end a worker, in jobs whose state is divided among the workers,
                                                           each part with two owners; the bits are those of a job that is not divided.
                                                           With --shard gradients and --dtype bfloat16: of jobs like that
    tests/e2e/matrix.py --short --ring_tls                 any of these in jobs whose rings are encrypted
    tests/e2e/matrix.py --list

Exit status: 0 every cell kept the promises (bits, ledger, no step lost, checkpoints whole), 1 one did not, 2 bad arguments,
77 this machine has no network namespaces for us (the reason is printed). Times are shown, and judged in the table alone."""
import argparse
import os
import sys
import time

import harness
from fault_matrix import cells
from fault_matrix import report
from fault_matrix import run
from network import namespaces

SKIPPED = 77
SHORT = ("kill:reduce_scatter:rank0", "kill:state_copy:donor", "stop:compute:neighbour", "reset:all_gather:neighbour",
         "cut:commit:rank0", "corrupt:reduce_scatter:neighbour", "full_disk:checkpoint_write:rank0", "service:commit:rank0",
         "pair_kill:reduce_scatter:neighbour", "node_kill:all_gather:rank0")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="every cell that makes sense")
    which.add_argument("--short", action="store_true", help="a few cells")
    which.add_argument("--gpus", action="store_true", help="cells of nodes with two workers, who have GPUs")
    which.add_argument("--sharded", metavar="FAULT:MOMENT:ROLE", nargs="?", const="*:*:*", action="append",
                       help="cells in which a worker is lost, of jobs whose state is divided; all, or these")
    which.add_argument("--only", metavar="FAULT:MOMENT:ROLE", action="append", help="these cells; may be repeated")
    which.add_argument("--list", action="store_true", help="print the cells and end")
    parser.add_argument("--shard", choices=["optimizer", "gradients", "parameters"], default="optimizer", help="what --sharded divides")
    parser.add_argument("--dtype", default="float32", help="the model's, with --sharded")
    parser.add_argument("--ring_tls", action="store_true", help="the jobs' rings are encrypted; their bits are those of plain ones")
    parser.add_argument("--write", metavar="FILE", help="write the table to FILE as Markdown")
    parsed = parser.parse_args()
    try:
        parsed.cells = chosen(parsed)
    except ValueError as error:
        parser.error(str(error))
    return parsed


def chosen(parsed):
    if parsed.only:
        wanted = list(dict.fromkeys(cell for pattern in parsed.only for cell in cells.matching(pattern)))
        return [cell for cell in wanted if cell.moment not in cells.OF_DIVIDED_STATES]
    if parsed.gpus:
        return [cell for cell in cells.cells_that_run() if cell.fault in cells.OF_PAIRS]
    if parsed.sharded:
        wanted = {cell for pattern in parsed.sharded for cell in cells.matching(pattern)}
        return [cell for cell in cells.cells_of_divided_states(parsed.shard) if cell in wanted]
    if parsed.short:
        return [cell for pattern in SHORT for cell in cells.matching(pattern)]
    return cells.cells_that_run()


def main():
    parsed = arguments()
    if parsed.list:
        print("\n".join(map(str, parsed.cells)))
        return 0
    harness.need_programs()
    if not namespaces.entered():
        return SKIPPED
    begin, load = time.time(), f"{os.getloadavg()[0]:.1f}"
    command = " ".join(["tests/e2e/matrix.py", *sys.argv[1:]])
    kind = "gpus" if parsed.gpus else "plain"
    job = {"shard": parsed.shard, "dtype": parsed.dtype} if parsed.sharded else {}
    reference = run.undisturbed_hash(kind, job)
    if parsed.ring_tls:
        job["ring_tls"] = "on"
    outcomes = []
    for number, cell in enumerate(parsed.cells, 1):
        outcomes.append(run.run(cell, reference, kind, job))
        print(f"{number}/{len(parsed.cells)} {report.line(outcomes[-1])}", flush=True)
        if parsed.write:  # each time: a table that was interrupted is one of fewer cells
            report.write(parsed.write, outcomes, len(parsed.cells), command, time.time() - begin, load)
    bad = [outcome for outcome in outcomes if not outcome.good()]
    print(f"{len(outcomes)} cells in {time.time() - begin:.0f} s, {len(bad)} of them broke a promise", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
