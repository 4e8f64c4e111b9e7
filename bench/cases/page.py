"""The page in a browser: a list of 10,000 jobs, and a run of a million steps that is followed live."""
import os
import shutil

import testbed

TITLE = "The page in a browser: 10,000 jobs, and a run of a million steps followed at 50 points a second"
NOTE = ("Ours: Debian's Chromium without a GPU, on the same cores as everything else, against a service that only pretends "
        "(tests/page/fake_service.mjs), so that only the page is measured; bench/page_smoothness.mjs. While it is followed the "
        "page is scrolled without a pause. Frame: from one to the next, 16.7 ms where none is dropped. Long task: one that holds "
        "up the page for more than 50 ms.")
ROWS = (("list: from asking for the page to its rows", "ms", "list_ms"),
        ("list: next page, p50", "ms", "turn_p50_ms"),
        ("list: next page, p99", "ms", "turn_p99_ms"),
        ("job: to its curves", "ms", "job_ms"),
        ("job: frame while it is followed, p50", "ms", "frame_p50_ms"),
        ("job: frame while it is followed, p99", "ms", "frame_p99_ms"),
        ("job: long tasks in 20 s", "", "long_tasks"),
        ("job: longest of them", "ms", "longest_task_ms"),
        ("job: JavaScript heap at the end", "MB", "heap_mb"),
        ("job: nodes of the document", "", "elements"))


def measured():
    return testbed.json_lines(testbed.output_of(["node", f"{testbed.ROOT}/bench/page_smoothness.mjs"]))[-1]


def measure(options):
    if shutil.which("node") is None or not os.path.isdir(f"{testbed.ROOT}/tests/page/node_modules"):
        raise SystemExit("this case needs node, Debian's chromium and tests/page/node_modules: run ops/setup --page")
    runs = [measured() for _ in range(options.repeat)]
    return [testbed.row(what, unit, testbed.median([run[key] for run in runs]), note=NOTE) for what, unit, key in ROWS]
