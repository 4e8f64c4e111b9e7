#!/usr/bin/python3
"""A service that stands by beside one that leads: what it answers, what it pulls, and how long a leader that was replaced goes on
to answer questions."""
import glob
import json
import os
import signal
import sys
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
from several_services import SeveralServices, SeveralServicesTest  # noqa: E402

LEASE_S = 2.0


class OwnFolders(SeveralServices):
    """Services without a folder that all of them see."""

    def start_one(self, name, environment=None):
        self.services[name] = self.spawn(name, [
            f"{harness.BIN}/holdfast", "serve", "--listen", f"{self.host}:{self.ports[name]}", "--data_dir", self.data_dir_of(name),
            "--store", self.address, *self.service_flags], environment)

    def checkpoint_files(self, name, job):
        return glob.glob(f"{self.data_dir_of(name)}/checkpoints/{job}/step-*/*")


class BesideTheLeader(SeveralServicesTest):
    def ask(self, base, path, method="GET", headers=None):
        """(status, headers, JSON)."""
        request = urllib.request.Request(base + path, method=method, data=b"{}" if method == "POST" else None)
        request.add_header("Authorization", f"Bearer {self.cluster.token()}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status, reply.headers, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, error.headers, json.loads(error.read())

    def standby(self):
        """The URL of one that stands by, once it does."""
        url = self.cluster.url_of(self.cluster.standby_names()[0])
        harness.wait_until(lambda: self.health(url).get("status") == "standing_by", 20, "a service to stand by")
        return url

    def health(self, url):
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=2) as reply:
                return json.loads(reply.read())
        except (urllib.error.URLError, OSError):
            return {}

    def begin(self, **changes):
        self.cluster.start_workers("w1", "w2", slow_ms=50)
        job = self.cluster.submit(**harness.small_spec(self.cluster.folder, nodes=2, min_nodes=2, max_nodes=2, **changes))
        self.cluster.wait_step(job, 3)
        return job

    def metric(self, url, name):
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        return None


