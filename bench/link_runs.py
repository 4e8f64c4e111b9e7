"""Shared by `efficiency` and `emulated`: runs of efficiency_over_link.py, and their efficiency beside what a link allows."""
import os

import testbed
import wires

SCRIPT = os.path.join(testbed.ROOT, "bench", "efficiency_over_link.py")


def run(**settings):
    """One run's JSON object. A setting that is None is left to the program; True is a flag."""
    arguments = []
    for name, value in settings.items():
        if value is not None and value is not False:
            arguments += [f"--{name}"] if value is True else [f"--{name}", value]
    return testbed.json_lines(testbed.output_of([SCRIPT, *arguments], timeout_s=1800))[-1]


def between(before, after):
    """The figures of a run halfway in time between these two of the same settings."""
    return {**before, "step_s": (before["step_s"] + after["step_s"]) / 2}


def efficiency(alone, together):
    """In percent: what a worker gets done beside what it does alone with as many microbatches a step."""
    return 100 * alone["step_s"] / together["step_s"]


def without_hiding(alone, wire, plain_bytes_per_s, sync_every=1, workers=2):
    """The efficiency where each byte takes what one bare TCP stream needs for it, and nothing of that is hidden."""
    on_link = wires.bytes_each_way(wire, testbed.TINY_PARAMETERS, workers) / plain_bytes_per_s / sync_every
    return 100 * alone["step_s"] / (alone["step_s"] + on_link)


def faults_in(runs):
    """A sentence about runs in which a generation was lost: their numbers are not what was to be measured."""
    hurt = [run for run in runs if run["generations"] != run["jobs"]]
    return f" {len(hurt)} of {len(runs)} runs went through a fault; their numbers are not to be trusted." if hurt else ""
