#!/usr/bin/python3
"""ops/deploy/slurm/holdfast.sbatch as Slurm runs it, on this machine: srun and scontrol are played, everything else is real."""
import os
import signal
import stat
import subprocess

import harness
from processes import free_port

SCRIPT = os.path.join(harness.ROOT, "ops", "deploy", "slurm", "holdfast.sbatch")

# As srun does: the command once for each task, in its environment, tasks in blocks on their nodes; SIGTERM goes to all of them.
SRUN = """#!/usr/bin/python3
import os, signal, subprocess, sys
words = sys.argv[1:]
while words[0].startswith("--"):
    words.pop(0)
nodes, count = int(os.environ["SLURM_JOB_NUM_NODES"]), int(os.environ["SLURM_NTASKS"])
each = count // nodes
tasks = [subprocess.Popen(words, env={**os.environ, "SLURMD_NODENAME": f"node{i // each}", "SLURM_LOCALID": str(i % each)})
         for i in range(count)]
signal.signal(signal.SIGTERM, lambda *_: [task.send_signal(signal.SIGTERM) for task in tasks])
sys.exit(max(task.wait() for task in tasks))
"""
SCONTROL = """#!/bin/sh
echo "$@" >>"$SCONTROL_SAID"
"""


class SlurmScript(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.cluster.service.kill()
        self.cluster.port = free_port()
        self.cluster.url = f"http://127.0.0.1:{self.cluster.port}"
        self.tools = os.path.join(self.cluster.folder, "tools")
        os.mkdir(self.tools)
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            file = os.path.join(self.tools, name)
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            os.chmod(file, os.stat(file).st_mode | stat.S_IXUSR)
        self.said = os.path.join(self.cluster.folder, "scontrol.said")
        self.spec = harness.small_spec(self.cluster.folder, total_steps=60)
        self.flags = [f"--{name}={value}" for name, value in self.spec.items() if name != "total_steps"]

    def run_script(self, *arguments, **environment):
        """Slurm gives the script to the first node with its own variables; what it starts is found by the mark."""
        extra = {"PATH": f"{self.tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "42", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "2",
                 "HOLDFAST_BIN": harness.BIN, "HOLDFAST_STATE": self.cluster.data_dir, "HOLDFAST_PORT": str(self.cluster.port), "HOLDFAST_ADDRESS": "127.0.0.1",
                 "HOLDFAST_THREADS": "1", "SCONTROL_SAID": self.said}
        return self.cluster.spawn("sbatch", ["bash", SCRIPT, *arguments], {**extra, **environment})

    def job_named(self, name):
        listed = self.cluster.try_get("/v1/jobs") or {"jobs": ()}
        return next((job for job in listed["jobs"] if job["name"] == name), None)

    def test_it_trains_on_all_nodes_and_ends_with_the_job(self):
        script = self.run_script(*self.flags, "--total_steps=60")
        self.assertEqual(0, script.wait_exit(90), script.log()[-3000:])
        self.assertEqual([], self.cluster.marked_processes(), "nothing is left behind")
        self.cluster.start_service()
        job = self.job_named("slurm-42")
        self.assertEqual("succeeded", job["state"])
        self.assertEqual({"node0-0", "node1-0"}, {node["id"] for node in self.cluster.nodes()})

    def test_several_tasks_a_node_are_as_many_workers(self):
        flags = [flag for flag in self.flags if not flag.startswith(("--nodes=", "--min_nodes=", "--max_nodes="))]
        script = self.run_script(*flags, SLURM_JOB_NUM_NODES="1", SLURM_NTASKS="2")
        self.assertEqual(0, script.wait_exit(90), script.log()[-3000:])
        self.cluster.start_service()
        job = self.job_named("slurm-42")
        self.assertEqual(2, self.cluster.job(job["id"])["spec"]["nodes"])
        self.assertEqual({"node0-0", "node0-1"}, {node["id"] for node in self.cluster.nodes()})

    def test_before_the_time_is_up_it_pauses_and_after_the_requeue_it_goes_on(self):
        flags = [*self.flags, "--total_steps=2000"]
        script = self.run_script(*flags, HOLDFAST_REQUEUE="1")
        harness.wait_until(lambda: (job := self.job_named("slurm-42")) and job["step"] >= 5, 60, "some steps")
        script.signal(signal.SIGTERM)
        self.assertEqual(0, script.wait_exit(60), script.log()[-3000:])
        with open(self.said, encoding="utf-8") as file:
            self.assertEqual("requeue 42\n", file.read())
        again = self.run_script(*flags)
        self.assertEqual(0, again.wait_exit(90), again.log()[-3000:])
        self.cluster.start_service()
        job = self.job_named("slurm-42")
        self.assertEqual(("succeeded", 2000), (job["state"], job["step"]))
        self.assertEqual(1, len(self.cluster.get("/v1/jobs")["jobs"]), "the same job")

    def test_nodes_can_be_lent_to_a_service_that_is_there(self):
        self.cluster.start_service()
        lent = {"HOLDFAST_SERVER": self.cluster.url, "HOLDFAST_TOKEN": self.cluster.token("worker")}
        script = self.run_script(**lent)
        self.cluster.wait_workers("node0-0", "node1-0")
        self.cluster.wait_state(self.cluster.submit(**{**self.spec, "nodes": 2}), "succeeded")
        script.signal(signal.SIGTERM)
        self.assertEqual(0, script.wait_exit(60), script.log()[-3000:])
        harness.wait_until(lambda: {node["state"] for node in self.cluster.nodes()} == {"left"}, 15, "both to have said goodbye")

    def test_it_says_what_is_missing(self):
        environment = self.cluster.environment({"SLURM_JOB_ID": "42", "SLURM_JOB_NUM_NODES": "2", "HOLDFAST_BIN": harness.BIN})

        def said(*arguments, **changes):
            done = subprocess.run(["bash", SCRIPT, *arguments], env={**environment, **changes}, capture_output=True, text=True,
                                  check=False, timeout=30)
            self.assertEqual(2 if changes.get("SLURM_JOB_ID") != "" else 1, done.returncode, done.stderr)
            return done.stderr

        self.assertIn("what shall be trained?", said())
        self.assertIn("submit to it", said("--model=tiny", HOLDFAST_SERVER="http://127.0.0.1:1", HOLDFAST_TOKEN="x"))
        self.assertIn("set HOLDFAST_BIN", said(HOLDFAST_BIN="/nonexistent"))


if __name__ == "__main__":
    harness.main()