class Reads(BesideTheLeader):
    def test_one_that_stands_by_shows_jobs_as_they_go_on(self):
        job = self.begin(total_steps=100_000)
        standby, leader = self.standby(), self.cluster.url
        self.assertEqual(leader, self.health(standby)["leader"])
        status, headers, shown = self.ask(standby, f"/v1/jobs/{job}")
        self.assertEqual((200, "1", leader), (status, headers["Holdfast-Term"], headers["Holdfast-Leader"]))
        as_of = harness.seconds_of(headers["Holdfast-As-Of"])
        self.assertLess(abs(time.time() - as_of), 30)
        self.assertIsNone(shown["tokens_per_second"])
        first = shown["step"]
        harness.wait_until(lambda: self.ask(standby, f"/v1/jobs/{job}")[2]["step"] > first, 20, "the standby to see a later step")
        self.assertEqual({"w1", "w2"}, {node["id"] for node in self.ask(standby, "/v1/nodes")[2]["nodes"]})
        events = [event["kind"] for event in self.ask(standby, f"/v1/jobs/{job}/events")[2]["events"]]
        self.assertIn("generation_formed", events)
        self.assertGreater(len(self.ask(standby, f"/v1/jobs/{job}/metrics?points=100")[2]["metrics"]), 0)
        for path, method in ((f"/v1/jobs/{job}/stop", "POST"), ("/v1/events?follow=1", "GET"), ("/v1/webhooks", "GET")):
            status, headers, problem = self.ask(standby, path, method)
            self.assertEqual((503, "not_leader", leader), (status, problem["code"], headers["Holdfast-Leader"]), path)
        self.assertEqual("503", str(self.ask(standby, "/readyz")[0]))

    def test_the_command_line_says_so_and_prefers_the_leader(self):
        job = self.begin(total_steps=100_000)
        standby, leader = self.standby(), self.cluster.url

        def show(server):
            return harness.subprocess.run([f"{harness.BIN}/holdfast", "ls", "--server", server], text=True, capture_output=True, check=True,
                                          env=self.cluster.environment({"HOLDFAST_TOKEN": self.cluster.token()}), timeout=60)
        alone = show(standby)
        self.assertIn(job, alone.stdout)
        self.assertRegex(alone.stderr, f"note: {standby} stands by, and shows its database as of .*; {leader} leads")
        both = show(f"{standby},{leader}")
        self.assertIn(job, both.stdout)
        self.assertEqual("", both.stderr)

    def test_the_doctor_and_the_leader_know_all_services(self):
        standby, leader = self.standby(), self.cluster.url
        harness.wait_until(lambda: len(self.ask(leader, "/v1/services")[2]["services"]) == 2, 20, "the leader to see the other")
        shown = self.ask(leader, "/v1/services")[2]
        self.assertEqual([(leader, True), (standby, False)], [(each["address"], each["leads"]) for each in shown["services"]])
        self.assertEqual(1, shown["term"])
        examined = harness.subprocess.run([f"{harness.BIN}/holdfast", "doctor", "--json", "--server", f"{standby},{leader}", "--store", self.cluster.address],
                                          text=True, capture_output=True, check=True, timeout=60,
                                          env=self.cluster.environment({"HOLDFAST_TOKEN": self.cluster.token()}))
        checks = {check["check"]: check for check in json.loads(examined.stdout)["checks"]}
        self.assertEqual(f"{standby} stands by; {leader} leads", checks["services"]["seen"])
        self.assertIn(f"{leader} in term 1", checks["leader"]["seen"])
        self.assertEqual(["ok"] * 4, [checks[name]["verdict"] for name in ("services", "services' clocks", "database", "database clock")])
        self.assertEqual("warn", checks["replicas"]["verdict"])

    def answers_as_leader(self, url):
        """Whether it answers a question now as the service that leads in the first term; it may lead again in a later one."""
        try:
            status, headers, _ = self.ask(url, "/v1/jobs", headers={"Connection": "close"})
        except OSError:
            return False
        return status == 200 and headers["Holdfast-As-Of"] is None and headers["Holdfast-Term"] == "1"

    def seconds_as_leader(self, url):
        began = last = time.monotonic()
        while time.monotonic() < began + 2 * LEASE_S:
            asked = time.monotonic()
            if self.answers_as_leader(url):
                last = asked
        return last - began

    def test_a_leader_that_only_reads_and_thaws_is_none_any_more(self):
        before, name = self.cluster.url, self.cluster.leader_name()
        self.standby()
        self.assertTrue(self.answers_as_leader(before))
        self.cluster.services[name].signal(signal.SIGSTOP)
        harness.wait_until(lambda: self.cluster.find_leader() not in (None, before), 20, "the other to lead")
        self.cluster.services[name].signal(signal.SIGCONT)
        seconds = self.seconds_as_leader(before)
        print(f"a leader that thawed answered as the leader for {seconds:.3f} s")
        self.assertLess(seconds, LEASE_S)

    def test_a_leader_that_only_reads_sees_that_the_term_has_passed(self):
        before = self.cluster.url
        self.assertTrue(self.answers_as_leader(before))
        database = self.cluster.address.split("/d")[1].split("?")[0]
        self.database.query("UPDATE leadership SET term = term + 1", f"d{database}")
        seconds = self.seconds_as_leader(before)
        print(f"a leader whose term was raised below it answered as the leader for {seconds:.3f} s")
        self.assertLess(seconds, LEASE_S)

    def test_a_worker_that_is_started_again_knows_the_term_of_its_predecessor(self):
        job = self.begin(total_steps=100_000)
        before = self.cluster.url
        self.cluster.services[self.cluster.leader_name()].kill()
        self.cluster.leader = harness.wait_until(lambda: next((url for url in [self.cluster.find_leader()] if url not in (None, before)), None), 20,
                                                 "the other to lead")
        told = self.cluster.wait_step(job, self.cluster.job(job)["step"] + 2)["step"]
        self.cluster.wait_step(job, told + 1)  # w1, rank 0, tells more when it has heard the answer to what it told before
        first = self.cluster.training_pid("w1")
        os.kill(first, signal.SIGKILL)

        def second():
            pid = self.cluster.training_pid("w1")
            return pid if pid != first else None
        with open(f"/proc/{harness.wait_until(second, 30, 'w1 to be started again')}/environ", "rb") as file:
            self.assertIn(b"HOLDFAST_INTERNAL_TERM=2", file.read().split(b"\0"))
        self.cluster.wait_step(job, told + 3)


