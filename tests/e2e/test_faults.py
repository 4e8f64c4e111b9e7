#!/usr/bin/python3
"""Faults that are not a plain kill: a frozen rank, a crashing training process, a service that is away, wrong data."""
import os
import signal

import harness
import ledger

SLOW_MS = 80  # a step: the run outlasts a lease


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"


class Faults(harness.ClusterTest):
    reference = None

    def setUp(self):
        super().setUp()
        self.spec = harness.small_spec(self.cluster.folder)
        if Faults.reference is None:
            self.cluster.start_workers("alone")
            Faults.reference = self.cluster.wait_state(self.cluster.submit(**self.spec), "succeeded")["state_hash"]
            self.cluster.stop_workers()

    def succeed_with_the_same_bits(self, job):
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(self.reference, shown["state_hash"])
        ledger.assert_every_microbatch_once(self, self.cluster, job, 60, self.spec["train_data_path"])
        return shown

    def start_pair_with_one_that_freezes(self, **changes):
        """w1 and w2 train; w2's training process stops itself (SIGSTOP) in the all-reduce of step 15, once."""
        self.cluster.start_worker("w1", slow_ms=SLOW_MS)
        self.cluster.start_worker("w2", slow_ms=SLOW_MS, environment={
            "HOLDFAST_FAULT": f"stop@allreduce:step=14:once_file={self.cluster.folder}/frozen"})
        self.cluster.wait_workers("w1", "w2")
        job = self.cluster.submit(**{**self.spec, "nodes": 2, "min_nodes": 1, "collective_timeout_s": 2, **changes})
        self.cluster.wait_step(job, 1)
        return job, self.cluster.job(job), next(n for n in self.cluster.nodes() if n["id"] == "w2")

    def test_a_rank_frozen_in_the_all_reduce_is_left_behind_and_rejoins_as_new(self):
        job, before, old = self.start_pair_with_one_that_freezes()
        harness.wait_until(lambda: is_stopped(old["pid"]), 30, "w2 to freeze")
        alone = harness.wait_until(lambda: (s := self.cluster.job(job))["world_size"] == 1 and s["step"] > 16 and s, 30,
                                   "the other worker to go on alone")
        self.assertGreater(alone["generation"], before["generation"])
        self.assertTrue([e for e in self.cluster.events(job) if e["kind"] == "fault_reported"])
        self.assertEqual("lost", next(n for n in self.cluster.nodes() if n["id"] == "w2")["state"], "this life of it is over")
        self.cluster.crawl()
        os.kill(old["pid"], signal.SIGCONT)
        harness.wait_until(lambda: self.cluster.job(job)["world_size"] == 2, 30, "the woken worker to be back as a new one")
        self.cluster.hurry()
        new = next(n for n in self.cluster.nodes() if n["id"] == "w2")
        self.assertNotEqual(old["incarnation"], new["incarnation"])
        self.succeed_with_the_same_bits(job)

    def test_a_wedged_collective_ends_by_its_own_timeout_while_the_service_is_away(self):
        job, _, frozen = self.start_pair_with_one_that_freezes()
        self.cluster.service.kill()
        harness.wait_until(lambda: is_stopped(frozen["pid"]), 30, "w2 to freeze")
        self.cluster.workers["w1"].wait_log("no bytes")
        self.cluster.start_service()
        harness.wait_until(lambda: self.cluster.job(job)["step"] > 20, 60, "w1 to go on alone")
        os.kill(frozen["pid"], signal.SIGCONT)
        self.succeed_with_the_same_bits(job)

    def test_a_training_process_that_crashes_is_started_again_by_its_supervisor(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**{**self.spec, "nodes": 2})
        self.cluster.wait_step(job, 10)
        old = next(n for n in self.cluster.nodes() if n["id"] == "w2")
        os.kill(old["pid"], signal.SIGKILL)
        self.cluster.wait_event(job, "worker_lost")
        # By its supervisor's word, or first by its neighbour's; then its supervisor's word comes later.
        told = ("worker_lost", "worker_ended")
        harness.wait_until(lambda: any(e["kind"] in told and "signal 9" in e["message"] for e in self.cluster.events(job)), 30,
                           "somebody to say what ended it")
        self.cluster.crawl()
        harness.wait_until(lambda: self.cluster.job(job)["world_size"] == 2 and self.cluster.training_pid("w2") != old["pid"], 30,
                           "w2 to be back")
        self.cluster.hurry()
        self.assertTrue(self.cluster.workers["w2"].running(), "the supervisor stays")
        self.assertGreaterEqual(self.succeed_with_the_same_bits(job)["restarts"], 1)

    def test_a_death_around_the_commit_of_a_step_loses_nothing(self):
        """Between applying a step and hearing that all have: rank 0, which tells the service, or its neighbour."""
        for point, rank in (("commit", 0), ("confirmed", 0), ("commit", 1)):
            with self.subTest(point=point, rank=rank):
                rule = f"kill@{point}:step=20:rank={rank}:once_file={self.cluster.folder}/{point}-{rank}"
                self.cluster.start_workers("w1", "w2", slow_ms=20, environment={"HOLDFAST_FAULT": rule})
                job = self.cluster.submit(**{**self.spec, "nodes": 2, "min_nodes": 2})
                shown = self.succeed_with_the_same_bits(job)
                self.assertEqual(1, shown["restarts"])
                self.assertEqual([], ledger.voided_rows(self.cluster, job), "one of the two holds the step")
                points = self.cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
                self.assertEqual(list(range(1, 61)), [p["step"] for p in points], "the dead rank's report is made by another")
                self.cluster.stop_workers()

    def test_only_the_microbatches_of_the_lost_rank_are_computed_again(self):
        # Without overlap a rank reduces when it has computed its share. The one that dies waits until the others have theirs.
        rule = f"slow@allreduce:step=20:rank=1:ms=2500,kill@allreduce:step=20:rank=1:once_file={self.cluster.folder}/lost"
        self.cluster.start_workers("w1", "w2", "w3", slow_ms=20, environment={"HOLDFAST_FAULT": rule})
        job = self.cluster.submit(**{**self.spec, "nodes": 3, "min_nodes": 2, "overlap": "off"})
        self.succeed_with_the_same_bits(job)
        kept = self.cluster.wait_event(job, "microbatches_kept")["message"]
        self.assertIn("step 21: 4 of 6 microbatches are kept", kept)
        rows = [row for row in self.cluster.get(f"/v1/jobs/{job}/ledger")["rows"]
                if row["first_step"] <= 21 <= row["last_step"]]
        self.assertEqual({"w1": [0, 1, 2], "w3": [3, 4, 5]}, {w: sorted(
            m for r in rows if r["worker"] == w for m in range(r["first_microbatch"], r["last_microbatch"])) for w in ("w1", "w3")})

    def test_recovery_from_the_checkpoint_does_the_steps_since_again(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**{**self.spec, "nodes": 2, "recovery": "checkpoint", "checkpoint_every": 20})
        self.cluster.wait_step(job, 17)
        self.cluster.crawl()
        self.cluster.wait_event(job, "checkpoint_committed", containing="step 20:")
        self.cluster.wait_step(job, 23)
        self.cluster.kill_worker("w2")
        self.cluster.hurry()
        self.succeed_with_the_same_bits(job)
        voided = ledger.voided_rows(self.cluster, job)
        self.assertEqual(21, min(row["first_step"] for row in voided))

    def test_a_death_is_seen_by_the_neighbour_while_it_computes(self):
        """w1 computes a step that outlasts the lease; what it sees of w2 must not wait for the end of it."""
        self.cluster.start_worker("w1", slow_ms=SLOW_MS, environment={"HOLDFAST_FAULT": "slow@step:step=10:ms=6000"})
        self.cluster.start_worker("w2", slow_ms=SLOW_MS)
        self.cluster.wait_workers("w1", "w2")
        job = self.cluster.submit(**{**self.spec, "nodes": 2, "min_nodes": 1})
        self.cluster.wait_step(job, 10)
        self.cluster.kill_worker("w2")
        first = self.cluster.wait_event(job, "fault_reported")
        self.assertIn("while this rank computed", first["message"])
        self.succeed_with_the_same_bits(job)

    def test_workers_train_on_through_checkpoints_while_the_service_is_away(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        store = f"{self.cluster.folder}/checkpoints"
        job = self.cluster.submit(**{**self.spec, "nodes": 2, "checkpoint_every": 10, "keep_last": 10, "checkpoint_store": store})
        before = self.cluster.wait_step(job, 10)
        self.cluster.wait_event(job, "checkpoint_committed")
        self.cluster.service.kill()
        self.cluster.workers["w1"].wait_log("the service is away")
        # Nothing tells of the steps but what they leave behind: two more checkpoints, and the steps in between.

        def later_ones():  # on a busy machine one may be left out, for the one before it is still being written
            return [step for step in range(20, 61, 10) if os.path.exists(f"{store}/{job}/step-{step:010}/manifest.json")]
        seen = later_ones()
        written = harness.wait_until(lambda: (steps := later_ones())[len(seen) + 1:] and steps, 60, "two more checkpoints")
        self.cluster.start_service()
        for step in written:
            self.cluster.wait_event(job, "checkpoint_committed", containing=f"step {step}:")
        back = harness.wait_until(lambda: (s := self.cluster.job(job))["step"] > before["step"] and s, 30, "news of the run")
        self.assertEqual(before["generation"], back["generation"], "nothing changed for the workers")
        shown = self.succeed_with_the_same_bits(job)
        self.assertEqual((0, before["generation"]), (shown["restarts"], shown["generation"]))
        points = self.cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
        self.assertEqual(list(range(1, 61)), [p["step"] for p in points], "the steps of the time between are reported too")

    def test_sigterm_leaves_in_order(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**{**self.spec, "nodes": 2})
        self.cluster.wait_step(job, 10)
        leaving = self.cluster.workers.pop("w2")
        leaving.signal(signal.SIGTERM)
        self.assertEqual(0, leaving.wait_exit())
        shown = self.succeed_with_the_same_bits(job)
        self.assertEqual(0, shown["restarts"], "leaving is no fault")
        self.assertEqual([], ledger.voided_rows(self.cluster, job))
        kinds = self.cluster.event_kinds(job)
        self.assertIn("worker_left", kinds)
        self.assertFalse({"fault_reported", "worker_lost"} & set(kinds), kinds)

    def test_a_worker_with_other_data_is_refused_with_both_digests(self):
        other = os.path.join(self.cluster.folder, "other")
        right = os.path.join(self.cluster.folder, "right")
        for folder in (other, right):
            os.mkdir(folder)
        train, _ = harness.write_training_files(right)
        with open(train, "rb") as file:
            tokens = bytearray(file.read())
        tokens[2000] ^= 1
        with open(os.path.join(other, "train.bin"), "wb") as file:
            file.write(tokens)
        self.cluster.start_workers("w1", slow_ms=SLOW_MS, arguments=("--data_root", right))
        job = self.cluster.submit(**{**self.spec, "train_data_path": "train.bin", "valid_data_path": "", "max_nodes": 2})
        self.cluster.wait_step(job, 1)
        self.cluster.start_workers("w2", arguments=("--data_root", other))
        refused = self.cluster.wait_event(job, "worker_refused")
        self.assertEqual("w2", refused["worker"])
        digests = [word.strip("'\".,;:()") for word in refused["message"].split() if word.startswith(("10358-", "'10358-"))]
        self.assertEqual(2, len(set(digests)), refused["message"])
        self.assertEqual(["w1"], [w["id"] for w in self.cluster.job(job)["workers"]], "the other one goes on")
        self.cluster.wait_state(job, "succeeded")


if __name__ == "__main__":
    harness.main()
