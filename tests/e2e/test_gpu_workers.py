#!/usr/bin/python3
"""Workers with a GPU, as processes: the hip op set run by the CPU (tests/kernels/shim), device memory behind a fence that the
host cannot reach through. Who may train with whom, a device that fails in the middle, and the same bits through all of it."""
import os
import re
import signal
import unittest

import harness
from traces.reader import Trace

STEPS = 12
PLAYED = {"HOLDFAST_SHIM_FENCE": "1", "HOLDFAST_SHIM_DEVICES": "4"}


class GpuWorkers(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.cpu_program = self.cluster.worker_program
        self.spec = harness.small_spec(self.cluster.folder, n_layer=1, n_embd=32, n_head=2, block_size=16, batch_size=2,
                                       global_batch_size=6, total_steps=STEPS, warmup_steps=2, hash_every=2, checkpoint_every=6)

    def start_gpu_worker(self, name, environment=None, device="hip", **options):
        self.cluster.worker_program = f"{harness.BIN}/worker_on_gpu_shim"
        worker = self.cluster.start_worker(name, environment={**PLAYED, **(environment or {})}, device=device, **options)
        self.cluster.worker_program = self.cpu_program
        return worker

    def start_gpu_workers(self, *names, **options):
        for name in names:
            self.start_gpu_worker(name, **options)
        self.cluster.wait_workers(*names)

    def hash_of(self, job):
        shown = self.cluster.wait_state(job, "succeeded", timeout_s=180)
        self.assertEqual(STEPS, shown["state_hash_step"])
        return shown["state_hash"]

    def undisturbed(self):
        self.start_gpu_workers("alone")
        value = self.hash_of(self.cluster.submit(**self.spec))
        self.cluster.stop_workers()
        return value

    def test_nodes_show_the_device_and_its_memory(self):
        self.start_gpu_workers("w1")
        node = self.cluster.nodes()[0]
        self.assertEqual(("hip", "this CPU, as if it were a GPU", 1 << 30), (node["device"], node["device_model"], node["memory_bytes"]))
        self.assertTrue(node["numerics"].startswith("hip/cpu/"), node["numerics"])
        shown = self.cluster.cli("nodes")
        self.assertIn("hip this CPU, as if it were a GPU", shown)
        self.assertIn("1.1 GB", shown)

    def test_auto_takes_the_gpu(self):
        self.start_gpu_worker("w1", device="auto")
        self.cluster.wait_workers("w1")
        self.assertEqual("hip", self.cluster.nodes()[0]["device"])

    def test_a_gpu_that_its_driver_shows_no_more_is_waited_for(self):
        absent = os.path.join(self.cluster.folder, "absent")
        worker = self.start_gpu_worker("w1", device="auto", environment={"HOLDFAST_SHIM_ABSENT": absent})
        self.cluster.wait_workers("w1")
        with open(absent, "w", encoding="utf-8"):
            pass
        first = self.cluster.training_pid("w1")
        os.kill(first, signal.SIGKILL)
        worker.wait_log("exited with status 1: --device hip:0: the runtime finds no GPU")
        os.unlink(absent)
        harness.wait_until(lambda: [(n["device"], n["pid"] != first) for n in self.cluster.nodes() if n["state"] == "alive"] == [("hip", True)],
                           30, "the GPU again")

    def test_a_gpu_that_is_not_there_ends_the_worker_with_what_there_is(self):
        worker = self.start_gpu_worker("w1", device="hip:3", environment={"HOLDFAST_SHIM_DEVICES": "1"})
        self.assertEqual(2, worker.wait_exit())
        self.assertIn("--device hip:3: there is 1 GPU here, hip:0", worker.log())

    def test_no_two_workers_share_a_gpu_unasked(self):
        two = {"HOLDFAST_SHIM_DEVICES": "2"}
        for name in ("w1", "w2"):
            self.start_gpu_worker(name, device="auto", environment=two)
            self.cluster.wait_workers(name)
        self.assertEqual(["hip:0", "hip:1"], sorted(self.gpu_of(name) for name in ("w1", "w2")))
        third = self.start_gpu_worker("w3", device="auto", environment=two)
        self.assertEqual(2, third.wait_exit())
        print(third.log())
        self.assertRegex(third.log(), r"--device auto: hip:0 is taken by w[12] \(process \d+\), hip:1 is taken by w[12] \(process \d+\)")
        self.start_gpu_worker("sharing", device="hip:1", environment=two, arguments=["--share_device"])
        self.cluster.wait_workers("sharing")
        self.cluster.kill_worker("w2")
        self.start_gpu_worker("w4", device="auto", environment=two)
        self.cluster.wait_workers("w4")

    def gpu_of(self, name):
        """By the locks: the process that holds it has written its name into the file."""
        locks = {}
        for entry in os.listdir(self.cluster.folder):
            if entry.startswith("holdfast-gpu-0000:03:"):
                with open(os.path.join(self.cluster.folder, entry), encoding="utf-8") as lock:
                    locks[lock.read()] = "hip:" + str(int(entry.split(":")[2][:2]))
        return locks[f"{name} (process {self.cluster.training_pid(name)})"]

    def test_a_driver_that_is_too_old_is_said_and_the_cpu_is_not_taken_in_its_place(self):
        driver = os.path.join(self.cluster.folder, "kfd")
        with open(driver, "w", encoding="utf-8"):
            pass
        environment = {"HOLDFAST_SHIM_DRIVER": driver, "HOLDFAST_SHIM_OLD_DRIVER": "1"}
        for words in ({"device": "auto"}, {"device": "hip:0"}):
            worker = self.start_gpu_worker("w-" + words["device"][:3], environment=environment, **words)
            self.assertEqual(2, worker.wait_exit())
            self.assertIn(f"--device {words['device']}: {driver} is there, so a GPU's driver is loaded, but the runtime finds no GPU: "
                          "driver version is insufficient for runtime version. Update the driver", worker.log())
        print(worker.log())
        self.start_gpu_worker("asked", environment=environment, device="cpu")
        self.cluster.wait_workers("asked")

    def test_an_exact_job_takes_gpus_or_cpus_and_a_float_job_both(self):
        self.start_gpu_workers("gpu")
        self.cluster.start_workers("cpu")
        exact = self.cluster.submit(**{**self.spec, "total_steps": 100_000}, nodes=2)  # one trains until the other is refused
        refusal = self.cluster.wait_event(exact, "worker_refused", containing="it computes other bits")
        for word in ("hip/cpu/", "cpu/", "use like workers", "reduction float"):
            self.assertIn(word, refusal["message"])
        self.cluster.wait_step(exact, 2)
        self.cluster.post(exact, "stop")
        self.cluster.wait_state(exact, "cancelled")
        mixed = self.cluster.submit(**{**self.spec, "reduction": "float"}, nodes=2, min_nodes=2)
        self.cluster.wait_state(mixed, "succeeded", timeout_s=180)
        self.assertIn("of cpu and gpu", self.cluster.wait_event(mixed, "generation_formed")["message"])

    def test_the_same_bits_with_one_of_two_killed(self):
        expected = self.undisturbed()
        self.start_gpu_workers("w1", "w2", slow_ms=100)
        job = self.cluster.submit(**self.spec, nodes=2, min_nodes=1)
        self.cluster.wait_step(job, 4)
        self.assertEqual(2, self.cluster.job(job)["world_size"])
        self.cluster.kill_worker("w2")
        self.assertEqual(expected, self.hash_of(job))
        self.cluster.workers["w1"].wait_log("add up among themselves")

    def test_gpus_of_one_node_add_up_among_themselves(self):
        expected = self.undisturbed()
        self.start_gpu_workers("w1", "w2", slow_ms=60)
        self.assertEqual(expected, self.hash_of(self.cluster.submit(**self.spec, nodes=2, min_nodes=2)))
        for name in ("w1", "w2"):
            worker = self.cluster.workers[name]
            worker.wait_log("the GPUs of this node add up among themselves, by RCCL 2.22.3")
            told = re.compile(r"played RCCL: (\d+) operations")  # as it leaves the generation, which the job's end does not wait for
            harness.wait_until(lambda: told.search(worker.log()), 20, f"{name} to count the operations of its devices")
            self.assertGreater(int(told.search(worker.log())[1]), STEPS, "of its buckets, most of all steps")

    def test_gpus_that_cannot_be_connected_add_up_through_the_host(self):
        expected = self.undisturbed()
        self.start_gpu_workers("w1", slow_ms=60)
        self.start_gpu_workers("w2", slow_ms=60, environment={"HOLDFAST_SHIM_SUMS": "refuse"})
        job = self.cluster.submit(**self.spec, nodes=2, min_nodes=2)
        self.assertEqual(expected, self.hash_of(job))
        told = self.cluster.wait_event(job, "devices_not_connected")
        self.assertEqual(1, self.cluster.event_kinds(job).count("devices_not_connected"), "the worker that knows the reason says it")
        self.assertEqual("w2", told["worker"])
        self.assertIn("through the host's memory: RCCL: connecting: unhandled system error", told["message"])

    def test_a_job_too_large_for_the_device_is_refused_before_it_begins(self):
        self.start_gpu_workers("w1")
        batch = 1 << 16  # activations: a large model's weights would have to be drawn first, for half a minute where it is busy
        job = self.cluster.submit(**{**self.spec, "batch_size": batch, "global_batch_size": batch})
        refusal = self.cluster.wait_event(job, "worker_refused", containing="hip: out of memory: asked ")
        self.assertIn("lower batch_size or set recompute", refusal["message"])
        self.assertEqual(["w1"], [n["id"] for n in self.cluster.nodes() if n["state"] == "alive"])

    def test_a_job_of_two_nodes_whose_copies_the_host_cannot_hold_is_refused_before_it_begins(self):
        self.start_gpu_workers("w1", "w2", environment={"HOLDFAST_SHIM_PINNED_BYTES": str(50_000)})
        alone = self.cluster.submit(**self.spec)
        self.cluster.wait_state(alone, "succeeded", timeout_s=180)
        job = self.cluster.submit(**self.spec, nodes=2, min_nodes=2)
        refusal = self.cluster.wait_event(job, "worker_refused", containing="hip: the host has no 1 MiB that the GPU can reach")
        self.assertIn("amdgpu.gttsize", refusal["message"])

    def test_errors_and_heat_that_its_driver_tells_are_events_of_the_job(self):
        told = os.path.join(self.cluster.folder, "told")

        def tell(words):
            with open(told, "w", encoding="utf-8") as file:
                file.write(words)

        tell("uncorrected 0 corrected 3 reasons 4 busy 97 used 1000000 milliwatts 250000 celsius 71")
        self.start_gpu_worker("w1", slow_ms=100, environment={"LD_LIBRARY_PATH": f"{harness.BIN}/played_nvml", "HOLDFAST_PLAYED_NVML": told})
        self.cluster.wait_workers("w1")
        job = self.cluster.submit(**{**self.spec, "total_steps": 5000})
        self.cluster.wait_step(job, 2)
        self.assertNotIn("gpu_", str(self.cluster.event_kinds(job)))
        tell("uncorrected 2 corrected 8 reasons 64 busy 97 used 1000000 milliwatts 250000 celsius 105 xid 79")
        errors = self.cluster.wait_event(job, "gpu_errors", timeout_s=30)["message"]
        print(errors)
        for words in ("0000:03:00.0", "2 of memory", "Xid 79", "drain this worker"):
            self.assertIn(words, errors)
        self.assertIn("5 of memory", self.cluster.wait_event(job, "gpu_corrected_errors")["message"])
        self.assertIn("slows down to half", self.cluster.wait_event(job, "gpu_hot")["message"])
        self.cluster.workers["w1"].wait_log("gpu_errors")
        self.assertIn("105", self.cluster.cli("nodes"))

    def test_a_profile_has_the_devices_own_times(self):
        worker = self.start_gpu_worker("w1", slow_ms=20)
        self.cluster.wait_workers("w1")
        job = self.cluster.submit(**{**self.spec, "total_steps": 5000})
        self.cluster.wait_step(job, 2)
        print(self.cluster.cli("profile", job, "--steps", 3, "--output", "trace.json"))
        trace = Trace(os.path.join(self.cluster.folder, "trace.json"))
        steps = [span for span in trace.threads[0, "train"] if span.kind == "step"]
        on_device = trace.threads[0, "device"]
        calls = sorted((span for span in trace.every(0, "train") if span.kind in ("op", "copy")), key=lambda span: span.begin)
        self.assertEqual([span.name for span in calls], [span.name for span in on_device])
        self.assertGreater(len(on_device), 3 * 50)
        for span in on_device:
            self.assertTrue(any(step.begin <= span.begin and span.end <= step.end for step in steps), span.name)
        costs = {(cost["name"], cost["thread"]) for cost in self.cluster.get(f"/v1/jobs/{job}/profile")["result"]["costs"]}
        self.assertIn("device", {thread for _, thread in costs}, costs)
        worker.wait_log("no driver tells the health of the GPU 0000:03:00.0")

    def test_a_device_that_fails_in_a_call_ends_in_an_event_and_a_rejoin(self):
        expected, said = self.undisturbed(), 0
        for call in (60, 700, 1300):  # while the model is built, and in steps
            with self.subTest(call=call):
                once = os.path.join(self.cluster.folder, f"failed-{call}")
                self.start_gpu_workers("w1")
                self.start_gpu_worker("w2", environment={"HOLDFAST_SHIM_FAIL_CALL": str(call), "HOLDFAST_SHIM_FAIL_ONCE": once})
                self.cluster.wait_workers("w2")
                job = self.cluster.submit(**self.spec, nodes=2, min_nodes=2)
                self.assertEqual(expected, self.hash_of(job))
                self.assertTrue(os.path.exists(once), "the call was made")
                if self.cluster.job(job)["generation"] > 1:  # else the call was one after the last step
                    worker = self.cluster.workers["w2"]
                    worker.wait_log("unspecified launch failure")
                    harness.wait_until(lambda: [e for e in self.cluster.events(job) if "hip: " in e["message"]], 20, "an event that says it, too")
                    said += 1
                self.cluster.wait_workers("w2")
                self.cluster.stop_workers()
        self.assertGreater(said, 0, "one of the calls was in the middle of a job")


if __name__ == "__main__":
    unittest.main()