class Pulls(BesideTheLeader):
    kind = OwnFolders
    STEPS = 60

    def test_a_new_leader_has_the_checkpoints_that_it_pulled(self):
        self.cluster.start_workers("alone")
        spec = harness.small_spec(self.cluster.folder, nodes=1, min_nodes=1, max_nodes=2, total_steps=self.STEPS, checkpoint_every=20)
        reference = self.cluster.wait_state(self.cluster.submit(**spec), "succeeded")["state_hash"]
        self.cluster.stop_workers()
        self.cluster.start_workers("w1", slow_ms=100)
        job = self.cluster.submit(**spec)
        self.cluster.wait_event(job, "checkpoint_committed", containing="step 20:")
        self.cluster.wait_step(job, 25)
        self.cluster.kill_worker("w1")  # with the newest state; now there are no more checkpoints
        standby, its_name = self.standby(), self.cluster.standby_names()[0]
        newest = max(checkpoint["step"] for checkpoint in self.cluster.get(f"/v1/jobs/{job}/checkpoints")["checkpoints"])

        def all_here():
            if not any(path.endswith(f"-{newest:010}/manifest.json") for path in self.cluster.checkpoint_files(its_name, job)):
                return False
            wanted, here = (self.metric(standby, f'holdfast_pull_checkpoints{{which="{which}"}}') for which in ("wanted", "here"))
            return wanted is not None and wanted >= 2 and wanted == here
        harness.wait_until(all_here, 30, "all checkpoints to be pulled")
        self.assertEqual(0, self.metric(standby, "holdfast_pull_fails"))
        self.assertGreater(self.metric(standby, "holdfast_pull_bytes_total"), 100_000)
        before = self.cluster.url
        self.cluster.services[self.cluster.leader_name()].kill()
        self.cluster.leader = harness.wait_until(lambda: next((url for url in [self.cluster.find_leader()] if url not in (None, before)), None), 20,
                                                 "the other to lead")
        self.cluster.data_dir = self.cluster.data_dir_of(self.cluster.leader_name())
        self.cluster.start_workers("w2")
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(reference, shown["state_hash"])
        formed = [event["message"] for event in self.cluster.events(job) if event["kind"] == "generation_formed"]
        self.assertIn(f"step {newest}", formed[-1])
        self.assertNotIn("checkpoints_lacking", self.cluster.event_kinds(job))
        self.assertGreater(len(self.cluster.checkpoint_files(self.cluster.leader_name(), job)), 0)

    def test_a_checkpoint_comes_before_the_rest_of_a_data_set(self):
        name = self.cluster.standby_names()[0]
        self.cluster.services[name].kill()
        self.cluster.service_flags = ("--pull_mib_per_s", "1")
        self.cluster.start_one(name)
        folder = os.path.join(self.cluster.folder, "large")
        os.mkdir(folder)
        with open(f"{folder}/text.txt", "wb") as file:
            file.write(os.urandom(64 << 20))  # 16 chunks, of which each takes four seconds
        self.cluster.cli("data", "push", folder, "--name", "large")
        kept = f"{self.cluster.data_dir_of(name)}/data"
        harness.wait_until(lambda: glob.glob(f"{kept}/chunks/*/*"), 30, "a chunk to be pulled")
        self.cluster.start_workers("w1")
        job = self.cluster.submit(**harness.small_spec(self.cluster.folder, nodes=1, min_nodes=1, max_nodes=1, total_steps=20, checkpoint_every=20))
        harness.wait_until(lambda: [f for f in self.cluster.checkpoint_files(name, job) if f.endswith("manifest.json")], 60, "its checkpoint to be pulled")
        self.assertLess(len(glob.glob(f"{kept}/chunks/*/*")), 16, "the data set is still on its way")

    def test_one_that_is_killed_goes_on_and_what_is_lacking_is_named(self):
        name = self.cluster.standby_names()[0]
        self.cluster.services[name].kill()
        self.cluster.service_flags = ("--pull_mib_per_s", "0.000001")
        self.cluster.start_one(name)
        self.cluster.start_workers("w1", slow_ms=50)
        job = self.cluster.submit(**harness.small_spec(self.cluster.folder, nodes=1, min_nodes=1, max_nodes=1, total_steps=100_000, checkpoint_every=10))
        harness.wait_until(lambda: [f for f in self.cluster.checkpoint_files(name, job) if f.endswith(".hfs")], 60, "a shard to be pulled")
        self.cluster.services[name].kill()
        self.assertEqual([], [f for f in self.cluster.checkpoint_files(name, job) if f.endswith("manifest.json")])
        self.cluster.start_one(name)
        before = self.cluster.url
        self.cluster.services[self.cluster.leader_name()].kill()
        self.cluster.leader = harness.wait_until(lambda: next((url for url in [self.cluster.find_leader()] if url not in (None, before)), None), 20,
                                                 "the other to lead")
        self.cluster.data_dir = self.cluster.data_dir_of(self.cluster.leader_name())
        self.assertIn("this service lacks", self.cluster.wait_event(job, "checkpoints_lacking")["message"])
        newest = self.cluster.job(job)["latest_checkpoint"]["step"]
        harness.wait_until(lambda: (self.cluster.job(job)["latest_checkpoint"] or {}).get("step", 0) > newest, 30,
                           "a checkpoint to be written at the new leader")


if __name__ == "__main__":
    unittest.main(verbosity=2)
