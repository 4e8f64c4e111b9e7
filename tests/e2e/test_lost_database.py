#!/usr/bin/python3
"""The service's database removed, or replaced by another file, while the service runs and workers train."""
import glob
import os
import urllib.error
import urllib.request

import harness
import ledger


class LostDatabase(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.database = f"{self.cluster.data_dir}/holdfast.sqlite"
        self.spec = harness.small_spec(self.cluster.folder, total_steps=120)
        self.cluster.start_workers("alone")
        self.reference = self.cluster.wait_state(self.cluster.submit(**self.spec), "succeeded")["state_hash"]
        self.cluster.stop_workers()
        self.cluster.start_workers("w1", "w2", slow_ms=60)
        self.job = self.cluster.submit(**{**self.spec, "nodes": 2, "min_nodes": 1})
        self.step = self.cluster.wait_step(self.job, 10)["step"]

    def not_ready(self):
        """Why /readyz says no; None where it does not."""
        try:
            with urllib.request.urlopen(f"{self.cluster.url}/readyz", timeout=5):
                return None
        except urllib.error.HTTPError as error:
            self.assertEqual((503, "application/problem+json"), (error.code, error.headers["Content-Type"]))
            return error.read().decode()

    def assert_refused(self, what_happened):
        """The service says what happened, keeps nothing more, and names the copy that it made. Returns the copy."""
        harness.wait_until(lambda: what_happened in (self.not_ready() or ""), 10, "/readyz to say what happened")
        copies = glob.glob(f"{self.cluster.data_dir}/holdfast.rescued-*.sqlite")
        self.assertEqual(1, len(copies))
        for _ in range(2):
            status, answer = self.cluster.request("POST", "/v1/jobs", self.spec)
            self.assertEqual(503, status)
            self.assertIn(f"{self.database} {what_happened} while the service ran with it", answer["detail"])
            self.assertIn(f"holdfast restore {copies[0]} --data_dir {self.cluster.data_dir}", answer["detail"])
        self.assertEqual("waiting", self.cluster.get("/healthz")["status"], "a restart of the process mends nothing")
        self.cluster.service.wait_log(f"holdfast restore {copies[0]}")
        return copies[0]

    def assert_goes_on_from(self, copy):
        self.cluster.service.signal(15)
        self.cluster.service.wait_exit()
        with self.assertRaisesRegex(AssertionError, "ended at once(.|\n)*holdfast restore"):
            self.cluster.start_service()  # never without its jobs, whoever starts it
        self.cluster.cli("restore", copy, "--data_dir", self.cluster.data_dir)
        self.cluster.start_service()
        shown = self.cluster.wait_state(self.job, "succeeded")
        self.assertEqual(self.reference, shown["state_hash"])
        self.assertEqual(0, shown["restarts"], "workers trained on meanwhile")
        self.assertEqual([], ledger.voided_rows(self.cluster, self.job), "nothing is computed again")

    def test_removed_it_is_noticed_and_saved_and_the_job_goes_on_from_the_copy(self):
        os.unlink(self.database)
        self.assert_goes_on_from(self.assert_refused("was removed"))

    def test_another_file_in_its_place_is_left_alone_and_the_job_goes_on_from_the_copy(self):
        older = f"{self.cluster.folder}/older.sqlite"
        self.cluster.cli("backup", "--data_dir", self.cluster.data_dir, "--output", older)
        with open(older, "rb") as file:
            before = file.read()
        self.cluster.wait_step(self.job, self.step + 10)
        os.rename(older, self.database)
        copy = self.assert_refused("was replaced by another file")
        with open(self.database, "rb") as file:
            self.assertEqual(before, file.read())
        self.assert_goes_on_from(copy)

    def test_whoever_wants_what_is_there_now_says_so_and_the_service_goes_on_with_it(self):
        older = f"{self.cluster.folder}/older.sqlite"
        self.cluster.cli("backup", "--data_dir", self.cluster.data_dir, "--output", older)
        late = self.cluster.submit(**{**self.spec, "name": "late"})
        os.rename(older, self.database)
        self.assert_refused("was replaced by another file")
        os.unlink(f"{self.cluster.data_dir}/holdfast.lost")
        harness.wait_until(lambda: self.not_ready() is None, 20, "the service to go on")
        self.assertEqual(404, self.cluster.request("GET", f"/v1/jobs/{late}")[0], "the older database does not know it")
        self.assertEqual(self.reference, self.cluster.wait_state(self.job, "succeeded")["state_hash"])

    def test_a_log_that_was_removed_costs_nothing(self):
        os.unlink(f"{self.database}-wal")
        self.assertEqual(self.reference, self.to_end()["state_hash"])
        self.assertEqual([], glob.glob(f"{self.cluster.data_dir}/holdfast.rescued-*"))

    def to_end(self):
        return harness.HashTrail().to_end(self.cluster, self.job)


if __name__ == "__main__":
    harness.main()
