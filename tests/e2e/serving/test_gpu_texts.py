#!/usr/bin/python3
"""Texts by a GPU, which the CPU plays (tests/kernels/shim): by the commands that take --device, and by a worker of a job that serves."""
import json
import os
import signal
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
from processes import wait_until  # noqa: E402
from trained import TrainedCase  # noqa: E402

PROMPT = "THE SOFTWARE"


class GpuTexts(TrainedCase):
    @classmethod
    def train(cls):
        cls.played = {"HOLDFAST_SHIM_FENCE": "1", "HOLDFAST_SHIM_DEVICES": "1", "HOLDFAST_LOCKS": cls.cluster.folder}
        cls.cluster.start_worker("trainer", arguments=("--labels", "for=training"))
        cls.job = cls.cluster.submit(**cls.spec(n_layer=1, n_embd=32, n_head=2, block_size=64, total_steps=60, checkpoint_every=60, requires={"for": "training"}))
        cls.cluster.wait_state(cls.job, "succeeded")

    def run_program(self, *arguments, program="holdfast_on_gpu_shim"):
        environment = {**os.environ, "HOLDFAST_SERVER": self.cluster.server, "HOLDFAST_TOKEN": self.cluster.token(), **self.played}
        return subprocess.run([f"{harness.BIN}/{program}", *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=120, check=False)

    def sample(self, *more, program="holdfast_on_gpu_shim"):
        done = self.run_program("sample", "--from", f"job:{self.job}", "--tokenizer", self.data, "--prompt", PROMPT, "--tokens", 32, "--temperature", 0, "--threads", 1,
                                *more, program=program)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def start_gpu_worker(self, name, **more):
        cpu_program, self.cluster.worker_program = self.cluster.worker_program, f"{harness.BIN}/worker_on_gpu_shim"
        self.cluster.start_worker(name, environment={**self.played, **more}, device="hip", arguments=("--labels", "for=serving"))
        self.cluster.worker_program = cpu_program
        self.addCleanup(self.stop, name)
        self.cluster.wait_workers(name)

    def stop(self, name):
        worker = self.cluster.workers.pop(name)
        worker.signal(signal.SIGTERM)
        worker.wait_exit()

    def test_the_text_of_int8_is_the_cpus(self):
        of_cpu = self.sample("--precision", "int8", program="holdfast")
        self.assertGreater(len(of_cpu), len(PROMPT) + 32)
        self.assertEqual(of_cpu, self.sample("--precision", "int8", "--device", "hip:0"))

    def test_a_loss_is_the_cpus_but_for_rounding(self):
        found = []
        for device in ("cpu", "auto"):
            done = self.run_program("eval", "--from", f"job:{self.job}", "--data", f"{self.data}/val.bin", "--windows", 2, "--device", device, "--json")
            self.assertEqual(0, done.returncode, done.stderr)
            found.append(json.loads(done.stdout)["loss"])
        self.assertNotEqual(*found)  # for it was another device
        self.assertAlmostEqual(*found, delta=1e-5)

    def test_a_gpu_that_a_worker_has_is_refused_unless_it_is_to_be_shared(self):
        self.start_gpu_worker("w1")
        refused = self.run_program("sample", "--from", f"job:{self.job}", "--tokenizer", self.data, "--device", "auto")
        self.assertEqual(2, refused.returncode)
        self.assertIn("hip:0 is taken by w1 (process", refused.stderr)
        self.assertIn("--share_device", refused.stderr)
        self.assertEqual(self.sample("--device", "cpu"), self.sample(program="holdfast"))
        self.sample("--device", "hip:0", "--share_device")

    def test_a_build_without_gpus_says_so(self):
        refused = self.run_program("sample", "--from", f"job:{self.job}", "--tokenizer", self.data, "--device", "hip:0", program="holdfast")
        self.assertEqual((2, True), (refused.returncode, "--device hip:0: this build has no HIP" in refused.stderr), refused.stderr)

    def test_a_replica_on_a_gpu_writes_what_the_command_writes_there(self):
        requests = os.path.join(self.cluster.folder, "requests.jsonl")
        fields = [{"prompt": PROMPT[:i + 1], "max_tokens": 12, "seed": i, "temperature": 0.8} for i in range(6)]
        with open(requests, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in fields)
        done = self.run_program("generate", "--from", f"job:{self.job}", "--tokenizer", self.data, "--input", requests, "--output", f"{requests}.answers", "--device", "hip:0",
                                "--precision", "bfloat16", "--cache_mib", 64, "--top_k", 0)
        self.assertEqual(0, done.returncode, done.stderr)
        with open(f"{requests}.answers", encoding="utf-8") as file:
            expected = [json.loads(line)["choices"][0]["text"] for line in file]
        self.start_gpu_worker("w2")
        job = self.cluster.submit(kind="serve", init_from=f"job:{self.job}", precision="bfloat16", nodes=1, min_nodes=1, name="served", requires={"for": "serving"})
        wait_until(lambda: [m for m in self.cluster.get("/v1/models")["data"] if m["replicas"]], 60, "a replica")
        found = []
        for one in fields:
            request = urllib.request.Request(f"{self.cluster.url}/v1/completions", json.dumps({"model": "served", **one}).encode(), {"Authorization": f"Bearer {self.cluster.token()}"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                found.append(json.load(answer)["choices"][0]["text"])
        self.cluster.post(job, "stop")
        self.assertEqual(expected, found)

    def test_a_gpu_that_fails_while_a_replica_reads_its_model_is_tried_in_another_life(self):
        once = os.path.join(self.cluster.folder, "failed")
        self.start_gpu_worker("w3", HOLDFAST_SHIM_FAIL_CALL="60", HOLDFAST_SHIM_FAIL_ONCE=once)
        job = self.cluster.submit(kind="serve", init_from=f"job:{self.job}", precision="bfloat16", nodes=1, min_nodes=1, name="again", requires={"for": "serving"})
        wait_until(lambda: [m for m in self.cluster.get("/v1/models")["data"] if m["replicas"]], 60, "a replica")
        self.assertTrue(os.path.exists(once), "the call was made")
        self.cluster.workers["w3"].wait_log("unspecified launch failure")
        self.cluster.post(job, "stop")


if __name__ == "__main__":
    harness.main()
