#!/usr/bin/python3
"""The state divided among the workers, with real processes: each chunk's owners are killed, frozen, drained and joined, and the
job ends with the bits of one that is not divided. The fault matrix has the other moments: matrix.py --sharded."""
import glob
import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
import ledger  # noqa: E402
import processes  # noqa: E402

SLOW_MS = 60
STEPS = 60  # harness.small_spec


class Sharded(harness.ClusterTest):
    references = {}  # hashes, by the model's dtype

    def setUp(self):
        super().setUp()
        self.whole = harness.small_spec(self.cluster.folder, nodes=4, min_nodes=1, max_nodes=4)
        self.spec = {**self.whole, "shard": "optimizer"}
        if not Sharded.references:
            self.cluster.start_workers("alone")
            for dtype in ("float32", "bfloat16"):
                job = self.cluster.submit(**{**self.whole, "dtype": dtype})
                Sharded.references[dtype] = self.cluster.wait_state(job, "succeeded")["state_hash"]
            self.cluster.stop_workers()

    def succeed_with_the_same_bits(self, job, steps_lost=False):
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(self.references[shown["spec"]["dtype"]], shown["state_hash"])
        if not steps_lost:
            self.assertEqual([], ledger.voided_rows(self.cluster, job))
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, self.spec["train_data_path"])
        return shown

    def shown_when(self, job, condition):
        def there():
            shown = self.cluster.job(job)
            return shown if condition(shown) else None

        return harness.wait_until(there, 30, f"{job} to be shown as it is to be")

    def start_four(self, **rules):
        """Workers w1 to w4; `rules`: HOLDFAST_FAULT of each."""
        for name in ("w1", "w2", "w3", "w4"):
            environment = {"HOLDFAST_FAULT": rules[name]} if name in rules else None
            self.cluster.start_worker(name, slow_ms=SLOW_MS, environment=environment)
        self.cluster.wait_workers("w1", "w2", "w3", "w4")

    def test_kill_9_of_any_rank_at_any_moment_of_a_step_loses_nothing(self):
        """In bfloat16 others have only the copies that they compute with; with `gradients`, only the sums that they own, too."""
        for point, rank, dtype, shard in (
                ("step", 1, "float32", "optimizer"), ("allreduce", 2, "bfloat16", "gradients"), ("reduce_scatter", 3, "float32", "gradients"),
                ("norm", 1, "float32", "optimizer"), ("norm", 2, "bfloat16", "gradients"), ("commit", 0, "bfloat16", "optimizer"),
                ("commit", 3, "float32", "gradients"), ("share", 2, "bfloat16", "optimizer"), ("confirmed", 1, "bfloat16", "gradients")):
            with self.subTest(point=point, rank=rank, dtype=dtype, shard=shard):
                rule = f"kill@{point}:step=20:rank={rank}:once_file={self.cluster.folder}/{point}-{rank}"
                self.cluster.start_workers("w1", "w2", "w3", "w4", slow_ms=20, environment={"HOLDFAST_FAULT": rule})
                job = self.cluster.submit(**{**self.spec, "shard": shard, "min_nodes": 4, "dtype": dtype})  # so that there is such a rank
                shown = self.succeed_with_the_same_bits(job)
                self.assertGreaterEqual(shown["restarts"], 1)
                self.assertNotIn("state_lost", self.cluster.event_kinds(job))
                self.cluster.stop_workers()

    def test_a_part_whose_owners_all_die_comes_from_the_checkpoint_and_it_is_said(self):
        self.start_four()
        job = self.cluster.submit(**{**self.spec, "replicas": 1, "checkpoint_every": 10})
        self.cluster.wait_step(job, 15)
        self.cluster.wait_event(job, "checkpoint_committed")
        self.cluster.kill_worker("w3")
        lost = self.cluster.wait_event(job, "state_lost")
        self.assertIn("going back to the newest checkpoint", lost["message"])
        reported = self.cluster.wait_event(job, "fault_reported", containing="chunk")
        self.assertIn("every owner of", reported["message"])
        self.succeed_with_the_same_bits(job, steps_lost=True)

    def kill_while_it_stands_at(self, point, job_spec, when):
        """Rank 2's training process stands still at the point of step 20 until `when(job)` holds, and is killed there."""
        standing = os.path.join(self.cluster.folder, f"{point}-stands")
        rule = f"mark@{point}:step=20:rank=2:once_file={standing}-once:file={standing}"
        self.start_four(**{name: rule for name in ("w1", "w2", "w3", "w4")})
        job = self.cluster.submit(**job_spec)
        harness.wait_until(lambda: os.path.exists(standing), 30, f"rank 2 to stand at {point}")
        harness.wait_until(lambda: when(job), 30, f"the others to do their part while rank 2 stands at {point}")
        name = next(worker["id"] for worker in self.cluster.job(job)["workers"] if worker["rank"] == 2)
        os.kill(self.cluster.training_pid(name), signal.SIGKILL)
        return job

    def test_a_checkpoint_that_lacks_the_part_of_a_dead_worker_is_given_up_and_the_next_is_whole(self):
        """The worker dies when it begins to write its part; rank 0, which waits for the part, says so and writes no manifest."""
        store = os.path.join(self.cluster.folder, "ckpt")
        job = self.kill_while_it_stands_at(
            "checkpoint_write", {**self.spec, "dtype": "bfloat16", "shard": "gradients", "checkpoint_every": 20, "checkpoint_store": store,
                                 "min_nodes": 4, "keep_last": 0},
            lambda job: glob.glob(os.path.join(store, job, "step-0000000020", "part-*-0.json")))
        skipped = self.cluster.wait_event(job, "checkpoint_skipped")["message"]
        self.assertIn(f"no checkpoint at step 20: the part of rank 2 is not in {store}", skipped)
        self.succeed_with_the_same_bits(job)
        self.assertEqual([40, 60], [int(name[5:]) for name in sorted(os.listdir(os.path.join(store, job)))
                                    if os.path.exists(os.path.join(store, job, name, "manifest.json"))])
        for step in (40, 60):
            self.assertIn(f"step {step}: ok", self.cluster.cli("ckpt", "verify", f"job:{job}@{step}"))
            folder = os.path.join(store, job, f"step-{step:010}")
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as manifest:
                self.assertGreaterEqual(len(json.load(manifest)["shards"]), 3, "every worker has written some")
            self.assertEqual([], [name for name in os.listdir(folder) if name.startswith("part-")])

    def test_a_checkpoint_that_could_not_begin_because_a_worker_died_is_told_of(self):
        """The worker dies before it has told the others its part of the state's hash."""
        job = self.kill_while_it_stands_at("confirmed", {**self.spec, "checkpoint_every": 20, "min_nodes": 4},
                                           lambda job: self.cluster.job(job)["step"] == 20)
        skipped = self.cluster.wait_event(job, "checkpoint_skipped")["message"]
        self.assertIn("no checkpoint at step 20: the generation ended before it could begin: ", skipped)
        self.succeed_with_the_same_bits(job)

    def test_it_is_shown_who_owns_what_and_what_the_next_loss_would_cost(self):
        self.start_four()
        job = self.cluster.submit(**{**self.spec, "total_steps": 100_000, "checkpoint_every": 10})
        self.cluster.wait_event(job, "checkpoint_committed")
        shown = self.shown_when(job, lambda job: job["division"])
        self.assertEqual({"copies": 2, "copies_wanted": 2, "nodes": 1, "bytes_to_come": 0}, shown["division"])
        parameters = 12 * sum(worker["owned_bytes"] for worker in shown["workers"]) // 24
        text = self.cluster.cli("show", job)
        self.assertRegex(text, r"divided +optimizer: each part on 2 workers of 1 node\n")
        self.assertRegex(text, r"RANK +WORKER .*OWNS\n")
        for name in ("w2", "w3", "w4"):
            self.cluster.kill_worker(name)
        shown = self.shown_when(job, lambda job: job["division"] and job["world_size"] == 1)
        self.assertEqual({"copies": 1, "copies_wanted": 2, "nodes": 1, "bytes_to_come": 0}, shown["division"])
        self.assertEqual(parameters, shown["workers"][0]["owned_bytes"])
        self.assertRegex(self.cluster.cli("show", job), r"each part on 1 worker of 1 node, 2 asked for; its loss would take the job back to step \d+")
        reduced = self.cluster.wait_event(job, "redundancy_reduced", containing="there are no more")["message"]
        self.assertRegex(reduced, r"^each part of the state is on 1 worker at least, 2 asked for: there are no more; the loss of the worker that has a part "
                                  r"goes back to step \d+$")
        self.cluster.start_worker("w2", slow_ms=SLOW_MS)
        self.cluster.wait_event(job, "redundancy_restored", containing="on 2 workers again")

    def test_the_owners_of_each_part_become_more_and_fewer_while_it_trains(self):
        self.start_four()
        job = self.cluster.submit(**{**self.spec, "shard": "gradients", "dtype": "bfloat16"})
        self.cluster.wait_step(job, 5)
        self.cluster.crawl()
        self.cluster.cli("scale", job, "--replicas", 3)
        self.shown_when(job, lambda job: job["division"] and (job["division"]["copies"], job["division"]["copies_wanted"]) == (3, 3))
        formed = self.cluster.wait_event(job, "generation_formed", containing="each part of the state is to be on 3 workers")
        self.cluster.cli("scale", job, "--replicas", 1)
        shown = self.shown_when(job, lambda job: job["division"] and job["division"]["copies_wanted"] == 1)
        self.assertEqual({"copies": 1, "copies_wanted": 1, "nodes": 1, "bytes_to_come": 0}, shown["division"])
        self.assertGreater(shown["generation"], formed["generation"])
        self.cluster.hurry()
        shown = self.succeed_with_the_same_bits(job)
        self.assertEqual((1, 2), (shown["wanted"]["replicas"], shown["spec"]["replicas"]))
        self.assertEqual(0, shown["restarts"])
        self.assertNotIn("state_lost", self.cluster.event_kinds(job))

    def test_workers_that_leave_in_order_hand_over_the_only_copies(self):
        self.start_four()
        job = self.cluster.submit(**{**self.spec, "shard": "gradients", "replicas": 1, "dtype": "bfloat16"})
        self.cluster.wait_step(job, 10)
        self.cluster.cli("drain", "w4")
        self.cluster.wait_event(job, "generation_formed", containing="generation 2")
        self.succeed_with_the_same_bits(job)
        self.assertNotIn("state_lost", self.cluster.event_kinds(job))

    def test_newcomers_take_their_parts_and_a_resumed_job_may_be_divided_otherwise(self):
        self.cluster.start_workers("w1", slow_ms=SLOW_MS)
        spec = {**self.spec, "dtype": "bfloat16"}
        job = self.cluster.submit(**{**spec, "checkpoint_every": 25})
        self.cluster.wait_step(job, 5)
        self.cluster.crawl()
        for name in ("w2", "w3"):
            self.cluster.start_worker(name, slow_ms=SLOW_MS)
        copied = self.cluster.wait_event(job, "state_copied")
        self.cluster.hurry()
        self.assertIn("took their parts of the state", copied["message"])
        self.succeed_with_the_same_bits(job)
        for other in (self.whole, {**self.spec, "shard": "gradients", "replicas": 1}):
            resumed = self.cluster.submit(**{**other, "dtype": "bfloat16", "resume_from": f"job:{job}@25"})
            self.assertEqual(self.references["bfloat16"], self.cluster.wait_state(resumed, "succeeded")["state_hash"])

    def test_a_job_too_large_for_a_worker_is_refused_and_divided_it_trains(self):
        """Under a limit that the undivided state would pass; what the kernel counts stays below it, also when a worker is lost."""
        limit_gib = 0.46
        large = {**self.whole, "n_layer": 12, "n_embd": 256, "n_head": 4, "block_size": 32, "batch_size": 1, "global_batch_size": 4,
                 "dtype": "bfloat16", "total_steps": 16, "min_nodes": 3, "checkpoint_every": 5, "valid_data_path": ""}
        self.cluster.start_worker("roomy")
        reference = self.cluster.wait_state(self.cluster.submit(**{**large, "min_nodes": 1}), "succeeded", timeout_s=240)["state_hash"]
        self.cluster.stop_workers()
        self.cluster.start_workers("w1", "w2", "w3", "w4", slow_ms=SLOW_MS, arguments=("--memory_gib", str(limit_gib)))
        job = self.cluster.submit(**large)
        refused = self.cluster.wait_event(job, "worker_refused")["message"]
        self.assertRegex(refused, rf"needs 0\.\d+ GiB of the host's memory \(.*\), which is above --memory_gib {limit_gib}: --shard \w+( --min_nodes 4)? takes")
        self.cluster.post(job, "stop")
        job = self.cluster.submit(**{**large, "shard": "auto"})
        chosen = self.cluster.wait_event(job, "shard_chosen")["message"]
        self.assertRegex(chosen, rf"^optimizer: with 3 workers none needs 0\.\d+ GiB, and w[1-4] may take {limit_gib} GiB$")
        self.cluster.wait_step(job, 6, timeout_s=240)
        self.assertRegex(self.cluster.cli("show", job), r"divided +optimizer \(auto\): each part on 2 workers")
        self.cluster.kill_worker("w2")
        shown = self.cluster.wait_state(job, "succeeded", timeout_s=240)
        self.assertEqual(reference, shown["state_hash"])
        self.assertEqual(("optimizer", "auto"), (shown["shard"], shown["spec"]["shard"]))
        self.assertEqual(["shard_chosen"], [kind for kind in self.cluster.event_kinds(job) if kind in ("shard_chosen", "state_lost")])
        for name in ("w1", "w3", "w4") if processes.PATIENCE == 1 else ():  # sanitizers take memory of their own
            self.assertLess(processes.peak_memory_of(self.cluster.training_pid(name)), limit_gib * 2**30, name)


if __name__ == "__main__":
    harness.main()
