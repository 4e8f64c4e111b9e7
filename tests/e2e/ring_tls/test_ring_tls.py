#!/usr/bin/python3
"""Encrypted rings between real processes, in a network of their own on which somebody listens: the bits of a plain run, through a
kill -9 and a join, and nothing of gradients, state or training text in what passes between workers."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
import ledger  # noqa: E402
from network import namespaces  # noqa: E402

from eavesdropper import Eavesdropper  # noqa: E402

SLOW_MS = 60
STEPS = 60  # harness.small_spec
HANDSHAKE, OPERATION = b"HFRING01", b"HFop"  # handshake.h; stream.h: how each operation of a ring begins
TEXT = b"".join(bytes((byte, 0)) for byte in b"Licensor")  # of the training file


class RingTls(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        data = os.path.join(self.cluster.folder, "data")
        os.mkdir(data)
        spec = harness.small_spec(self.cluster.folder)
        for name in ("train.bin", "val.bin"):
            os.rename(f"{self.cluster.folder}/{name}", f"{data}/{name}")
        with open(f"{data}/train.bin", "rb") as file:
            self.assertIn(TEXT, file.read())
        self.cluster.cli("data", "push", data, "--name", "demo")
        self.spec = {**spec, "train_data_path": "data:demo", "valid_data_path": "data:demo", "nodes": 2, "min_nodes": 1, "max_nodes": 3}

    def start(self, *names):
        """Workers whose data sets are their own and that share no memory, as on nodes of their own."""
        for name in names:
            root = os.path.join(self.cluster.folder, f"root-{name}")
            os.mkdir(root)
            self.cluster.start_worker(name, slow_ms=SLOW_MS, arguments=("--no_shared_memory", "--data_root", root))
        self.cluster.wait_workers(*names)

    def run_with_a_loss_and_a_join(self, ring_tls):
        """The hashes of its state, and what passed between the workers. The last worker that is there has the name `ring_tls`3."""
        listener = Eavesdropper("lo", leave_out=[self.cluster.port])
        first, second, third = (f"{ring_tls}{number}" for number in (1, 2, 3))
        self.start(first, second)
        job = self.cluster.submit(**self.spec, ring_tls=ring_tls)
        trail = harness.HashTrail()
        trail.to_step(self.cluster, job, 10)
        self.cluster.kill_worker(second)
        trail.follow(self.cluster, job, lambda shown: shown["world_size"] == 1 and shown["step"] > 12, 30, "one to go on alone")
        self.cluster.crawl()
        self.start(third)
        trail.follow(self.cluster, job, lambda shown: shown["world_size"] == 2, 30, "another to join")
        self.cluster.hurry()
        trail.to_end(self.cluster, job)
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, f"{self.cluster.folder}/data/train.bin")
        said = self.cluster.workers[third].log()
        self.cluster.stop_workers()
        heard, missed = listener.stop()
        self.assertEqual(0, missed, "frames were not heard")
        self.assertIn(HANDSHAKE, heard)
        self.assertGreater(len(heard), 10_000_000)
        return trail.seen, heard, said

    def test_nobody_on_the_way_reads_what_workers_send_and_the_bits_are_the_same(self):
        plain, heard, said = self.run_with_a_loss_and_a_join("off")
        self.assertIn(OPERATION, heard, "so the listener would hear it")
        self.assertNotIn("the ring is encrypted", said)
        self.assertNotIn(TEXT, heard, "data sets are encrypted in every job")
        encrypted, heard, said = self.run_with_a_loss_and_a_join("on")
        self.assertNotIn(OPERATION, heard)
        self.assertNotIn(TEXT, heard)
        self.assertRegex(said, "the ring is encrypted: TLS 1.3 with TLS_[A-Z0-9_]+")
        self.assertIn(STEPS, encrypted)
        common = set(plain) & set(encrypted)
        self.assertEqual({step: plain[step] for step in common}, {step: encrypted[step] for step in common})


if __name__ == "__main__":
    why_not = namespaces.reason_not_to_run()
    if why_not:
        print(f"skipped: {why_not}")
        sys.exit(77)
    namespaces.enter()
    harness.main()
