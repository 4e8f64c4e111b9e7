#!/usr/bin/python3
"""A short drill with `holdfast chaos`: every kind of fault once, on a job that ends with the bits of an undisturbed one."""
import json
import os

import harness
import ledger
from restarter import Restarter

STEPS = 260
SCRIPT = """
1s kill w2
4s corrupt w1
5s slow w1 for 1s
6s freeze w3 for 5s
12s cut w2 for 5s
18s service-kill
"""


class Chaos(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.drills = os.path.join(self.cluster.folder, "drills")
        os.mkdir(self.drills)
        self.spec = harness.small_spec(self.cluster.folder, total_steps=STEPS, checkpoint_every=0, min_nodes=1)

    def start_drilled_workers(self, *names):
        self.cluster.start_workers(*names, slow_ms=80, arguments=("--drills", self.drills))

    def chaos(self, job, *arguments, expect=0):
        return self.cluster.cli("chaos", job, "--yes", "--quiet", "--json", *arguments, expect=expect, timeout_s=150)

    def test_a_drill_with_every_fault_ends_with_the_bits_of_an_undisturbed_job(self):
        self.cluster.start_workers("alone")
        reference = self.cluster.submit(**self.spec)
        self.cluster.wait_state(reference, "succeeded")
        self.cluster.stop_workers()

        self.start_drilled_workers("w1", "w2", "w3")
        job = self.cluster.submit(**{**self.spec, "nodes": 3})
        self.cluster.wait_step(job, 20)
        script = os.path.join(self.cluster.folder, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        with Restarter(self.cluster):
            report = json.loads(self.chaos(job, "--script", script, "--drills", self.drills, "--reference", reference))

        self.assertEqual([], report["skipped"])
        self.assertEqual(["kill", "corrupt", "slow", "freeze", "cut", "service-kill"], [f["fault"] for f in report["faults"]])
        self.assertTrue(report["same_hash"], report)
        self.assertEqual(0, report["steps_lost"], "a worker with the state lived all the time")
        costs = {f["fault"]: f for f in report["faults"]}
        for fault in ("freeze", "cut"):
            self.assertGreater(costs[fault]["without_progress_s"], 0, "nobody goes on before the lease ends")
        self.assertGreater(costs["slow"]["slower_s"], 0)
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, self.spec["train_data_path"])
        said = " ".join(event["message"] for event in self.cluster.events(job))
        self.assertIn("checksum", said, "the corrupted byte was seen for what it was")
        self.assertEqual({"w1.consents", "w2.consents", "w3.consents"}, set(os.listdir(self.drills)), "nothing is left behind")

    def test_a_drill_that_is_interrupted_lets_go_of_what_it_holds_and_reports(self):
        self.start_drilled_workers("w1", "w2")
        job = self.cluster.submit(**{**self.spec, "nodes": 2, "total_steps": 100000})
        self.cluster.wait_step(job, 5)
        script = os.path.join(self.cluster.folder, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write("0s slow w1 for 10m\n")
        drill = self.cluster.spawn("drill", [f"{harness.BIN}/holdfast", "chaos", job, "--yes", "--server", self.cluster.url, "--script",
                                             script, "--drills", self.drills])
        slow = os.path.join(self.drills, "w1.slow")
        harness.wait_until(lambda: os.path.exists(slow), 20, "the fault")
        drill.signal(2)
        self.assertEqual(0, drill.wait_exit(), "it does not wait for the 10 minutes")
        self.assertFalse(os.path.exists(slow))
        self.assertIn("w1 is as quick as it was", drill.log())
        self.assertIn("1 fault in", drill.log())


if __name__ == "__main__":
    harness.main()
