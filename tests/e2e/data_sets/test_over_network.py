#!/usr/bin/python3
"""Data sets that workers get from each other, on nodes of their own: a byte that is altered on the way, a source that dies in the middle."""
import glob
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
from network import corrupting_wire, namespaces, networked_cluster  # noqa: E402

import token_files  # noqa: E402

SIZE = 48 << 20
RATE, BURST = "200mbit", "256kb"  # two seconds a copy
OF_A_CHUNK = 1000  # bytes: what nothing else sends between workers while they fetch


class OverNetwork(unittest.TestCase):
    def setUp(self):
        networked_cluster.DISK_MB = 1024  # the service keeps the data set there
        self.cluster = networked_cluster.NetworkedCluster().start_service()
        self.addCleanup(lambda: self.cluster.close(any(error for _, error in self._outcome.result.failures + self._outcome.result.errors)))
        self.data = os.path.join(self.cluster.folder, "data")
        os.mkdir(self.data)
        spec = harness.small_spec(self.cluster.folder)
        os.rename(f"{self.cluster.folder}/train.bin", f"{self.data}/train.bin")
        token_files.append_tokens(f"{self.data}/train.bin", SIZE)
        self.cluster.cli("data", "push", self.data, "--name", "demo")
        self.spec = {**spec, "train_data_path": "data:demo", "valid_data_path": "", "nodes": 3, "min_nodes": 1, "max_nodes": 3,
                     "total_steps": 1_000_000, "checkpoint_every": 0}

    def start(self, name):
        root = os.path.join(self.cluster.folder, f"root-{name}")
        os.mkdir(root)
        self.cluster.node(name).limit(RATE, BURST)
        self.cluster.start_worker(name, arguments=("--data_root", root))
        self.cluster.wait_workers(name)

    def found(self, name, what):
        return glob.glob(f"{self.cluster.folder}/root-{name}/.holdfast/data-sets/*/{what}")

    def wait_whole(self, *names):
        for name in names:
            harness.wait_until(lambda name=name: self.found(name, "whole"), 40, f"{name}'s data set")
            with open(self.found(name, "train.bin")[0], "rb") as here, open(f"{self.data}/train.bin", "rb") as there:
                self.assertTrue(here.read() == there.read(), f"{name} has other tokens")

    def events(self, job, kind):
        return [event["message"] for event in self.cluster.get(f"/v1/jobs/{job}/events?limit=1000")["events"] if event["kind"] == kind]

    def test_a_byte_altered_between_workers_is_no_damage_for_tls_finds_it_and_the_chunk_is_fetched_again(self):
        self.start("w1")
        job = self.cluster.submit(**self.spec)
        self.wait_whole("w1")
        wire = corrupting_wire.insert(self.cluster.node("w1"))
        wire.alter_next(self.cluster.port, at_least=OF_A_CHUNK)
        self.start("w2")
        self.wait_whole("w2")
        self.assertTrue(wire.altered.is_set(), "no byte was altered")
        self.assertEqual([], self.events(job, "data_damaged"))
        self.assertTrue(any(" 0 of its chunks from the service" in said for said in self.events(job, "data_fetched")), self.events(job, "data_fetched"))

    def test_a_source_that_dies_in_the_middle_is_replaced(self):
        self.start("w1")
        job = self.cluster.submit(**self.spec)
        self.wait_whole("w1")
        self.start("w2")

        def some_came():
            for path in self.found("w2", "have"):
                with open(path, "rb") as flags:
                    return b"\1" in flags.read()
            return False

        harness.wait_until(some_came, 20, "w2's first chunk")
        self.cluster.kill_worker("w1")
        self.wait_whole("w2")
        self.cluster.wait_step(job, self.cluster.job(job)["step"] + 1)


if __name__ == "__main__":
    if (reason := namespaces.reason_not_to_run()) is not None:
        print(f"skipped: {reason}")
        sys.exit(77)
    namespaces.enter()
    unittest.main(verbosity=2)
