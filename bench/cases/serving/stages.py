"""A model divided between two programs, its first layers in a network namespace behind a shaped link: tokens a second of its texts."""
import os
import subprocess
import time
import urllib.request

import shaped_links
import testbed
from cases import allreduce, exchange, serving

TITLE = "Texts of a model divided between two programs: tokens a second"
NOTE = ("GPT-2 with 124M, random parameters, bfloat16: layers 0 to 5 with `serve-stage`, the others with `serve-model`, a thread each. Beside: all layers with one "
        "thread, and with two. A pass waits for both programs, one after the other; over the link go 4.6 kB a token, and back.")
STREAMS, LAYERS, PORT = (1, 8), "0:6", 18100
BRIDGE_ADDRESS = "10.78.0.254"


class Stage:
    def __init__(self, cluster, job, where, host):
        self.log = os.path.join(cluster.folder, "stage.log")
        checkpoints = os.path.join(cluster.data_dir, "checkpoints", job)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*where, f"{testbed.BIN}/holdfast", "serve-stage", "--from", checkpoints, "--layers", LAYERS, "--precision", "bfloat16", "--threads",
                                             "1", "--listen", f"{host}:{PORT}", "--allow_insecure"], stdout=log, stderr=log)
        self.url = f"http://{host}:{PORT}"
        while self.process.poll() is None and not self.is_there():
            time.sleep(0.2)
        if self.process.poll() is not None:
            raise SystemExit(f"bench/run serving_stages: the stage ended; see {self.log}")

    def is_there(self):
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=1):
                return True
        except OSError:
            return False

    def close(self):
        self.process.terminate()
        self.process.wait()


def rates(cluster, job, data, options, threads, *more):
    served = serving.Served(cluster, job, data, "bfloat16", threads, f"served-{threads}-{len(more)}", *more)
    try:
        return {streams: testbed.median([served.tokens_per_s(streams) for _ in range(options.repeat)]) for streams in STREAMS}
    finally:
        served.close()


def divided(cluster, job, data, options, where, host):
    stage = Stage(cluster, job, where, host)
    try:
        return rates(cluster, job, data, options, 1, "--stage", stage.url)
    finally:
        stage.close()


def measure(options):
    with testbed.Testbed() as cluster:
        data = exchange.prepared(cluster.folder, "bytes")
        job = serving.checkpoint(cluster, data, "tiny" if options.quick else "small")
        whole = {threads: rates(cluster, job, data, options, threads) for threads in (1, 2)}
        sides = {"loopback": divided(cluster, job, data, options, [], "127.0.0.1")}
        try:
            with shaped_links.ShapedLinks(allreduce.RATE, 1) as where:
                shaped_links.ip("addr", "add", f"{BRIDGE_ADDRESS}/24", "dev", shaped_links.BRIDGE)
                sides[allreduce.RATE_NAME] = divided(cluster, job, data, options, where[0], shaped_links.address(0))
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip()
            sides[f"{allreduce.RATE_NAME}: left out: network namespaces take root ({reason})"] = {}
        return [testbed.row(f"{name}, {streams} at once, beside {threads} thread{'s' if threads > 1 else ''}", "tokens/s", rate.get(streams), reference=whole[threads][streams],
                            higher_is_better=True, note=NOTE) for name, rate in sides.items() for streams in STREAMS for threads in (1, 2)]
