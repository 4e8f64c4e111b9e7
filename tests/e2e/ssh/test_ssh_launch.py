#!/usr/bin/python3
"""`holdfast submit --launch ssh` with a real sshd on every node: nodes and sshds die, networks are cut, and the bits are the same.

usage: test_ssh_launch.py [unittest arguments]; needs root, sshd and network namespaces: where they are missing it says so and is skipped."""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
from network import namespaces  # noqa: E402
from processes import wait_until  # noqa: E402

import ssh_cluster  # noqa: E402

STEPS = 120
SLOW_MS = 40  # a step: what is done in the middle of the run does not come too late


class SshLaunch(unittest.TestCase):
    maxDiff = None
    reference = None  # the state hash of the undisturbed run

    def setUp(self):
        self.cluster = ssh_cluster.SshCluster(3, {"HOLDFAST_FAULT": f"slow@step:ms={SLOW_MS}"})
        self.addCleanup(self._close)
        self.cluster.start_service()
        self.spec = harness.small_spec(self.cluster.folder, total_steps=STEPS, min_nodes=1)
        if SshLaunch.reference is None:
            SshLaunch.reference = self.undisturbed(self.spec)

    def _close(self):
        outcome = self._outcome.result
        self.cluster.close(any(test is self for test, _ in outcome.failures + outcome.errors) or not self._outcome.success)

    def undisturbed(self, spec):
        """The state hash of the job with one worker that nobody launched."""
        self.cluster.start_workers("alone")
        shown = self.cluster.wait_state(self.cluster.submit(**spec), "succeeded")
        self.cluster.stop_workers()
        return shown["state_hash"]

    def launch(self, *arguments, spec=None, environment=None, program=f"{harness.BIN}/holdfast-worker", options="--device cpu"):
        """The program that submits and stays; and the job's id. Its own terminal is a file."""
        flags = [f"--{name}={value}" for name, value in (spec or self.spec).items()]
        process = self.cluster.spawn("submit", [f"{harness.BIN}/holdfast", "submit", "--launch=ssh", "--launch_options", f"-F {self.cluster.client}",
                                                "--worker_program", program, "--worker_options", options,
                                                *flags, *arguments], {"HOLDFAST_SERVER": self.cluster.url, **(environment or {})})
        job = wait_until(lambda: process.log().split("\n")[0] if "\n" in process.log() else not process.running() and process.log(), 20, "the job's id")
        return process, job

    def wait_training(self, job, step, world_size, timeout_s=60):
        return wait_until(lambda: (shown := self.cluster.job(job))["step"] >= step and shown["world_size"] == world_size and shown, timeout_s,
                          f"step {step} with {world_size} workers")

    def assert_ended_alike(self, process, job, timeout_s=90):
        self.assertEqual(0, process.wait_exit(timeout_s), process.log()[-3000:])
        shown = self.cluster.job(job)
        self.assertEqual(("succeeded", STEPS, self.reference), (shown["state"], shown["step"], shown["state_hash"]))
        self.assert_nothing_left()

    def assert_nothing_left(self, *but_on):
        """On no node is a worker, a shell that waited for it, or a file; and the token that was made lets nobody in."""
        nodes = [name for name in self.cluster.names if name not in but_on]
        wait_until(lambda: not any(self.left_on(name) for name in nodes), 30, "every process to have ended")
        self.assertEqual([], [file for file in self.files_left() if not file.endswith(but_on)] if but_on else self.files_left())

    def left_on(self, name):
        return [pid for program in ("holdfast-worker", "flock", "sh") for pid in self.cluster.processes_of(name, program)]

    def files_left(self):
        folder = f"{self.cluster.folder}/state/holdfast/launch"
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def test_workers_are_started_on_all_hosts_and_are_gone_after_the_end(self):
        with open(f"{self.cluster.folder}/hosts", "w", encoding="ascii") as file:
            file.write("# three nodes\nnode1 slots=2\nnode2\nnode3\n")
        process, job = self.launch("--hostfile", f"{self.cluster.folder}/hosts", environment={"HOLDFAST_TOKEN": self.cluster.token("admin")})
        shown = self.wait_training(job, 3, 4)
        self.assertEqual({"node1-0", "node1-1", "node2", "node3"}, {worker["id"] for worker in shown["workers"]})
        secrets = [self.cluster.token("admin"), self.cluster.token("worker")]
        self.assertFalse([line for line in namespaces.run("ps", "-eo", "args").splitlines() if any(secret in line for secret in secrets)])
        self.assertIn("launch-", [token["name"][:7] for token in self.cluster.get("/v1/tokens")["tokens"]])
        self.assert_ended_alike(process, job)
        self.assertEqual(4, self.cluster.job(job)["spec"]["nodes"], "as many as the hosts take")
        self.assertNotIn("launch-", [token["name"][:7] for token in self.cluster.get("/v1/tokens")["tokens"]])

    def test_a_node_loses_power_and_comes_back(self):
        process, job = self.launch("--hosts=node1,node2,node3")
        self.wait_training(job, 10, 3)
        self.cluster.power_off("node2")
        self.wait_training(job, 11, 2)
        self.cluster.power_on("node2")
        self.wait_training(job, 12, 3)
        self.assert_ended_alike(process, job)
        self.assertIn("node2: is not reached", process.log())
        self.assertIn("node2: its worker is started again", process.log())

    def test_a_node_loses_power_and_stays_away(self):
        process, job = self.launch("--hosts=node1,node2,node3")
        self.wait_training(job, 10, 3)
        self.cluster.power_off("node2")
        self.assertEqual(0, process.wait_exit(150), process.log()[-3000:])
        self.assertEqual(self.reference, self.cluster.job(job)["state_hash"])
        self.assertIn("node2: is not reached. A worker that still runs there leaves when", process.log())
        self.assertEqual([], [pid for name in ("node1", "node3") for pid in self.left_on(name)])

    def test_an_sshd_and_its_connections_die_and_the_worker_trains_on(self):
        process, job = self.launch("--hosts=node1,node2,node3")
        before = self.wait_training(job, 10, 3)
        self.cluster.kill_sshd("node2")
        process.wait_log("node2: is not reached")
        self.cluster.start_sshd("node2")
        process.wait_log("node2: reached again: its worker runs", 40)
        self.assertEqual(before["generation"], self.cluster.job(job)["generation"], "the training did not notice")
        self.assert_ended_alike(process, job)

    def test_the_network_of_a_node_is_cut_for_a_while(self):
        long = {**self.spec, "total_steps": 900}
        reference = self.undisturbed(long)
        process, job = self.launch("--hosts=node1,node2,node3", spec=long)
        self.wait_training(job, 10, 3)
        self.cluster.node("node2").cut()
        self.wait_training(job, 11, 2)
        process.wait_log("node2: is not reached", 40)
        self.cluster.node("node2").mend()
        self.wait_training(job, 12, 3)
        process.wait_log("node2: reached again", 60)
        self.assertEqual(0, process.wait_exit(120), process.log()[-3000:])
        self.assertEqual(reference, self.cluster.job(job)["state_hash"])
        self.assert_nothing_left()

    def test_ctrl_c_says_what_goes_on_and_the_workers_leave_with_the_job(self):
        process, job = self.launch("--hosts=node1,node2,node3")
        self.wait_training(job, 10, 3)
        process.signal(signal.SIGINT)
        self.assertEqual(130, process.wait_exit(10))
        for words in (f"{job} goes on without this program", "Its 3 workers on node1, node2, node3 go on, too", f"holdfast stop {job}"):
            self.assertIn(words, process.log())
        self.assertEqual("running", self.cluster.job(job)["state"])
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(self.reference, shown["state_hash"])
        wait_until(lambda: not any(self.left_on(name) for name in self.cluster.names), 30, "the workers to have left")

    def test_the_launcher_is_killed_and_the_workers_leave_when_the_job_is_stopped(self):
        process, job = self.launch("--hosts=node1,node2,node3")
        self.wait_training(job, 10, 3)
        process.kill()
        self.wait_training(job, 20, 3)
        self.cluster.post(job, "stop")
        wait_until(lambda: not any(self.left_on(name) for name in self.cluster.names), 30, "the workers to have left")

    def test_the_service_ends_with_the_job_and_the_workers_are_told_to_leave(self):
        process, job = self.launch("--hosts=node1,node2")
        self.wait_training(job, 10, 2)
        for name in ("node1", "node2"):
            self.cluster.node(name).cut_to(self.cluster.node("service").address)
        self.cluster.post(job, "stop", {"checkpoint": False})
        self.assertEqual(1, process.wait_exit(120), process.log()[-3000:])
        self.assertIn("its worker has not left by itself: it is told to", process.log())
        self.assert_nothing_left()

    def test_hosts_that_cannot_work_say_why_and_the_job_is_stopped(self):
        process, job = self.launch("--hosts=node1,node2", options="--device hip:999")
        self.assertEqual(1, process.wait_exit(30), process.log()[-3000:])
        self.assertIn("node1: its worker cannot work there: ", process.log())
        self.assertIn("hip:999", process.log())
        self.assertEqual("cancelled", self.cluster.wait_state(job, "cancelled")["state"])
        process, job = self.launch("--hosts=node1", program="/nonexistent/holdfast-worker")
        self.assertEqual(1, process.wait_exit(30))
        self.assertIn("/nonexistent/holdfast-worker is not found on this host", process.log())

    def test_a_host_that_is_not_known_is_told_and_the_others_train(self):
        process, job = self.launch("--hosts=node1,node9,node2")
        self.wait_training(job, 5, 2)
        process.wait_log("node9: is not reached (")
        self.assertEqual(0, process.wait_exit(150))
        self.assertEqual(self.reference, self.cluster.job(job)["state_hash"])

    def test_somebody_who_may_not_make_tokens_brings_one(self):
        status, made = self.cluster.request("POST", "/v1/tokens", {"name": "person", "role": "submit"})
        self.assertEqual(201, status)
        person = {"HOLDFAST_TOKEN": made["token"], "HOLDFAST_DATA_DIR": f"{self.cluster.folder}/none"}
        process, _ = self.launch("--hosts=node1", environment=person)
        self.assertEqual(4, process.wait_exit(20))
        self.assertIn("give it as HOLDFAST_WORKER_TOKEN", process.log())
        self.assertEqual([], [job for job in self.cluster.get("/v1/jobs")["jobs"] if job["state"] != "succeeded"], "nothing was submitted")
        process, job = self.launch("--hosts=node1", environment={**person, "HOLDFAST_WORKER_TOKEN": self.cluster.token("worker")})
        self.assert_ended_alike(process, job)

    def test_the_answer_is_json_where_that_is_asked_for(self):
        flags = [f"--{name}={value}" for name, value in self.spec.items()]
        process = self.cluster.spawn("json", ["sh", "-c", f'exec "$@" 2>{self.cluster.folder}/said', "sh", f"{harness.BIN}/holdfast", "submit", "--launch=ssh",
                                              "--hosts=node1", f"--launch_options=-F {self.cluster.client}", f"--worker_program={harness.BIN}/holdfast-worker",
                                              "--json", *flags], {"HOLDFAST_SERVER": self.cluster.url})
        self.assertEqual(0, process.wait_exit(90), process.log())
        self.assertEqual(self.reference, json.loads(process.log())["state_hash"])


if __name__ == "__main__":
    if (reason := ssh_cluster.reason_not_to_run()) is not None:
        print(f"skipped: {reason}")
        sys.exit(77)
    namespaces.enter()
    harness.main()
