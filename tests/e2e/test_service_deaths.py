#!/usr/bin/python3
"""A service that is killed around its commits and started again, and one whose database is put back from an older copy.

test_service_deaths.py               a handful of commits, each kind that a job's life has, before and after
test_service_deaths.py --all [STEP]  every STEP-th commit of the whole life (1 unless said), before and after, and workers that all
                                     leave while the service is gone: takes long"""
import contextlib
import os
import signal
import sqlite3
import sys
import threading
import time
import unittest
import urllib.error

import harness
import ledger

EVERY = 0  # --all: every commit, or every so-manieth
if "--all" in sys.argv:
    at = sys.argv.index("--all")
    EVERY = int(sys.argv[at + 1]) if sys.argv[at + 1:at + 2] and sys.argv[at + 1].isdigit() else 1
    sys.argv = [sys.argv[0], "ServiceDeaths.test_killed_around_every_commit_of_a_whole_life", "ServiceThatIsGone"]

# What a commit holds -> what it is about. The second formation is that after the death of a worker.
COMMITS = {
    "worker_registered": "a worker registers",
    "idempotency": "a job is submitted with a key",
    "generation_formed": "a generation is formed",
    "step": "steps are reported",
    "checkpoint_committed": "a checkpoint is registered",
    "worker_lost": "a worker is lost",
    "job_succeeded": "the job ends",
}

LEAVE_WITHIN_S = 660  # TimeoutStopSec of ops/deploy/systemd/holdfast-worker@.service


class KeptService:
    """Starts the service again whenever it dies, as a service manager would, with the same drill in its environment."""

    def __init__(self, cluster, drill):
        self.cluster, self.drill, self.deaths = cluster, {"HOLDFAST_FAULT": drill}, 0
        self.stopping = threading.Event()
        cluster.service.kill()
        self._start()
        self.keeper = threading.Thread(target=self._keep)
        self.keeper.start()

    def _start(self):
        while not self.stopping.is_set():
            try:
                return self.cluster.start_service(self.drill)
            except AssertionError:  # it died before it was ready
                self.deaths += 1

    def _keep(self):
        while not self.stopping.wait(0.02):
            if not self.cluster.service.running():
                self.deaths += 1
                self._start()

    def stop(self):
        self.stopping.set()
        self.keeper.join()


class ServiceDeaths(harness.ClusterTest):
    reference = None

    def setUp(self):
        super().setUp()
        self.spec = harness.small_spec(self.cluster.folder, total_steps=40)
        if ServiceDeaths.reference is None:
            self.cluster.start_workers("alone")
            shown = self.cluster.wait_state(self.cluster.submit(**self.spec), "succeeded")
            ServiceDeaths.reference = shown["state_hash"]
            self.cluster.stop_workers()

    def insist(self, method, path, body, key):
        """As a client with an Idempotency-Key does: again, until there is an answer."""
        def answer():
            try:
                status, reply = self.cluster.request(method, path, body, headers={"Idempotency-Key": key})
            except (urllib.error.URLError, OSError):
                return None
            return None if status == 503 else (status, reply)
        return harness.wait_until(answer, 60, f"an answer to {method} {path}")

    def live(self, drill, key):
        """A job with a worker that dies in it, under a service that dies as `drill` says. How often it died."""
        kept = KeptService(self.cluster, drill)
        self.addCleanup(kept.stop)
        names = [f"{key}-w1", f"{key}-w2"]  # new ones in each run: one that dies in run after run would be held back
        for name in names:
            self.cluster.start_worker(name, slow_ms=100)  # the job must not end while the service is away
        harness.wait_until(lambda: set(names) <= {n["id"] for n in (self.cluster.try_get("/v1/nodes") or {"nodes": ()})["nodes"]},
                           20, "two workers")
        spec = {**self.spec, "nodes": 2, "min_nodes": 1}
        status, job = self.insist("POST", "/v1/jobs", spec, key)
        self.assertEqual(201, status)
        trail, generations = harness.HashTrail(), []

        def shown_until(condition, what):
            def noted(shown):
                generations.append(shown["generation"])
                return condition(shown)
            return trail.follow(self.cluster, job["id"], noted, 90, what)

        shown_until(lambda shown: shown["world_size"] == 2 and shown["step"] >= 15, "two workers at step 15")
        nodes = harness.wait_until(lambda: self.cluster.try_get("/v1/nodes"), 20, "the workers' list")["nodes"]
        os.kill(next(n["pid"] for n in nodes if n["id"] == names[1]), signal.SIGKILL)
        shown = shown_until(lambda shown: shown["state"] == "succeeded", "the end")
        status, twin = self.insist("POST", "/v1/jobs", spec, key)
        kept.stop()
        self.assertEqual((201, job["id"]), (status, twin["id"]), "one key, one job")
        self.assertEqual(self.reference, shown["state_hash"])
        self.assertEqual(sorted(generations), generations, "generations never go back")
        ledger.assert_every_microbatch_once(self, self.cluster, job["id"], 40, self.spec["train_data_path"])
        self.cluster.stop_workers()
        return kept.deaths

    def test_killed_around_each_kind_of_commit_nothing_is_lost_or_doubled(self):
        for point in ("before_commit", "after_commit"):
            with self.subTest(point=point):
                marks = {kind: f"{self.cluster.folder}/{point}-{kind}" for kind in COMMITS}
                again = f"{self.cluster.folder}/{point}-second-generation"
                drill = [f"kill@{point}:with={kind}:once_file={mark}" for kind, mark in marks.items()]
                drill.append(f"kill@{point}:with=fault_reported:once_file={again}")
                deaths = self.live(",".join(drill), point)
                missed = [what for kind, what in COMMITS.items() if not os.path.exists(marks[kind])]
                self.assertEqual([], missed, "commits at which it was to die")
                self.assertGreaterEqual(deaths, 4, "several of them may share a commit")

    @unittest.skipUnless(EVERY, "every commit of a life takes long: --all")
    def test_killed_around_every_commit_of_a_whole_life(self):
        for point in ("before_commit", "after_commit"):
            n, deaths = 1, 1
            while deaths:
                with self.subTest(point=point, n=n):
                    deaths = self.live(f"kill@{point}:n={n}:once_file={self.cluster.folder}/{point}-{n}", f"{point}-{n}")
                    print(f"{point} {n}: {'the same bits' if deaths else 'no such commit: that was the whole life'}", flush=True)
                n += EVERY


