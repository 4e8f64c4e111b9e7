#!/usr/bin/python3
"""ops/deploy/slurm/holdfast.sbatch on a real Slurm: nodes are lost and drained, jobs requeued and preempted, and the bits are the same.

usage: test_slurm.py [unittest arguments]; needs root, Slurm and network namespaces: where they are missing it says so and is skipped."""
import os
import signal
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
from network import namespaces  # noqa: E402
from processes import wait_until  # noqa: E402

import slurm_cluster  # noqa: E402

SCRIPT = os.path.join(harness.ROOT, "ops", "deploy", "slurm", "holdfast.sbatch")
STEPS = 150
SLOW_MS = 40  # a step: what is done in the middle of the run does not come too late
PORT = 7070

# Faults are for workers alone: the service would refuse rules that it does not know.
SLOW_WORKER = """#!/bin/sh
exec env HOLDFAST_FAULT='slow@step:ms={ms},slow@step:ms={crawl}:while_file={folder}/crawl' '{bin}/holdfast-worker' "$@"
"""


class Slurm(harness.unittest.TestCase):
    maxDiff = None
    reference = None  # the state hash of the undisturbed run

    def setUp(self):
        self.cluster = slurm_cluster.SlurmCluster(3)
        self.addCleanup(self._close)
        self.spec = harness.small_spec(self.cluster.folder, total_steps=STEPS, min_nodes=1, max_nodes=6)
        self.flags = [f"--{name}={value}" for name, value in self.spec.items()]
        self.tools = os.path.join(self.cluster.folder, "tools")
        os.mkdir(self.tools)
        os.symlink(f"{harness.BIN}/holdfast", f"{self.tools}/holdfast")
        with open(f"{self.tools}/holdfast-worker", "w", encoding="utf-8") as file:
            file.write(SLOW_WORKER.format(ms=SLOW_MS, crawl=harness.CRAWL_MS, folder=self.cluster.folder, bin=harness.BIN))
        os.chmod(f"{self.tools}/holdfast-worker", stat.S_IRWXU)
        self.settings = {"HOLDFAST_BIN": self.tools, "HOLDFAST_STATE": self.cluster.data_dir, "HOLDFAST_THREADS": "1"}
        if Slurm.reference is None:
            Slurm.reference = self.undisturbed()

    def _close(self):
        outcome = self._outcome.result
        self.cluster.close(any(test is self for test, _ in outcome.failures + outcome.errors) or not self._outcome.success)

    def undisturbed(self):
        """One worker, with no Slurm about it."""
        alone = harness.Cluster()
        try:
            alone.start_service().start_workers("alone")
            return alone.wait_state(alone.submit(**self.spec), "succeeded")["state_hash"]
        finally:
            alone.close(False)

    # --- what is asked of the service, which runs on some node

    def batch(self, *arguments, options=(), **settings):
        number = self.cluster.batch("--output=slurm-%j.log", *options, SCRIPT, *arguments, environment={**self.settings, **settings})
        self.addCleanup(self._show, number)
        return number

    def _show(self, number):
        if not self._outcome.success:
            print(self.cluster.control("scontrol", "show", "job", number, expect=None))

    def find_service(self, number):
        """Where it is now: on the first node of the Slurm job."""
        job = self.cluster.wait_batch(number, "RUNNING", timeout_s=60)
        host = self.cluster.nodes_by_name[job["BatchHost"]].address
        self.cluster.url = f"http://{host}:{PORT}"
        return job

    def training(self):
        listed = self.cluster.try_get("/v1/jobs") if os.path.exists(f"{self.cluster.data_dir}/admin.token") else None
        return next(iter(listed["jobs"]), None) if listed else None

    def wait_training(self, step, world_size, timeout_s=60):
        return wait_until(lambda: (job := self.training()) and job["step"] >= step and job["world_size"] == world_size and job, timeout_s,
                          f"step {step} with {world_size} workers")

    def assert_ended_alike(self, number, *workers, timeout_s=120):
        """Slurm's job is over, nothing is left on any node, and the training has the bits of the undisturbed one."""
        self.cluster.wait_batch(number, "COMPLETED", timeout_s=timeout_s)
        self.assert_nothing_left()
        service = harness.Cluster()
        try:
            service.data_dir = self.cluster.data_dir
            service.start_service()
            jobs = service.get("/v1/jobs")["jobs"]
            self.assertEqual(1, len(jobs), "the same job")
            shown = service.job(jobs[0]["id"])
            self.assertEqual(("succeeded", STEPS, self.reference), (shown["state"], shown["step"], shown["state_hash"]))
            if workers:
                self.assertEqual(set(workers), {node["id"] for node in service.nodes()})
            return {event["kind"]: event["message"] for event in service.events(shown["id"])}
        finally:
            service.close(False)

    def assert_nothing_left(self):
        wait_until(lambda: not self.ours_running(), 30, "every process of ours to have ended")

    def ours_running(self):
        return [line for line in namespaces.run("ps", "-eo", "pid,args").splitlines() if "holdfast-worker" in line or "holdfast serve" in line]

    # --- without a fault

    def test_it_trains_on_all_nodes_and_ends_with_the_job(self):
        number = self.batch(*self.flags, options=("--nodes=3", "--ntasks-per-node=2"))
        self.find_service(number)
        self.wait_training(1, 6)
        self.assert_ended_alike(number, *(f"node{node}-{task}" for node in (1, 2, 3) for task in (0, 1)))

    def test_several_workers_of_one_task(self):
        number = self.batch(*self.flags, options=("--nodes=2",), HOLDFAST_DEVICES="cpu:2")
        self.find_service(number)
        self.wait_training(1, 4)
        self.assert_ended_alike(number, "node1-0-0", "node1-0-1", "node2-0-0", "node2-0-1")

    def test_tasks_of_an_array_train_apart_also_on_one_node(self):
        options = ("--nodes=1", "--ntasks-per-node=1", "--exclusive=user", "--oversubscribe", "--array=1-2")
        flags = [flag for flag in self.flags if not flag.startswith("--seed=")] + ["--seed=%a"]
        array = self.batch(*flags, options=options, HOLDFAST_STATE="")
        for task in (1, 2):
            self.cluster.wait_batch(f"{array}_{task}", "COMPLETED")
        hashes = set()
        for task in (1, 2):
            service = harness.Cluster()
            service.data_dir = f"{self.cluster.folder}/holdfast-service-{array}_{task}"
            service.start_service()
            (shown,) = service.get("/v1/jobs")["jobs"]
            self.assertEqual("succeeded", shown["state"])
            self.assertEqual(task, service.job(shown["id"])["spec"]["seed"])
            hashes.add(service.job(shown["id"])["state_hash"])
            service.close(False)
        self.assertEqual(2, len(hashes))

    def test_nodes_are_lent_to_a_service_for_one_job_and_come_back_when_it_has_ended(self):
        self.cluster.service_flags = ("--allow_insecure",)
        self.cluster.start_service()
        job = self.cluster.submit(**{**self.spec, "nodes": 3})
        number = self.batch(options=("--nodes=3",), HOLDFAST_SERVER=self.cluster.url, HOLDFAST_TOKEN=self.cluster.token("worker"), HOLDFAST_JOB=job)
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(self.reference, shown["state_hash"])
        self.cluster.wait_batch(number, "COMPLETED")
        wait_until(lambda: {node["state"] for node in self.cluster.nodes()} == {"left"}, 15, "all to have said goodbye")
        self.assertEqual({job}, {node["only_job"] for node in self.cluster.nodes()})

    # --- holdfast submit --launch slurm, with a service that is there

    def launch(self, *arguments, **changes):
        """The program, and the job's id."""
        self.cluster.service_flags = ("--allow_insecure",)
        self.cluster.start_service()
        flags = [f"--{name}={value}" for name, value in {**self.spec, **changes}.items()]
        process = self.cluster.spawn("submit", ["env", "-C", self.cluster.folder, f"{harness.BIN}/holdfast", "submit", "--launch=slurm", *flags, *arguments],
                                     {"HOLDFAST_SERVER": self.cluster.url, "HOLDFAST_BIN": self.tools, "HOLDFAST_THREADS": "1"})
        return process, wait_until(lambda: process.log().split("\n")[0] if "\n" in process.log() else None, 30, "the job's id")

    def slurm_jobs(self):
        return self.cluster.control("squeue", "--noheader", "--format=%i %T %j").split("\n")[:-1]

    def test_submit_has_slurm_start_the_workers_of_its_job(self):
        process, job = self.launch("--nodes=4", "--workers_per_node=2", "--launch_options=--time=10 --output=launched-%j.log", "--watch")
        shown = wait_until(lambda: (shown := self.cluster.job(job))["world_size"] == 4 and shown, 60, "four workers")
        self.assertEqual({"node1-0", "node1-1", "node2-0", "node2-1"}, {worker["id"] for worker in shown["workers"]})
        self.assertEqual(0, process.wait_exit(60), process.log())
        self.assertEqual(self.reference, self.cluster.job(job)["state_hash"])
        wait_until(lambda: not self.slurm_jobs(), 60, "Slurm's job to be over")
        self.assert_none_of_slurm_left()

    def test_submit_returns_at_once_and_the_workers_leave_when_the_job_is_stopped(self):
        process, job = self.launch("--nodes=2")
        self.assertEqual(0, process.wait_exit(30), process.log())
        self.assertIn(f"Slurm's job 1 has the 2 workers for {job}", process.log())
        self.assertIn(f"holdfast-{job}", self.slurm_jobs()[0])
        wait_until(lambda: self.cluster.job(job)["world_size"] == 2, 60, "two workers")
        self.cluster.post(job, "stop")
        wait_until(lambda: not self.slurm_jobs(), 60, "Slurm's job to be over")
        self.assert_none_of_slurm_left()

    def test_ctrl_c_says_what_goes_on_and_a_job_that_never_began_leaves_nothing_in_the_queue(self):
        process, job = self.launch("--nodes=2", "--watch", "--launch_options=--hold")
        wait_until(lambda: self.slurm_jobs() and "waiting" in process.log() or "queued" in process.log(), 30, "the progress")
        process.signal(signal.SIGINT)
        self.assertEqual(130, process.wait_exit(10))
        self.assertIn("Its workers are Slurm's job 1, which goes on, too", process.log())
        self.cluster.post(job, "stop")
        again, second = self.launch_again("--nodes=2", "--watch", "--launch_options=--hold")
        wait_until(lambda: len(self.slurm_jobs()) == 2, 30, "the second in Slurm's queue")
        self.cluster.post(second, "stop")
        self.assertEqual(1, again.wait_exit(30), again.log())
        self.assertEqual(["1"], [row.split()[0] for row in self.slurm_jobs()], "the second is gone from the queue")
        self.cluster.control("scontrol", "release", "1")
        wait_until(lambda: not self.slurm_jobs(), 60, "the workers of the stopped job to see that it has ended")

    def launch_again(self, *arguments):
        flags = [f"--{name}={value}" for name, value in self.spec.items()]
        process = self.cluster.spawn("again", ["env", "-C", self.cluster.folder, f"{harness.BIN}/holdfast", "submit", "--launch=slurm", *flags, *arguments],
                                     {"HOLDFAST_SERVER": self.cluster.url, "HOLDFAST_BIN": self.tools})
        return process, wait_until(lambda: process.log().split("\n")[0] if "\n" in process.log() else None, 30, "the job's id")

    def test_a_job_whose_workers_slurm_refuses_is_stopped_with_slurms_reason(self):
        process, job = self.launch("--nodes=2", "--launch_options=--partition=none")
        self.assertEqual(2, process.wait_exit(30))
        self.assertIn("sbatch refused the workers: sbatch: error:", process.log())
        self.assertIn(f"{job} is stopped", process.log())
        self.assertEqual("cancelled", self.cluster.job(job)["state"])

    def assert_none_of_slurm_left(self):
        wait_until(lambda: not [line for line in self.ours_running() if "holdfast-worker" in line], 30, "every worker to have ended")

    def test_doctor_looks_at_slurm_and_at_munge(self):
        self.cluster.service_flags = ("--allow_insecure",)
        self.cluster.start_service()

        def verdicts():
            said = self.cluster.cli("doctor", "--json", expect=None, environment={"SLURM_CONF": self.cluster.configuration})
            return {check["check"]: (check["verdict"], check["seen"]) for check in harness.json.loads(said)["checks"]}

        self.assertEqual({"munge": ("ok", "munge vouches for this user"), "slurm": ("ok", "slurmctld answers; 3 nodes: 3 idle")},
                         {name: seen for name, seen in verdicts().items() if name in ("munge", "slurm")})
        self.cluster.daemons["munged"].kill()
        seen = verdicts()
        self.assertEqual(("FAIL", "FAIL"), (seen["munge"][0], seen["slurm"][0]), seen)

    # --- nodes

    def test_a_node_that_loses_power_costs_its_worker_alone(self):
        number = self.batch(*self.flags, options=("--nodes=3",))
        self.find_service(number)
        self.wait_training(20, 3)
        self.cluster.power_off("node2")
        self.wait_training(21, 2)
        events = self.assert_ended_alike(number)
        self.assertIn("worker_lost", events)

    def test_the_first_node_loses_power_and_the_job_goes_on_elsewhere(self):
        number = self.batch(*self.flags, options=("--nodes=2",))
        self.find_service(number)
        self.wait_training(30, 2)
        self.cluster.power_off("node1")
        self.cluster.wait_nodes("down", "node1")
        self.cluster.run_again(number)
        self.assertEqual("node2", self.find_service(number)["BatchHost"])
        self.assert_ended_alike(number)

    def test_a_node_is_drained_and_then_down(self):
        number = self.batch(*self.flags, options=("--nodes=3",))
        self.find_service(number)
        self.wait_training(10, 3)
        self.cluster.control("scontrol", "update", "nodename=node3", "state=drain", "reason=repair")
        self.wait_training(30, 3)
        self.cluster.control("scontrol", "update", "nodename=node3", "state=down", "reason=repair")
        self.wait_training(31, 2)
        self.assert_ended_alike(number)

    def test_a_slurmd_dies_and_the_training_does_not_notice(self):
        number = self.batch(*self.flags, options=("--nodes=3",))
        self.find_service(number)
        self.wait_training(20, 3)
        os.kill(self.cluster.slurmd_pid("node3"), signal.SIGKILL)
        self.cluster.crawl()
        self.cluster.wait_nodes("down", "node3")
        step = self.training()["step"]
        self.wait_training(step + 3, 3)
        self.cluster.hurry()
        self.assert_ended_alike(number)

    def test_the_network_of_a_node_is_cut_for_a_while(self):
        number = self.batch(*self.flags, options=("--nodes=3",))
        self.find_service(number)
        self.wait_training(20, 3)
        self.cluster.crawl()
        self.cluster.nodes_by_name["node2"].cut()
        self.wait_training(21, 2)
        self.cluster.nodes_by_name["node2"].mend()
        self.wait_training(22, 3)
        self.cluster.hurry()
        self.assert_ended_alike(number)

    # --- the Slurm job itself

    def test_it_is_requeued_and_goes_on(self):
        number = self.batch(*self.flags, options=("--nodes=2",))
        self.find_service(number)
        self.wait_training(30, 2)
        self.cluster.control("scontrol", "requeue", number)
        self.cluster.run_again(number)
        self.find_service(number)
        events = self.assert_ended_alike(number)
        self.assertIn("job_paused", events, "its checkpoint was written in time")
        self.assertNotIn("steps_voided", events, "nothing is computed again")

    def test_it_is_preempted_and_goes_on_when_the_nodes_are_free(self):
        number = self.batch(*self.flags, options=("--nodes=3",))
        self.find_service(number)
        self.wait_training(30, 3)
        urgent = self.cluster.batch("--partition=urgent", "--nodes=2", "--wrap=sleep 3")
        self.cluster.wait_batch(urgent, "COMPLETED")
        self.assertEqual("1", self.cluster.batch_job(number)["Restarts"])
        self.cluster.run_again(number)
        self.find_service(number)
        events = self.assert_ended_alike(number)
        self.assertNotIn("steps_voided", events, "the grace time was enough to drain and write")

    def test_before_the_time_is_up_it_pauses_and_is_put_into_the_queue_again(self):
        number = self.batch(*self.flags, options=("--nodes=2", "--time=2", "--signal=B:TERM@110"), HOLDFAST_REQUEUE="1")
        self.find_service(number)
        self.wait_training(5, 2)
        self.cluster.crawl()
        self.cluster.run_again(number)
        self.cluster.hurry()
        self.find_service(number)
        events = self.assert_ended_alike(number)
        self.assertIn("job_paused", events)

    def test_it_is_cancelled_and_leaves_nothing(self):
        number = self.batch(*self.flags, options=("--nodes=3",))
        self.find_service(number)
        self.wait_training(5, 3)
        self.cluster.control("scancel", number)
        self.cluster.wait_batch(number, "CANCELLED")
        self.assert_nothing_left()

    def test_workers_that_cannot_work_end_it_with_their_reason(self):
        number = self.batch(*self.flags, options=("--nodes=2",), HOLDFAST_WORKER_OPTIONS="--device hip:999")
        self.cluster.wait_batch(number, "FAILED")
        with open(f"{self.cluster.folder}/slurm-{number}.log", encoding="utf-8") as file:
            said = file.read()
        self.assertIn("hip:999", said)
        self.assertIn(f"the workers ended before slurm-{number}", said)
        self.assert_nothing_left()

    def test_it_says_what_is_missing(self):
        for settings, words in (({}, "what shall be trained?"), ({"HOLDFAST_BIN": "/nonexistent"}, "set HOLDFAST_BIN")):
            number = self.batch(options=("--nodes=1",), **settings)
            self.cluster.wait_batch(number, "FAILED")
            with open(f"{self.cluster.folder}/slurm-{number}.log", encoding="utf-8") as file:
                self.assertIn(words, file.read())


if __name__ == "__main__":
    if (reason := slurm_cluster.reason_not_to_run()) is not None:
        print(f"skipped: {reason}")
        sys.exit(77)
    namespaces.enter()
    harness.main()
