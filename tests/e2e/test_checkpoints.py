#!/usr/bin/python3
"""Checkpoints when things go wrong: a corrupted shard, another model's checkpoint, a disk that is full, a volume that is not mounted."""
import glob
import os
import shutil
import signal
import subprocess
import unittest

import harness


class Checkpoints(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.spec = harness.small_spec(self.cluster.folder)
        self.store = os.path.join(self.cluster.folder, "store")

    def finished_job(self, **changes):
        job = self.cluster.submit(**{**self.spec, **changes})
        self.cluster.wait_state(job, "succeeded")
        return job

    def corrupt(self, step):
        """Flips one bit in the middle of a shard of this step's checkpoint; the file's path."""
        found = [p for folder in (self.store, self.cluster.data_dir)
                 for p in glob.glob(f"{folder}/**/step-{step:010d}/shard-*", recursive=True)]
        self.assertTrue(found, "no shard of the checkpoint was found")
        with open(found[0], "r+b") as file:
            file.seek(os.path.getsize(found[0]) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes((byte[0] ^ 4,)))
        return found[0]

    def test_a_corrupted_shard_is_named_and_never_loaded(self):
        self.cluster.start_workers("w1")
        job = self.finished_job(checkpoint_store=self.store)
        self.cluster.cli("ckpt", "verify", job)
        shard = self.corrupt(60)
        said = self.cluster.cli("ckpt", "verify", job, expect=1)
        self.assertIn(os.path.basename(shard), said)
        status, problem = self.cluster.request("POST", "/v1/jobs", {**self.spec, "total_steps": 80, "resume_from": f"job:{job}@60"})
        if status == 201:
            shown = self.cluster.wait_state(problem["id"], "failed")
            self.assertIn(os.path.basename(shard), shown["reason"])
        else:
            self.assertIn(os.path.basename(shard), str(problem))

    def test_latest_falls_back_to_an_older_checkpoint_and_says_so(self):
        self.cluster.start_workers("w1", slow_ms=40)
        job = self.cluster.submit(**{**self.spec, "checkpoint_store": self.store})
        self.cluster.wait_step(job, 34)
        self.cluster.crawl()
        self.cluster.wait_event(job, "checkpoint_committed", containing="step 40:")
        self.cluster.kill_everything()
        self.cluster.hurry()
        shard = self.corrupt(40)
        self.cluster.start_service()
        self.cluster.start_workers("w1")
        self.cluster.wait_state(job, "succeeded")
        said = self.cluster.wait_event(job, "checkpoint_unreadable")["message"]
        self.assertIn(os.path.basename(shard), said)

    def test_a_volume_that_is_not_mounted_is_waited_for_and_no_checkpoint_is_given_up(self):
        self.cluster.start_workers("w1", slow_ms=40)
        job = self.cluster.submit(**{**self.spec, "checkpoint_store": self.store})
        self.cluster.wait_step(job, 34)
        self.cluster.crawl()
        self.cluster.wait_event(job, "checkpoint_committed", containing="step 40:")
        self.cluster.kill_everything()
        self.cluster.hurry()
        os.rename(self.store, f"{self.store}-unmounted")
        self.cluster.start_service()
        self.cluster.start_workers("w1", "w2")
        said = self.cluster.wait_event(job, "checkpoint_away")["message"]
        self.assertIn("is its volume mounted on this machine?", said)
        reader = self.cluster.workers[said.split(":")[0]]
        reader.signal(signal.SIGTERM)
        self.assertEqual(0, reader.wait_exit(30), "it leaves, and the other one reads")
        shutil.rmtree(self.store)
        os.rename(f"{self.store}-unmounted", self.store)
        self.cluster.wait_state(job, "succeeded")
        events = self.cluster.get(f"/v1/jobs/{job}/events?limit=500")["events"]
        self.assertNotIn("checkpoint_unreadable", [each["kind"] for each in events])
        formed = [each["message"] for each in events if each["kind"] == "generation_formed"]
        self.assertNotIn("from the beginning", formed[-1])

    def test_a_checkpoint_of_another_model_is_refused(self):
        self.cluster.start_workers("w1")
        job = self.finished_job()
        status, problem = self.cluster.request("POST", "/v1/jobs", {**self.spec, "n_embd": 32, "resume_from": f"job:{job}@60"})
        said = str(problem) if status != 201 else self.cluster.wait_state(problem["id"], "failed")["reason"]
        self.assertIn("n_embd", said)
        self.assertIn("32", said)
        self.assertIn("64", said)

    def test_a_finished_run_is_prolonged_without_a_spike(self):
        self.cluster.start_workers("w1")
        job = self.finished_job()
        longer = {**self.spec, "total_steps": 120, "resume_from": f"job:{job}@60"}
        status, problem = self.cluster.request("POST", "/v1/jobs", {**longer, "schedule_start": 80})
        self.assertEqual((400, "schedule_start"), (status, problem["errors"][0]["field"]))
        self.assertIn("80 is beyond step 60 of job", problem["errors"][0]["message"])
        jumps = [self.cluster.request("POST", "/v1/jobs?dry_run=1", {**longer, **more})[1]["warnings"] for more in ({}, {"schedule_start": 60})]
        self.assertIn(f"job {job} ends at step 60, at its min_lr", str(jumps[0]))
        self.assertNotIn("at its min_lr", str(jumps[1]))
        curve = lambda of: {point["step"]: point for point in self.cluster.get(f"/v1/jobs/{of}/metrics?limit=1000")["metrics"]}  # noqa: E731
        before, after = curve(job), curve(self.finished_job(**{**longer, "schedule_start": 60}))
        self.assertAlmostEqual(self.spec["min_lr"], before[60]["learning_rate"], delta=0.05 * self.spec["learning_rate"])
        rates = [after[step]["learning_rate"] for step in range(61, 121)]
        self.assertLess(rates[0], 0.25 * self.spec["learning_rate"])
        self.assertEqual(max(rates), rates[self.spec["warmup_steps"] - 1])
        worst = max(point["loss"] for step, point in before.items() if step > 50)
        self.assertLess(max(after[step]["loss"] for step in range(61, 81)), 1.05 * worst, "a spike")
        self.assertLess(after[120]["loss"], before[60]["loss"])

    def test_a_checkpoint_that_is_not_there_is_refused(self):
        self.cluster.start_workers("w1")
        job = self.finished_job()
        for wanted in (f"job:{job}@33", "job:j999", "/no/such/folder"):
            status, problem = self.cluster.request("POST", "/v1/jobs", {**self.spec, "resume_from": wanted})
            said = str(problem) if status != 201 else self.cluster.wait_state(problem["id"], "failed")["reason"]
            self.assertIn(wanted.split("@")[-1].removeprefix("job:"), said)

    def test_retention_keeps_the_newest(self):
        self.cluster.start_workers("w1", slow_ms=20)
        job = self.finished_job(checkpoint_every=10, keep_last=2)

        def catalogue_and_disk():
            listed = {c["step"] for c in self.cluster.get(f"/v1/jobs/{job}/checkpoints")["checkpoints"]}
            stored = {int(p[-10:]) for p in glob.glob(f"{self.cluster.data_dir}/**/step-*", recursive=True)}
            return listed, stored

        # On a busy machine one may be left out, for the one before it is still being written.
        newest = set(self.cluster.committed_steps(job)[-2:])

        def agree_on_the_newest():  # what the last one made superfluous goes after it, so after the end
            listed, stored = catalogue_and_disk()
            return listed == stored and listed == newest

        harness.wait_until(agree_on_the_newest, 20, "the catalogue and the disk to hold the newest")

    def mount_small_disk(self, size):
        os.mkdir(self.store)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.store], capture_output=True,
                                 text=True, check=False)
        if mounted.returncode != 0:
            raise unittest.SkipTest(f"a small disk takes a mount, which is not allowed here: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", self.store], check=False)

    def remount(self, options):
        subprocess.run(["mount", "-o", f"remount,{options}", self.store], check=True)

    def submit_to_the_store(self):
        self.cluster.start_workers("w1", slow_ms=80)
        return self.cluster.submit(**{**self.spec, "checkpoint_store": self.store, "checkpoint_every": 10})

    def trains_on_after(self, job, *said):
        """The event of the failure, once the job trained on after it."""
        failed = self.cluster.wait_event(job, "checkpoint_failed")["message"]
        for text in (*said, self.store, "training goes on"):
            self.assertIn(text, failed)
        self.cluster.wait_step(job, self.cluster.job(job)["step"] + 5)
        return failed

    def ends_with_its_last_checkpoint(self, job):
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual((0, 60), (shown["restarts"], shown["latest_checkpoint"]["step"]))
        self.cluster.cli("ckpt", "verify", job)

    def test_a_full_disk_stops_no_training_and_is_tried_again(self):
        self.mount_small_disk("256k")
        job = self.submit_to_the_store()
        self.trains_on_after(job, "No space left", "free space there")
        self.remount("size=64m")
        self.cluster.wait_event(job, "checkpoint_committed")
        self.ends_with_its_last_checkpoint(job)

    def test_a_disk_that_turns_read_only_stops_no_training_and_the_end_waits_for_it(self):
        self.mount_small_disk("64m")
        job = self.submit_to_the_store()
        self.cluster.wait_event(job, "checkpoint_committed", containing="10")
        self.remount("ro")
        self.trains_on_after(job, "Read-only file system", "mount it writable")
        self.cluster.wait_event(job, "checkpoint_failed", containing="the job waits for it")
        self.assertEqual("running", self.cluster.wait_step(job, 60)["state"])
        self.remount("rw")
        self.ends_with_its_last_checkpoint(job)

    def test_a_folder_that_vanishes_stops_no_training_and_is_not_made_again_beside_its_volume(self):
        job = self.submit_to_the_store()
        self.cluster.wait_event(job, "checkpoint_committed", containing="10")
        os.rename(self.store, self.store + "-away")
        self.trains_on_after(job, "has vanished", "is its volume still mounted")
        self.assertFalse(os.path.exists(self.store))
        os.rename(self.store + "-away", self.store)
        self.ends_with_its_last_checkpoint(job)


if __name__ == "__main__":
    harness.main()
