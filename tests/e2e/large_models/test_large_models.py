#!/usr/bin/python3
"""GPT-2 medium and large on the CPU, at night: text is prepared, steps are trained, a checkpoint is resumed from by a process
that was not there before, and the state's hash is that of the job that nobody disturbed. And `holdfast plan --memory` says how
much memory a worker takes, within ESTIMATE_OFF of the peak that the kernel counted.

Microbatches are of 64 tokens and blocks are computed again, so that nearly all memory is the parameters': of large with int16 on
the wire 14 GB while it trains, and 9.3 GB more for the copy that a checkpoint is written from. A test for which there is not
enough memory here is not run and says how much it asks for. Usage: test_large_models.py [medium|large]"""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
import processes  # noqa: E402

AFTER, STEPS = 2, 4  # the step that is resumed from, and the last one
ESTIMATE_OFF = 0.1   # of the peak, beside what a worker without a job has
SPARE_SHARE, SPARE_BYTES = 0.03, 1 << 29  # beside the estimate, for scratch and for the service
SKIPPED = 77
# The rate is the same in every step: a job of two steps and a longer one agree on the first two.
SHAPE = dict(block_size=64, batch_size=1, global_batch_size=2, recompute="block", learning_rate=1e-4, min_lr=1e-4, warmup_steps=1,
             seed=3, hash_every=1, keep_last=0, collective_timeout_s=600)


def memory_available():
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["MemAvailable"].split()[0]) * 1024


class LargeModels(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        text = os.path.join(harness.ROOT, "LICENSE")
        print(self.cluster.cli("data", "prepare", text, "--tokenizer", "bytes", "--validation_fraction", "0", "--output", "data"))
        self.data = os.path.join(self.cluster.folder, "data", "train.bin")

    def planned(self, **changes):
        """{"always", "most"}: bytes of a worker on the CPU."""
        spec = {**SHAPE, **changes}
        flags = [f"--{name}={spec[name]}" for name in ("model", "dtype", "block_size", "batch_size", "recompute", "wire_dtype") if name in spec]
        said = json.loads(self.cluster.cli("plan", "--memory", "--nodes", 1, *flags, "--json"))
        return {when: said[when]["cpu_bytes"] for when in ("always", "most")}

    def need_memory(self, bytes_needed, **spec):
        wanted, there = bytes_needed * (1 + SPARE_SHARE) + SPARE_BYTES, memory_available()
        if there < wanted:
            self.skipTest(f"{spec} takes {wanted / 1e9:.1f} GB of memory, of which {there / 1e9:.1f} GB are available here")

    def start_fresh_worker(self, name):
        """Its bytes without a job."""
        self.cluster.start_workers(name, threads=os.cpu_count())
        return processes.peak_memory_of(self.cluster.training_pid(name))

    def submit(self, **changes):
        return self.cluster.submit(**{**SHAPE, "train_data_path": self.data, **changes})

    def check_estimate(self, name, idle, planned, what):
        peak = processes.peak_memory_of(self.cluster.training_pid(name))
        print(f"{what}: planned {planned / 1e9:.2f} GB, peak {peak / 1e9:.2f} GB, of which {idle / 1e9:.2f} GB without a job")
        self.assertAlmostEqual(1, (peak - idle) / planned, delta=ESTIMATE_OFF, msg=what)

    def resumes_with_the_same_bits(self, **spec):
        planned = self.planned(**spec)
        self.need_memory(planned["most"], **spec)
        idle = self.start_fresh_worker("undisturbed")
        job = self.submit(total_steps=STEPS, checkpoint_every=AFTER, **spec)
        shown = self.cluster.wait_state(job, "succeeded", timeout_s=900)
        self.check_estimate("undisturbed", idle, planned["most"], f"{spec}, with checkpoints")
        self.assertEqual(STEPS, shown["state_hash_step"])
        self.cluster.wait_event(job, "checkpoint_committed", containing=str(AFTER))
        self.cluster.kill_everything()
        self.cluster.start_service()
        self.start_fresh_worker("resuming")
        again = self.submit(total_steps=STEPS, checkpoint_every=0, resume_from=f"job:{job}@{AFTER}", **spec)
        resumed = self.cluster.wait_state(again, "succeeded", timeout_s=900)
        print(f"{spec}: {shown['state_hash']} after step {STEPS}, resumed from step {AFTER}: {resumed['state_hash']}")
        self.assertEqual((STEPS, shown["state_hash"]), (resumed["state_hash_step"], resumed["state_hash"]))

    def trains_twice_to_the_same_bits(self, **spec):
        """Without a checkpoint, for which a worker takes 12 more bytes a parameter."""
        planned = self.planned(**spec)
        self.need_memory(planned["always"], **spec)
        hashes = []
        for name in ("first", "second"):
            idle = self.start_fresh_worker(name)
            job = self.submit(total_steps=1000, checkpoint_every=0, **spec)
            trail = harness.HashTrail()
            trail.to_step(self.cluster, job, AFTER, timeout_s=900)
            trail.follow(self.cluster, job, lambda _: AFTER in trail.seen, 60, "the hash")
            self.check_estimate(name, idle, planned["always"], f"{spec}, without checkpoints")
            hashes.append(trail.seen[AFTER])
            self.cluster.kill_everything()
            self.cluster.start_service()
        print(f"{spec}: {hashes} after step {AFTER}")
        self.assertEqual(hashes[0], hashes[1])


class Medium(LargeModels):
    def test_in_bfloat16(self):
        self.resumes_with_the_same_bits(model="medium", dtype="bfloat16")

    def test_in_float32(self):
        self.resumes_with_the_same_bits(model="medium", dtype="float32")


class Large(LargeModels):
    def test_without_checkpoints(self):
        self.trains_twice_to_the_same_bits(model="large", dtype="float32", wire_dtype="int16")

    def test_with_checkpoints(self):
        self.resumes_with_the_same_bits(model="large", dtype="float32", wire_dtype="int16")


def main():
    harness.need_programs()
    wanted = {"medium": [Medium], "large": [Large]}.get(sys.argv[1] if len(sys.argv) > 1 else "", [Medium, Large])
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in wanted)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if len(result.skipped) == result.testsRun else 0)


if __name__ == "__main__":
    main()
