#!/usr/bin/python3
"""`holdfast backup` of a service under load and `holdfast restore`, into the same place and on another machine's."""
import json
import os
import shutil
import subprocess

import harness
import ledger


class Backup(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.spec = harness.small_spec(self.cluster.folder, total_steps=120)
        self.copy = f"{self.cluster.folder}/copy"

    def reference(self):
        self.cluster.start_workers("alone")
        shown = self.cluster.wait_state(self.cluster.submit(**self.spec), "succeeded")
        self.cluster.stop_workers()
        return shown["state_hash"]

    def backup(self, *arguments):
        return json.loads(self.cluster.cli("backup", "--data_dir", self.cluster.data_dir, "--output", self.copy, *arguments, "--json"))

    def restore(self, data_dir=None, expect=0):
        return self.cluster.cli("restore", self.copy, "--data_dir", data_dir or self.cluster.data_dir, expect=expect)

    def test_the_job_goes_on_with_the_same_bits_where_workers_went_on(self):
        """Back up while it trains, go on, kill the service, restore: the workers are ahead of the copy and lose nothing."""
        reference = self.reference()
        self.cluster.start_workers("w1", "w2", slow_ms=60)
        job = self.cluster.submit(**{**self.spec, "nodes": 2, "min_nodes": 1})
        self.cluster.wait_step(job, 10)
        report = self.backup()
        self.assertEqual([job], [j["id"] for j in report["open_jobs"]])
        self.assertGreaterEqual(report["open_jobs"][0]["step"], 10)
        before = self.cluster.wait_step(job, report["open_jobs"][0]["step"] + 15)
        said = self.restore(expect=2)
        self.assertIn(f"another service (pid {self.cluster.service.pid}) runs on", said)
        self.cluster.service.kill()
        said = self.restore()
        self.assertIn(".replaced-", said)
        self.cluster.start_service()
        missing = self.cluster.wait_event(job, "records_missing")["message"]
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertGreaterEqual(shown["generation"], before["generation"])
        self.assertEqual(reference, shown["state_hash"])
        self.assertEqual([], ledger.voided_rows(self.cluster, job), "nothing is computed again")
        self.assertIn("not noted", self.cluster.cli("audit", job, "--data", self.spec["train_data_path"], expect=1), missing)

    def test_a_service_whose_disk_is_lost_goes_on_elsewhere_from_its_copy(self):
        """With the checkpoints: everything dies, the data directory is gone, and another one is made of the copy."""
        reference = self.reference()
        self.cluster.start_workers("w1", slow_ms=80)
        job = self.cluster.submit(**self.spec)
        self.cluster.wait_step(job, 34)
        self.cluster.crawl()
        self.cluster.wait_event(job, "checkpoint_committed", containing="step 40:")
        self.cluster.hurry()
        report = self.backup("--with_checkpoints")
        self.assertIn(40, [c["step"] for c in report["copied_checkpoints"] if c["job"] == job])
        self.cluster.wait_step(job, 50)
        self.cluster.kill_everything()
        shutil.rmtree(self.cluster.data_dir)
        self.assertIn("holdfast serve --data_dir", self.restore())
        self.assertEqual(0o700, os.stat(self.cluster.data_dir).st_mode & 0o777)
        self.cluster.start_service()
        self.cluster.start_workers("w2")
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(reference, shown["state_hash"])
        ledger.assert_every_microbatch_once(self, self.cluster, job, self.spec["total_steps"], self.spec["train_data_path"])

    def test_a_restore_that_is_killed_leaves_one_whole_database(self):
        """kill -9 at many moments of a restore: the service starts, with the job, each time."""
        job = self.cluster.submit(**self.spec)
        self.backup()
        self.cluster.service.kill()
        for after_ms in (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30):
            process = self.cluster.spawn("restore", [f"{harness.BIN}/holdfast", "restore", self.copy, "--data_dir", self.cluster.data_dir])
            try:
                process.popen.wait(after_ms / 1000)
            except subprocess.TimeoutExpired:
                process.kill()
            self.cluster.start_service()
            self.assertEqual("queued", self.cluster.job(job)["state"], f"killed after {after_ms} ms")
            self.cluster.service.kill()


if __name__ == "__main__":
    harness.main()
