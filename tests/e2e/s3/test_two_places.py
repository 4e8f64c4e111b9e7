#!/usr/bin/python3
"""Checkpoints in two places: copied beside training, seen in the catalogue, damaged in both at random, and restored and mended with
the same bits as long as each shard is whole in one of them. The second place is S3 where s3rver is there, else another folder."""
import glob
import os
import random
import shutil
import sys
import unittest

E2E = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [E2E, os.path.join(os.path.dirname(E2E), "storage", "s3")]
import harness  # noqa: E402
import servers  # noqa: E402

SLOW_MS = 100  # so that each checkpoint is written before the next is due


class TwoPlaces(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.first, self.second = (os.path.join(self.cluster.folder, name) for name in ("first", "second"))
        self.spec = {**harness.small_spec(self.cluster.folder), "checkpoint_store": self.first, "checkpoint_copy": self.second,
                     "keep_last": 0}

    def rows(self, job):
        return self.cluster.get(f"/v1/jobs/{job}/checkpoints")["checkpoints"]

    def wait_copied(self, job, *steps):
        def there():
            copied = {row["step"] for row in self.rows(job) if row["copy"] and row["copy"]["copied_at"]}
            return set(steps) <= copied
        harness.wait_until(there, 40, f"copies of {steps}")

    def plain_hash(self, **changes):
        spec = {k: v for k, v in {**self.spec, **changes}.items() if k not in ("checkpoint_copy", "checkpoint_store")}
        return self.cluster.wait_state(self.cluster.submit(**spec), "succeeded")["state_hash"]

    def damage(self, job, step, seed):
        """Each shard of a step in one place or the other, and the manifest: altered, cut short or removed."""
        dice = random.Random(seed)
        for name in os.listdir(f"{self.first}/{job}/step-{step:010d}"):
            path = f"{dice.choice((self.first, self.second))}/{job}/step-{step:010d}/{name}"
            how = dice.randrange(3)
            if how == 0:
                os.unlink(path)
            elif how == 1:
                os.truncate(path, os.path.getsize(path) // 2)
            else:
                with open(path, "r+b") as file:
                    file.seek(dice.randrange(os.path.getsize(path)))
                    byte = file.read(1)
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes((byte[0] ^ 16,)))

    def test_a_job_is_copied_restored_from_both_places_and_mended(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**{**self.spec, "nodes": 2})
        self.wait_copied(job, 20)
        self.cluster.wait_event(job, "checkpoint_copied", containing=self.second)
        self.cluster.wait_event(job, "checkpoint_committed", containing="40")
        self.wait_copied(job, 40)
        self.cluster.kill_everything()
        for step in (20, 40):
            self.damage(job, step, seed=step)
        self.cluster.start_service()
        self.cluster.start_workers("w1", "w2")
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(self.plain_hash(nodes=2), shown["state_hash"])
        self.wait_copied(job, 60)
        self.assertEqual({"place": self.second, "step": 60}, self.cluster.job(job)["latest_checkpoint"]["copy"])
        self.assertIn("its copy", self.cluster.cli("show", job))
        # The restore has mended what it read of the first place; the rest is mended by hand.
        mended = self.cluster.cli("ckpt", "mend", job)
        self.assertIn("step 20: whole in both places", mended)
        for place in ("A", "B", f"{self.first}/{job}", f"{self.second}/{job}"):
            said = self.cluster.cli("ckpt", "verify", job, "--place", place)
            self.assertEqual(3, said.count(": ok"), said)
        self.cluster.cli("ckpt", "verify", job, "--place", "C", expect=2)
        listed = self.cluster.cli_json("ckpt", "ls", job)["checkpoints"]
        self.assertEqual([["A", "B"]] * 3, [row["places"] for row in listed])
        self.assertRegex(self.cluster.cli("checkpoints", job), "COPIED")

    def test_a_shard_that_is_whole_in_neither_place_is_named(self):
        self.cluster.start_workers("w1")
        job = self.cluster.submit(**self.spec)
        self.cluster.wait_state(job, "succeeded")
        self.wait_copied(job, 20, 60)  # that of step 40 may be left out: steps are quick here
        shard = os.path.basename(glob.glob(f"{self.first}/{job}/step-0000000020/shard-*")[0])
        for place in (self.first, self.second):
            os.truncate(f"{place}/{job}/step-0000000020/{shard}", 100)
        said = self.cluster.cli("ckpt", "mend", job, expect=1)
        self.assertRegex(said, f"step 20: LOST: .*{shard}")
        self.assertIn("step 60: whole in both places", said)
        status, problem = self.cluster.request("POST", "/v1/jobs", {**self.spec, "resume_from": f"job:{job}@20"})
        self.assertNotEqual(201, status)
        self.assertIn(shard, str(problem))

    def test_a_place_that_is_gone_is_no_loss(self):
        self.cluster.start_workers("w1")
        first = self.cluster.submit(**self.spec)
        done = self.cluster.wait_state(first, "succeeded")
        self.wait_copied(first, 20, 60)
        shutil.rmtree(f"{self.first}/{first}")
        again = self.cluster.submit(**{**self.spec, "resume_from": f"job:{first}@20"})
        self.assertEqual(done["state_hash"], self.cluster.wait_state(again, "succeeded")["state_hash"])
        self.assertIn("60", self.cluster.cli("ckpt", "ls", first))
        self.assertEqual(done["state_hash"], {row["step"]: row["state_hash"] for row in self.rows(first)}[60])

    def test_a_copy_that_fails_stops_no_training_and_is_said(self):
        with open(self.second, "w", encoding="utf-8"):
            pass  # a file is in the way of the folder
        self.cluster.start_workers("w1", slow_ms=20)
        job = self.cluster.submit(**self.spec)
        self.cluster.wait_event(job, "checkpoint_copy_failed", containing=self.second)
        os.unlink(self.second)
        self.cluster.wait_state(job, "succeeded")
        self.wait_copied(job, 60)

    def test_retention_keeps_the_newest_of_each_place(self):
        self.cluster.start_workers("w1", slow_ms=SLOW_MS)
        job = self.cluster.submit(**{**self.spec, "checkpoint_every": 10, "keep_last": 2})
        self.cluster.wait_state(job, "succeeded")
        self.wait_copied(job, 60)
        # On a busy machine one may be left out, for the one before it is still being written.
        newest = self.cluster.committed_steps(job)[-2:]

        def agree():
            kept = [sorted(int(path[-10:]) for path in glob.glob(f"{place}/{job}/step-*")) for place in (self.first, self.second)]
            listed = sorted(row["step"] for row in self.rows(job))
            return kept[0] == newest and kept[1][-1] == 60 and len(kept[1]) <= 2 and listed == sorted({*kept[0], *kept[1]})
        harness.wait_until(agree, 20, "both places and the catalogue to hold the newest")

    def test_the_second_place_may_be_in_s3(self):
        if not servers.S3rver.is_installed():
            raise unittest.SkipTest("s3rver is not installed: run ops/setup --page")
        server = servers.S3rver(self.cluster.folder + "/s3")
        self.addCleanup(server.stop)
        for name, value in server.environment().items():
            if name.startswith("AWS_"):
                os.environ[name] = value
        self.cluster.start_workers("w1")
        job = self.cluster.submit(**{**self.spec, "checkpoint_copy": server.place("copies"), "copy_mib_per_s": 0})
        done = self.cluster.wait_state(job, "succeeded")
        self.wait_copied(job, 60)
        shutil.rmtree(f"{self.first}/{job}/step-0000000060")
        self.assertIn("step 60: whole in both places", self.cluster.cli("ckpt", "mend", f"job:{job}@60"))
        self.assertEqual([60], [row["step"] for row in self.cluster.cli_json("ckpt", "mend", f"job:{job}@60")["checkpoints"]])
        self.assertIn(done["state_hash"], self.cluster.cli("ckpt", "verify", f"{self.first}/{job}@60"))


if __name__ == "__main__":
    harness.main()
