#!/usr/bin/python3
"""The page in a real browser, against a real service with real workers: test_page.py FILE.test.mjs…

Starts a service for each file, and for standby.test.mjs two with one database, lends it to node's test runner, and does what a browser cannot: start and kill workers and the
service. The tests ask for that over HTTP (cluster.mjs). HOLDFAST_PAGE_ARTIFACTS names the folder where screenshots go."""
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e", "standbys"))
import harness
from postgresql_server import PostgresqlServer
from processes import wait_until
from several_services import SeveralServices

NODE_S_MAX = 840
CHROMIUM = shutil.which("chromium")


class Stage:
    """What the tests may ask for, by method name; arguments and results are JSON."""

    def __init__(self, cluster):
        self.cluster = cluster

    def start_workers(self, *names, slow_ms=0):
        self.cluster.start_workers(*names, slow_ms=slow_ms)

    def kill_worker(self, name):
        self.cluster.kill_worker(name)

    def stop_workers(self):
        self.cluster.stop_workers()

    def kill_service(self):
        self.cluster.service.kill()

    def start_service(self):
        self.cluster.start_service()

    def kill_leader(self):
        self.cluster.services[self.cluster.leader_name()].kill()

    def small_spec(self, **changes):
        return harness.small_spec(self.cluster.folder, **changes)

    def train_on_a_text(self):
        """(the job of a small model with checkpoints at steps 40 and 120, its tokenizer)"""
        cluster, folder = self.cluster, self.cluster.folder
        data = os.path.join(folder, "data")
        cluster.cli("data", "prepare", os.path.join(harness.ROOT, "LICENSE"), "--output", data, "--vocab_size", 400)
        cluster.start_workers("w1")
        job = cluster.submit(**harness.small_spec(folder, train_data_path=f"{data}/train.bin", valid_data_path=f"{data}/val.bin", vocab_size=400, total_steps=120,
                                                  learning_rate=5e-3, warmup_steps=5, eval_every=0, checkpoint_every=40))
        cluster.wait_state(job, "succeeded")
        return job, data

    def serve_two_checkpoints(self):
        """By one `holdfast serve-model`."""
        cluster, tokens = self.cluster, os.path.join(self.cluster.folder, "tokens")
        job, data = self.train_on_a_text()
        with open(tokens, "w", encoding="utf-8") as file:
            file.write("a-token\n")
        arguments = ["serve-model", "--from", f"job:{job}@40", "--from", f"job:{job}@120", "--tokenizer", data, "--listen", "127.0.0.1:0", "--token_file", tokens]
        server = cluster.spawn("serving", [f"{harness.BIN}/holdfast", *arguments], {"HOLDFAST_SERVER": cluster.server})
        wait_until(lambda: server.log().count("Serving ") == 2 or not server.running(), 60, "the models to be served")
        return {"base": re.search(r" at (http://\S+)/v1: ", server.log())[1], "models": [f"{job}@40", f"{job}@120"], "token": "a-token"}

    def serve_by_two_workers(self):
        """The id of a job that serves."""
        job, _ = self.train_on_a_text()
        self.cluster.start_workers("w2")
        serving = self.cluster.submit(kind="serve", init_from=f"job:{job}", nodes=2, min_nodes=1, name="english")
        wait_until(lambda: [model for model in self.cluster.get("/v1/models")["data"] if model["replicas"] == 2], 60, "two replicas")
        return serving

    def crawl(self):
        self.cluster.crawl()

    def hurry(self):
        self.cluster.hurry()


def serve(stage):
    """An HTTP server at which POST /METHOD with [[arguments…], {named…}] calls the stage."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            arguments, named = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, said = 200, getattr(stage, self.path[1:])(*arguments, **named)
            except Exception as error:  # pylint: disable=broad-exception-caught  # the test that asked is told, whatever it was
                status, said = 500, f"{type(error).__name__}: {error}"
            text = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def run(file):
    database = PostgresqlServer().make().start() if file.startswith("standby") else None
    cluster = SeveralServices(database) if database else harness.Cluster()
    server = None
    status = 1
    try:
        cluster.start_service()
        server = serve(Stage(cluster))
        environment = dict(os.environ, HOLDFAST_PAGE_URL=cluster.url, HOLDFAST_PAGE_TOKEN=cluster.token(),
                           HOLDFAST_PAGE_WORKER_TOKEN=cluster.token("worker"), HOLDFAST_PAGE_CHROMIUM=CHROMIUM,
                           HOLDFAST_PAGE_CONTROL=f"http://127.0.0.1:{server.server_port}",
                           HOLDFAST_PAGE_STANDBY_URL=cluster.url_of(cluster.standby_names()[0]) if database else "")
        # By its own name, not through node's --test, so that what it prints is seen while it runs.
        status = subprocess.run(["node", "--test-reporter=spec", os.path.join(HERE, file)], env=environment, cwd=HERE, check=False,
                                timeout=NODE_S_MAX * harness.PATIENCE).returncode
    finally:
        if server:
            server.shutdown()
        cluster.close(status != 0)
        if database:
            database.close()
    return status


def main():
    harness.need_programs()
    if CHROMIUM is None or shutil.which("node") is None or not os.path.isdir(f"{HERE}/node_modules/playwright-core"):
        sys.exit("the page's tests need node, Debian's chromium and tests/page/node_modules: run ops/setup --page")
    sys.exit(max([run(file) for file in sys.argv[1:]], default="name the files to run, such as sign_in.test.mjs"))


if __name__ == "__main__":
    main()
