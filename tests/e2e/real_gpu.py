#!/usr/bin/python3
"""Workers on this machine's own GPU, as processes (ops/check_gpu runs it; by hand for one): two of them on one device end with the
bits of one, through a kill -9, in every way the state is divided, and what there is no memory for is refused.

    HOLDFAST_BIN=build/cuda/bin tests/e2e/real_gpu.py

Nothing here plays: without a GPU it fails with the worker's words. HOLDFAST_GPU_WORKER is another program than HOLDFAST_BIN's holdfast-worker:
with worker_on_gpu_shim this story itself is tried out. The tests of that one (test_gpu_workers.py) are many more."""
import os
import unittest

import harness

WORKER = os.environ.get("HOLDFAST_GPU_WORKER", f"{harness.BIN}/holdfast-worker")
PLAYED = "shim" in WORKER  # hundreds of times slower
STEPS = 12 if PLAYED else 40
SIZES = dict(n_layer=1, n_embd=32, n_head=2, block_size=16, batch_size=2, global_batch_size=6) if PLAYED else dict(
    n_layer=2, n_embd=128, n_head=2, batch_size=4, global_batch_size=24)


class OneGpu(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.cluster.worker_program = WORKER
        self.spec = harness.small_spec(self.cluster.folder, **SIZES, total_steps=STEPS, hash_every=2, checkpoint_every=6,
                                       collective_timeout_s=20)
        self.start("w1")

    def start(self, name, **options):
        worker = self.cluster.start_worker(name, device="hip:0", arguments=["--share_device"], **options)

        def on_its_gpu():
            self.assertTrue(worker.running(), worker.log())
            return name in {n["id"] for n in self.cluster.nodes() if n["state"] == "alive"}

        harness.wait_until(on_its_gpu, 60, f"{name} on its GPU")

    def hash_of(self, job):
        shown = self.cluster.wait_state(job, "succeeded", timeout_s=120)
        self.assertEqual(STEPS, shown["state_hash_step"])
        return shown["state_hash"]

    def test_one_worker_two_of_them_and_one_killed_end_with_the_same_bits(self):
        for dtype in ("bfloat16", "float32"):
            with self.subTest(dtype=dtype):
                spec = {**self.spec, "dtype": dtype}
                alone = self.hash_of(self.cluster.submit(**spec))
                self.start("w2", slow_ms=50)
                together = self.cluster.submit(**spec, nodes=2, min_nodes=2)
                self.assertEqual(alone, self.hash_of(together), "two workers")
                for event in self.cluster.events(together):
                    print(event["kind"], event["message"])
                disturbed = self.cluster.submit(**spec, nodes=2, min_nodes=1)
                self.cluster.wait_step(disturbed, 4)
                self.assertEqual(2, self.cluster.job(disturbed)["world_size"])
                self.cluster.kill_worker("w2")
                self.assertEqual(alone, self.hash_of(disturbed), "one of two killed")
                print(f"{dtype}: {alone} alone, by two, and with one of two killed")

    def test_the_state_divided_among_two_ends_with_the_same_bits(self):
        alone = self.hash_of(self.cluster.submit(**{**self.spec, "dtype": "bfloat16"}))
        self.start("w2")
        for shard in ("optimizer", "gradients", "parameters"):
            with self.subTest(shard=shard):
                job = self.cluster.submit(**{**self.spec, "dtype": "bfloat16", "shard": shard, "replicas": 1}, nodes=2, min_nodes=2)
                self.assertEqual(alone, self.hash_of(job))
                print(f"--shard {shard}: the same bits")

    def test_a_job_larger_than_the_gpu_is_refused_with_what_is_missing(self):
        job = self.cluster.submit(**{**self.spec, "n_layer": 48, "n_embd": 8192, "n_head": 64, "vocab_size": 50257})
        refusal = self.cluster.wait_event(job, "worker_refused", timeout_s=60)["message"]
        print(refusal)
        self.assertRegex(refusal, "out of memory|needs")
        self.assertEqual(["w1"], [n["id"] for n in self.cluster.nodes() if n["state"] == "alive"])


if __name__ == "__main__":
    unittest.main()
