#!/usr/bin/python3
"""`holdfast serve --scale_hook` with a program that starts and ends real workers, one that fails, and one that hangs."""
import os
import re
import stat
import subprocess
import unittest

import harness
from processes import wait_until

# As somebody would write it for machines: as many workers as are missing are started, those that are idle get SIGTERM.
HOOK = """#!/usr/bin/python3
import json, os, signal, subprocess, sys
folder, server, token = {folder!r}, {server!r}, open({folder!r} + "/service/worker.token").read().strip()
demand = json.load(sys.stdin)
with open(folder + "/calls", "a") as calls:
    calls.write(json.dumps(demand) + "\\n")
mode = open(folder + "/mode").read().strip()
if mode == "fail":
    sys.exit("the cloud has no machines left")
if mode == "hang":
    print("waiting for the cloud", flush=True)
    signal.pause()
for worker in demand["workers"]:
    os.kill(int(open(f"{{folder}}/{{worker['id']}}.pid").read()), signal.SIGTERM)
begun = len([name for name in os.listdir(folder) if name.endswith(".pid")])
for number in range(begun, demand["missing_workers"]):  # those that were begun before may not be there yet
    with open(f"{{folder}}/hooked{{number}}.log", "w") as log:
        worker = subprocess.Popen([{program!r}, "--server", server, "--name", f"hooked{{number}}", "--device", "cpu", "--threads", "1", "--interface", "lo"],
                                  env={{**os.environ, "HOLDFAST_TOKEN": token}}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    with open(f"{{folder}}/hooked{{number}}.pid", "w") as file:
        file.write(str(worker.pid))
"""


class ScaleHook(unittest.TestCase):
    def setUp(self):
        self.cluster = harness.Cluster()
        self.addCleanup(self._close)
        self.hook = os.path.join(self.cluster.folder, "hook")
        with open(self.hook, "w", encoding="utf-8") as file:
            file.write(HOOK.format(folder=self.cluster.folder, server=self.cluster.url, program=f"{harness.BIN}/holdfast-worker"))
        os.chmod(self.hook, stat.S_IRWXU)
        self.cluster.service_flags = ("--scale_hook", self.hook, "--scale_hook_every_s", "2", "--scale_hook_idle_s", "2", "--scale_hook_timeout_s", "3")
        self.spec = harness.small_spec(self.cluster.folder, nodes=2, min_nodes=2)

    def _close(self):
        outcome = self._outcome.result
        self.cluster.close(any(test is self for test, _ in outcome.failures + outcome.errors) or not self._outcome.success)

    def begin(self, mode):
        self.set_mode(mode)
        self.cluster.start_service()
        return self.cluster.submit(**self.spec)

    def set_mode(self, mode):
        with open(f"{self.cluster.folder}/mode.new", "w", encoding="ascii") as file:
            file.write(mode)
        os.replace(f"{self.cluster.folder}/mode.new", f"{self.cluster.folder}/mode")

    def messages(self, kind):
        return [event["message"] for event in self.cluster.get("/v1/events?limit=1000")["events"] if event["kind"] == kind]

    def metric(self, name):
        _, text = self.cluster.request("GET", "/metrics")
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    def test_it_starts_the_workers_that_a_job_waits_for_and_ends_them_when_they_are_idle(self):
        job = self.begin("work")
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(harness_hash(self.spec), shown["state_hash"])
        wait_until(lambda: {node["state"] for node in self.cluster.nodes()} == {"left"}, 30, "the idle workers to be ended")
        self.assertEqual({"hooked0", "hooked1"}, {node["id"] for node in self.cluster.nodes()})
        said = self.messages("scale_hook_called")
        self.assertIn("jobs wait for 2 workers", said[0])
        # In one call or, where the moment at which they have been idle for long enough lies between them, in two.
        idle = [name for message in said if " no job: " in message for name in re.search(r" no job: (.*)", message)[1].split(", ")]
        self.assertEqual({"hooked0", "hooked1"}, set(idle))
        wait_until(lambda: self.metric('holdfast_scale_hook_calls_total{outcome="ok"}') >= 2, 10, "both calls to have ended")
        self.assertEqual(0, self.metric('holdfast_scale_hook_calls_total{outcome="failed"}'))
        self.assertEqual(0, self.metric("holdfast_workers_missing"))

    def test_one_that_fails_is_told_with_its_words_and_called_again(self):
        job = self.begin("fail")
        said = wait_until(lambda: self.messages("scale_hook_failed"), 20, "the failure to be told")
        self.assertIn("exited with status 1: the cloud has no machines left; it is called again in 2 s", said[0])
        self.assertEqual(2, self.metric("holdfast_workers_missing"))
        wait_until(lambda: self.metric('holdfast_scale_hook_calls_total{outcome="failed"}') >= 2, 20, "a second call")
        self.assertEqual(1, len(self.messages("scale_hook_failed")), "the same failure is told once")
        self.set_mode("work")
        self.cluster.wait_state(job, "succeeded")
        self.assertEqual(1, len(self.messages("scale_hook_recovered")))

    def test_one_that_hangs_is_killed_and_nobody_waits_for_it(self):
        self.begin("hang")
        wait_until(lambda: os.path.exists(f"{self.cluster.folder}/calls"), 20, "the call")
        self.cluster.get("/v1/jobs")  # while it hangs
        said = wait_until(lambda: self.messages("scale_hook_failed"), 20, "the failure to be told")
        self.assertIn("did not end within 3 s and was killed: waiting for the cloud", said[0])
        wait_until(lambda: len(self.calls()) > 1, 20, "the next call")
        self.cluster.service.signal(15)
        self.assertEqual(0, self.cluster.service.wait_exit(), "it does not hold up the end")

    def calls(self):
        with open(f"{self.cluster.folder}/calls", encoding="utf-8") as file:
            return file.read().splitlines()

    def test_a_program_that_cannot_be_run_is_refused_at_the_start(self):
        for wrong in ("hook", "/nonexistent/hook", f"{self.cluster.folder}/train.bin"):
            done = subprocess.run([f"{harness.BIN}/holdfast", "serve", "--scale_hook", wrong], capture_output=True, text=True, check=False, timeout=30,
                                  cwd=self.cluster.folder, env=self.cluster.environment())
            self.assertEqual(2, done.returncode)
            self.assertIn("expected the absolute path of a program that this user may run", done.stderr)


def harness_hash(spec):
    """The state hash of the same job with one worker that nobody started or ended."""
    alone = harness.Cluster()
    try:
        alone.start_service().start_workers("alone")
        return alone.wait_state(alone.submit(**{**spec, "nodes": 1, "min_nodes": 1}), "succeeded")["state_hash"]
    finally:
        alone.close(False)


if __name__ == "__main__":
    harness.main()
