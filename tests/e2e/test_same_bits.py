#!/usr/bin/python3
"""The promise: the same 60-step job ends with the same bits, undisturbed or killed, shrunk, grown and resumed.

One reference run with one worker that has one thread; each test does the same job another way and compares the hashes of
parameters and optimizer state at every step at which both were seen, the last one always.
usage: test_same_bits.py float32|bfloat16|float16|int16 [unittest arguments]; int16 is float32 with 16 bits on the wire,
float32 has a head of its own, bfloat16 dropout, and float16 no biases"""
import sys
import unittest

import harness
import ledger

VARIANTS = {"float32": {"dtype": "float32", "tied_head": "off"}, "bfloat16": {"dtype": "bfloat16", "dropout": 0.1}, "float16": {"dtype": "float16", "biases": "off"},
            "int16": {"dtype": "float32", "wire_dtype": "int16", "tied_head": "off"}}
VARIANT = VARIANTS["float32"]
SLOW_MS = 40  # a step: long enough that what happens in the middle of the run does not come too late
STEPS = 60


class SameBits(harness.ClusterTest):
    reference = None  # HashTrail.seen of the undisturbed run

    def setUp(self):
        super().setUp()
        self.spec = harness.small_spec(self.cluster.folder, **VARIANT)
        if SameBits.reference is None:
            SameBits.reference = self.undisturbed()

    def undisturbed(self):
        self.cluster.start_workers("alone")
        trail = harness.HashTrail()
        shown = trail.to_end(self.cluster, self.cluster.submit(**self.spec))
        self.assertEqual(STEPS, shown["state_hash_step"])
        self.cluster.stop_workers()
        return trail.seen

    def assert_same_bits(self, trail):
        common = set(trail.seen) & set(self.reference)
        self.assertIn(STEPS, common)
        self.assertEqual({s: self.reference[s] for s in common}, {s: trail.seen[s] for s in common})

    def run_to_end(self, **changes):
        trail = harness.HashTrail()
        job = self.cluster.submit(**{**self.spec, **changes})
        shown = trail.to_end(self.cluster, job)
        self.assert_same_bits(trail)
        return job, shown

    def test_with_two_workers(self):
        self.cluster.start_workers("w1", "w2")
        job, shown = self.run_to_end(nodes=2, min_nodes=2)
        self.assertEqual(0, shown["restarts"])
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, self.spec["train_data_path"])
        self.cluster.workers["w1"].wait_log("add up in shared memory")

    def test_with_workers_that_do_not_share_memory(self):
        self.cluster.start_worker("w1", arguments=("--no_shared_memory",))
        self.cluster.start_workers("w2", "w3")
        self.run_to_end(nodes=3, min_nodes=3)
        self.cluster.workers["w2"].wait_log("the workers of each node add up in shared memory; 2 nodes in all")
        self.cluster.stop_workers()
        self.cluster.start_workers("w4", "w5", environment={"NCCL_SHM_DISABLE": "1"})
        self.run_to_end(nodes=2, min_nodes=2)
        self.assertNotIn("add up in shared memory", self.cluster.workers["w4"].wait_log("generation 1 begins"))

    def test_with_three_workers(self):
        self.cluster.start_workers("w1", "w2", "w3")
        self.run_to_end(nodes=3, min_nodes=3)

    def test_with_two_threads_and_with_workers_that_differ_in_threads(self):
        self.cluster.start_workers("w1", threads=2)
        self.run_to_end()
        self.cluster.start_workers("w2", threads=1)
        self.run_to_end(nodes=2, min_nodes=2)

    def test_with_one_of_two_workers_killed_in_a_step(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec, nodes=2)
        trail = harness.HashTrail()
        before = trail.to_step(self.cluster, job, 20)
        self.assertEqual(2, before["world_size"])
        self.cluster.kill_worker("w2")
        shown = trail.to_end(self.cluster, job)
        self.assert_same_bits(trail)
        self.assertEqual(1, shown["restarts"], self.cluster.events(job))
        self.assertGreater(shown["generation"], before["generation"])
        self.assertEqual([], ledger.voided_rows(self.cluster, job), "no committed step is lost while one worker lives")
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, self.spec["train_data_path"])

    def test_with_the_master_killed_in_a_step(self):
        self.cluster.start_workers("w1", "w2", "w3", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec, nodes=3)
        trail = harness.HashTrail()
        before = trail.to_step(self.cluster, job, 20)
        master = next(w["id"] for w in before["workers"] if w["rank"] == 0)
        self.cluster.kill_worker(master)
        trail.to_end(self.cluster, job)
        self.assert_same_bits(trail)
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, self.spec["train_data_path"])

    def test_with_one_joining_in_the_middle(self):
        self.cluster.start_workers("w1", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec)
        trail = harness.HashTrail()
        trail.to_step(self.cluster, job, 10)
        self.cluster.crawl()
        self.cluster.start_worker("w2", slow_ms=SLOW_MS)
        trail.follow(self.cluster, job, lambda shown: shown["world_size"] == 2, 30, "w2 to join")
        self.cluster.hurry()
        shown = trail.to_end(self.cluster, job)
        self.assert_same_bits(trail)
        self.assertEqual(0, shown["restarts"], "a join is no fault")
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, self.spec["train_data_path"])

    def test_with_everything_killed_and_started_again(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec, nodes=2)
        trail = harness.HashTrail()
        trail.to_step(self.cluster, job, 17)
        self.cluster.crawl()
        self.cluster.wait_event(job, "checkpoint_committed", containing="step 20:")
        trail.to_step(self.cluster, job, 23)
        self.cluster.kill_everything()
        self.cluster.hurry()
        self.cluster.start_service()
        self.cluster.start_workers("w1", "w2")
        trail.to_end(self.cluster, job)
        self.assert_same_bits(trail)
        self.assertTrue(ledger.voided_rows(self.cluster, job), "steps after the checkpoint were done twice and say so")
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, self.spec["train_data_path"])

    def test_when_stopped_and_submitted_again_from_its_checkpoint(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        first = self.cluster.submit(**self.spec, nodes=2)
        self.cluster.wait_step(first, 25)
        self.cluster.cli("stop", first)
        stopped = self.cluster.wait_state(first, "cancelled")
        step = stopped["latest_checkpoint"]["step"]
        self.assertGreaterEqual(step, 25)
        flags = [part for key, value in self.spec.items() for part in (f"--{key}", str(value))]
        for resume_from in (f"job:{first}@{step}", f"job:{first}@20", f"job:{first}"):
            with self.subTest(resume_from):
                again = self.cluster.cli("submit", *flags, "--resume_from", resume_from).split()[-1]
                trail = harness.HashTrail()
                trail.to_end(self.cluster, again)
                self.assert_same_bits(trail)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in VARIANTS:
        VARIANT = VARIANTS[sys.argv.pop(1)]
    harness.main()