class RestoredDatabase(harness.ClusterTest):
    def test_workers_that_are_newer_than_the_database_keep_their_state(self):
        spec = harness.small_spec(self.cluster.folder, total_steps=120, checkpoint_every=1000)
        self.cluster.start_workers("alone")
        reference = self.cluster.wait_state(self.cluster.submit(**spec), "succeeded")["state_hash"]
        self.cluster.stop_workers()
        self.cluster.start_workers("w1", "w2", slow_ms=60)
        job = self.cluster.submit(**{**spec, "nodes": 2, "min_nodes": 1})
        self.cluster.wait_step(job, 10)
        database = f"{self.cluster.data_dir}/holdfast.sqlite"
        copy_path = f"{self.cluster.folder}/copy.sqlite"
        with contextlib.closing(sqlite3.connect(database)) as source, contextlib.closing(sqlite3.connect(copy_path)) as copy:
            source.backup(copy)
        # Generations that the copy does not know: w2 dies and its next life joins.
        os.kill(self.cluster.training_pid("w2"), signal.SIGKILL)
        self.cluster.wait_event(job, "worker_lost")
        harness.wait_until(lambda: (s := self.cluster.job(job))["world_size"] == 2 and s["generation"] >= 2, 30, "w2's next life")
        before = self.cluster.wait_step(job, 30)
        self.cluster.service.kill()
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(database + suffix):
                os.unlink(database + suffix)
        os.rename(copy_path, database)
        self.cluster.start_service()
        self.cluster.wait_event(job, "database_older")
        after = harness.wait_until(lambda: (s := self.cluster.job(job))["step"] > before["step"] and s["world_size"] and s, 30,
                                   "the job to go on")
        self.assertGreater(after["generation"], before["generation"], "no number is used twice")
        missing = self.cluster.wait_event(job, "records_missing")["message"]
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(reference, shown["state_hash"])
        self.assertEqual([], ledger.voided_rows(self.cluster, job), "nothing is computed again")
        audit = self.cluster.cli("audit", job, "--data", spec["train_data_path"], expect=1)
        self.assertIn("not noted", audit, missing)


class ServiceThatIsGone(harness.ClusterTest):
    @unittest.skipUnless(EVERY, "ten minutes of waiting: --all")
    def test_workers_that_all_leave_end_where_the_service_had_the_checkpoints(self):
        for shard in ("none", "optimizer"):
            with self.subTest(shard=shard):
                self.leave(shard)

    def leave(self, shard):
        spec = harness.small_spec(self.cluster.folder, nodes=2, total_steps=1000, checkpoint_every=2, keep_last=1, eval_every=0, shard=shard)
        self.cluster.start_workers("w1", "w2", slow_ms=1)
        reference = self.cluster.wait_state(self.cluster.submit(**spec), "succeeded", timeout_s=120)["state_hash"]
        job = self.cluster.submit(**spec)
        self.cluster.wait_step(job, 20)
        self.cluster.crawl()
        self.cluster.wait_step(job, self.cluster.job(job)["step"] + 2)
        self.cluster.service.kill()
        workers = list(self.cluster.workers.values())
        for worker in workers:
            worker.signal(signal.SIGTERM)
        deadline = time.monotonic() + LEAVE_WITHIN_S
        for worker in workers:
            self.assertEqual(0, worker.wait_exit(max(1, deadline - time.monotonic())))
        logs = [worker.log() for worker in workers]
        self.assertTrue(any("another SIGTERM ends the worker without it" in log for log in logs), logs)
        self.cluster.start_service()
        self.cluster.start_workers("w3", "w4")
        self.assertEqual(reference, self.cluster.wait_state(job, "succeeded", timeout_s=120)["state_hash"])
        self.cluster.stop_workers()
        self.cluster.hurry()


if __name__ == "__main__":
    harness.main()
