#!/usr/bin/python3
"""Data sets of the service: pushed, trained on by workers that have no file of them, and kept whole whatever happens on the way."""
import glob
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)

import token_files  # noqa: E402

MIB = 1 << 20


def flip_a_byte(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ 1]))


class DataSets(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.cluster = harness.Cluster().start_service()
        self.addCleanup(lambda: self.cluster.close(any(error for _, error in self._outcome.result.failures + self._outcome.result.errors)))
        self.data = os.path.join(self.cluster.folder, "data")
        os.mkdir(self.data)
        self.spec = harness.small_spec(self.cluster.folder)
        for name in ("train.bin", "val.bin"):
            os.rename(f"{self.cluster.folder}/{name}", f"{self.data}/{name}")

    def root_of(self, name):
        return os.path.join(self.cluster.folder, f"root-{name}")

    def start(self, *names, **options):
        """Workers whose caches are their own, as on nodes of their own."""
        for name in names:
            os.makedirs(self.root_of(name), exist_ok=True)
            folders = ("--data_root", self.root_of(name))
            if name == "w2":  # the folder by itself, as where --data_root may not be written to
                folders = ("--data_root", self.data, "--data_cache", f"{self.root_of(name)}/.holdfast/data-sets")
            self.cluster.start_worker(name, arguments=folders, **options)
        self.cluster.wait_workers(*names)

    def named(self, **changes):
        return {**self.spec, "train_data_path": "data:demo", "valid_data_path": "data:demo", **changes}

    def ended(self, job):
        self.cluster.wait_state(job, "succeeded")
        return self.cluster.job(job)["state_hash"]

    def cached(self, name, file="train.bin"):
        return glob.glob(f"{self.root_of(name)}/.holdfast/data-sets/*/{file}")[0]

    def events(self, job, kind):
        return [event["message"] for event in self.cluster.get(f"/v1/jobs/{job}/events?limit=1000")["events"] if event["kind"] == kind]

    def test_a_job_on_a_data_set_ends_with_the_bits_of_one_on_the_file(self):
        self.cluster.cli("data", "push", self.data, "--name", "demo")
        self.cluster.start_workers("local")
        by_path = self.ended(self.cluster.submit(**{**self.spec, "train_data_path": f"{self.data}/train.bin",
                                                    "valid_data_path": f"{self.data}/val.bin", "eval_every": 20}))
        self.cluster.stop_workers()
        self.start("w1", "w2")
        job = self.cluster.submit(**self.named(nodes=2, min_nodes=2, eval_every=20, hash_every=5))
        self.assertEqual(by_path, self.ended(job))
        pinned = self.cluster.job(job)["spec"]["train_data_path"]
        self.assertRegex(pinned, "^data:demo@[0-9a-f]{64}/train.bin$")
        self.assertEqual(2, len(self.events(job, "data_fetched")), self.cluster.get(f"/v1/jobs/{job}/events?limit=1000"))
        for name in ("w1", "w2"):
            with open(self.cached(name), "rb") as here, open(f"{self.data}/train.bin", "rb") as there:
                self.assertTrue(here.read() == there.read(), f"{name} has other tokens")
        # Audited against the file that was pushed.
        self.cluster.cli("audit", job, "--data", f"{self.data}/train.bin")

    def test_a_worker_killed_while_it_fetches_goes_on_and_damage_on_its_disk_is_mended(self):
        token_files.append_tokens(f"{self.data}/train.bin", 40 * MIB)
        self.cluster.cli("data", "push", self.data, "--name", "demo")
        self.start("w1")
        job = self.cluster.submit(**self.named(total_steps=100_000, checkpoint_every=0))
        harness.wait_until(lambda: glob.glob(f"{self.root_of('w1')}/.holdfast/data-sets/*/have"), 20, "the first chunk")
        self.cluster.kill_worker("w1")
        self.start("w1")
        self.cluster.wait_step(job, self.cluster.job(job)["step"] + 1)
        harness.wait_until(lambda: glob.glob(f"{self.root_of('w1')}/.holdfast/data-sets/*/whole"), 20, "the whole set")
        self.cluster.post(job, "stop")
        self.cluster.wait_state(job, "cancelled")
        self.cluster.stop_workers()
        flip_a_byte(self.cached("w1"), 30 * MIB)
        self.start("w1")
        again = self.cluster.submit(**self.named(total_steps=20, eval_every=0))
        self.ended(again)
        self.assertEqual(1, len(self.events(again, "data_damaged")))
        with open(self.cached("w1"), "rb") as here, open(f"{self.data}/train.bin", "rb") as there:
            self.assertTrue(here.read() == there.read())

    def test_workers_train_on_while_the_service_is_killed_in_the_middle_of_a_fetch(self):
        token_files.append_tokens(f"{self.data}/train.bin", 64 * MIB)
        self.cluster.cli("data", "push", self.data, "--name", "demo")
        self.start("w1", "w2")
        job = self.cluster.submit(**self.named(nodes=2, min_nodes=2, total_steps=100_000, checkpoint_every=0))
        harness.wait_until(lambda: glob.glob(f"{self.root_of('w1')}/.holdfast/data-sets/*/have"), 20, "the first chunk")
        self.cluster.service.signal(signal.SIGKILL)
        self.cluster.service.popen.wait()
        self.cluster.start_service()
        self.cluster.wait_step(job, 3)
        for name in ("w1", "w2"):
            harness.wait_until(lambda name=name: glob.glob(f"{self.root_of(name)}/.holdfast/data-sets/*/whole"), 30, f"{name}'s whole set")

    def test_a_push_that_was_killed_goes_on_where_it_was(self):
        token_files.append_tokens(f"{self.data}/train.bin", 128 * MIB)
        command = [f"{harness.BIN}/holdfast", "data", "push", self.data, "--name", "demo"]
        push = subprocess.Popen(command, env=self.cluster.environment({"HOLDFAST_SERVER": self.cluster.url}), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        kept = os.path.join(self.cluster.data_dir, "data", "chunks")
        harness.wait_until(lambda: glob.glob(f"{kept}/*/*"), 20, "a chunk at the service")
        push.send_signal(signal.SIGSTOP)
        self.assertIsNone(push.poll(), "it is killed on its way")
        push.kill()
        push.wait()
        again = self.cluster.cli_json("data", "push", self.data, "--name", "demo")
        self.assertGreater(again["there_bytes"], 0)
        self.assertGreater(again["sent_bytes"], 0)
        listed = self.cluster.cli_json("data", "ls")
        self.assertEqual(["demo"], [one["name"] for one in listed["data_sets"]])

    def test_a_set_in_use_stays_and_afterwards_goes(self):
        self.cluster.cli("data", "push", self.data, "--name", "demo")
        self.start("w1")
        job = self.cluster.submit(**self.named(total_steps=100_000, checkpoint_every=0))
        self.cluster.wait_step(job, 1)
        said = self.cluster.cli("data", "rm", "demo", expect=None)
        self.assertIn(job, said)
        self.assertEqual(["demo"], [one["name"] for one in self.cluster.cli_json("data", "ls")["data_sets"]])
        self.cluster.post(job, "stop")
        self.cluster.wait_state(job, "cancelled")
        self.cluster.cli("data", "rm", "demo")
        self.assertEqual([], self.cluster.cli_json("data", "ls")["data_sets"])
        status, reply = self.cluster.request("POST", "/v1/jobs", self.named())
        self.assertEqual(400, status)
        self.assertIn("demo", str(reply))


if __name__ == "__main__":
    unittest.main(verbosity=2)
