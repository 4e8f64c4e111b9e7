"""ops/run_2nodes as a reader of a guide calls it: two nodes over 1 Gbit/s whose device takes 30 ms a microbatch, beside one of them."""
import json
import os
import re
import subprocess
import tempfile
import time

import harness
import shaped_links
import testbed

TITLE = "ops/run_2nodes 0 MASTER tiny: Tiny, devices of 30 ms a microbatch of 16 x 512, nodes on links of 1 Gbit/s; tokens/s"
NOTE = ("Two network namespaces, each with the script's command and nothing else; the device only takes its time (bench_emulated_worker). "
        "Beside: one node alone, its rank 0 with PLAN=off and nobody else there. As before: PLAN=off, which is what the script did before it planned "
        "(accumulation 8, int16, overlap on). {said}")
RATE, PORT, MICROBATCH_MS = "1gbit", 7070, 30
SCRIPT = os.path.join(testbed.ROOT, "ops", "run_2nodes")
WARM_UP, MEASURED = 4, 12  # steps
WAIT_S = 240
REPEAT = 1


def programs(folder):
    """A folder of programs in which the worker has the emulated device."""
    os.makedirs(folder)
    for name, program in (("holdfast", "holdfast"), ("holdfast-worker", "bench_emulated_worker")):
        os.symlink(os.path.join(testbed.BIN, program), os.path.join(folder, name))
    return folder


class Nodes:
    """The script on one or two nodes, until it is closed."""

    def __init__(self, where, folder, ranks, **settings):
        self.folder, self.where, self.started = folder, where, []
        data = os.path.join(folder, "train.bin")
        testbed.tiny_spec(folder)
        os.replace(os.path.join(folder, "tiny.bin"), data)
        self.environment = {**os.environ, "HOLDFAST_BIN": programs(os.path.join(folder, "bin")), "TRAIN_DATA": data,
                            "HOLDFAST_BENCH_MICROBATCH_MS": str(MICROBATCH_MS), "HOLDFAST_THREADS": "1", **settings}
        for rank in ranks:
            self.start(rank)

    def start(self, rank):
        environment = {**self.environment, "STATE": os.path.join(self.folder, f"state{rank}")}
        if rank:
            environment["HOLDFAST_TOKEN"] = harness.wait_until(lambda: self.token("worker"), 60, "the master's tokens")
        words = [*self.where[rank], SCRIPT, str(rank), shaped_links.address(0), *(["tiny", "50"] if rank == 0 else [])]
        with open(os.path.join(self.folder, f"rank{rank}.log"), "w", encoding="utf-8") as log:
            self.started.append(subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True))

    def token(self, kind):
        try:
            with open(os.path.join(self.folder, "state0", f"{kind}.token"), encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            return None

    def said(self):
        with open(os.path.join(self.folder, "rank0.log"), encoding="utf-8") as log:
            return log.read()

    def get(self, path):
        code = (f"import urllib.request; print(urllib.request.urlopen(urllib.request.Request('http://{shaped_links.address(0)}:{PORT}{path}', "
                f"headers={{'Authorization': 'Bearer {self.token('admin')}'}}), timeout=5).read().decode())")
        done = subprocess.run([*self.where[0], testbed.PYTHON, "-c", code], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def tokens_per_s(self, world):
        """The median of some steps of so many workers, when the first ones are done."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = self.get("/v1/jobs/j1/metrics?limit=200")
            points = [p for p in (found or {"metrics": []})["metrics"] if p["world_size"] == world]
            if len(points) >= WARM_UP + MEASURED:
                return testbed.median([p["tokens"] / p["step_s"] for p in points[WARM_UP:]])
            time.sleep(1)
        raise SystemExit(f"bench/run: no {WARM_UP + MEASURED} steps of {world} workers in {WAIT_S} s:\n{self.said()[-2000:]}")

    def close(self):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def measured(where, ranks, **settings):
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(where, folder, ranks, **settings)
        try:
            return nodes.tokens_per_s(len(ranks)), nodes.said()
        finally:
            nodes.close()


def verdict_of(said):
    found = re.search(r"^2 nodes .*$", said, re.MULTILINE)
    return f"The script said: {found[0]}" if found else "The script gave no verdict."


def measure(options):
    alone, before, chosen, said = [], [], [], ""
    with shaped_links.ShapedLinks(RATE, 2) as where:
        for _ in range(options.repeat):
            alone.append(measured(where, (0,), PLAN="off")[0])
            before.append(measured(where, (0, 1), PLAN="off")[0])
            rate, said = measured(where, (0, 1))
            chosen.append(rate)
    one = testbed.median(alone)
    note = NOTE.format(said=verdict_of(said))
    return [testbed.row("one node alone", "tokens/s", one, higher_is_better=True, note=note),
            testbed.row("two nodes, as before", "tokens/s", testbed.median(before), reference=one, higher_is_better=True, note=note),
            testbed.row("two nodes, as the script chooses", "tokens/s", testbed.median(chosen), reference=one, higher_is_better=True, note=note)]
