#!/usr/bin/python3
"""A service that leads and one that stands by, with one database: the leader is killed, frozen and stopped, the database is killed;
training goes on, nothing that was answered is lost, and the job ends with the bits of one that nobody disturbed."""
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
import ledger  # noqa: E402
from postgresql_server import PostgresqlServer  # noqa: E402
from several_services import SeveralServices, SeveralServicesTest  # noqa: E402

STEPS = 60
SLOW_MS = 100


class Standbys(SeveralServicesTest):
    reference = None

    def begin(self):
        self.spec = harness.small_spec(self.cluster.folder, nodes=2, min_nodes=2, max_nodes=2, total_steps=STEPS)
        if Standbys.reference is None:
            self.cluster.start_workers("alone")
            alone = self.cluster.submit(**{**self.spec, "nodes": 1, "min_nodes": 1})
            Standbys.reference = self.cluster.wait_state(alone, "succeeded")["state_hash"]
            self.cluster.stop_workers()
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec)
        self.cluster.wait_step(job, 5)
        return job

    def lead_passes(self, before):
        """Waits until another service leads; returns the seconds that it took."""
        began = time.monotonic()

        def other():
            found = self.cluster.find_leader()
            return found if found and found != before else None

        self.cluster.leader = harness.wait_until(other, 20, "the one that stood by to lead")
        return time.monotonic() - began

    def succeed_undisturbed(self, job):
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(Standbys.reference, shown["state_hash"])
        self.assertEqual(0, shown["restarts"], "training was not to notice")
        self.assertEqual([], ledger.voided_rows(self.cluster, job))
        ledger.assert_every_microbatch_once(self, self.cluster, job, STEPS, self.spec["train_data_path"])

    def test_the_leader_is_killed(self):
        job = self.begin()
        before, name = self.cluster.url, self.cluster.leader_name()
        self.cluster.services[name].kill()
        self.lead_passes(before)
        second = self.cluster.cli("submit", "--name", "second", "--train_data_path", self.spec["train_data_path"], "--total_steps", "2",
                                  "--nodes", "2", "--n_layer", "1", "--n_head", "2", "--n_embd", "32", "--vocab_size", "256", "--block_size", "32",
                                  "--batch_size", "2", "--global_batch_size", "4")
        self.assertRegex(second, r"^j\d+\n$")
        self.cluster.start_one(name)  # it stands by now
        self.assertIn("holdfast_leads 0", harness.wait_until(lambda: self.metrics_of(name), 20, "the killed one to stand by"))
        self.succeed_undisturbed(job)

    def metrics_of(self, name):
        try:
            with harness.urllib.request.urlopen(f"{self.cluster.url_of(name)}/metrics", timeout=2) as reply:
                return reply.read().decode()
        except OSError:
            return ""

    def test_the_leader_freezes_and_wakes(self):
        job = self.begin()
        before, name = self.cluster.url, self.cluster.leader_name()
        self.cluster.services[name].signal(signal.SIGSTOP)
        self.lead_passes(before)
        self.assertIn(job, self.cluster.cli("ls"))
        self.cluster.services[name].signal(signal.SIGCONT)
        harness.wait_until(lambda: "holdfast_leads 0" in self.metrics_of(name), 20, "the one that woke to stand by")
        self.succeed_undisturbed(job)

    def test_the_leader_is_stopped_in_order(self):
        job = self.begin()
        before, name = self.cluster.url, self.cluster.leader_name()
        self.cluster.services[name].signal(signal.SIGTERM)
        self.lead_passes(before)
        self.assertEqual(0, self.cluster.services[name].wait_exit())
        self.succeed_undisturbed(job)

    def test_the_database_is_killed_and_comes_back(self):
        job = self.begin()
        self.cluster.database.kill()
        self.cluster.workers["w1"].wait_log("work goes on", 40)
        self.cluster.database.start()
        self.cluster.leader = None
        self.succeed_undisturbed(job)

    def test_the_database_fails_over_to_a_synchronous_replica(self):
        primary, replica = PostgresqlServer().make().start(), PostgresqlServer()
        self.addCleanup(primary.close)
        self.addCleanup(replica.close)
        replica.follow(primary, "second")
        primary.query("ALTER SYSTEM SET synchronous_standby_names = 'second'")
        primary.query("SELECT pg_reload_conf()")
        self.cluster.close(False)
        self.cluster = SeveralServices(primary)
        self.cluster.address = self.cluster.address.replace(f"host={primary.folder}&port={primary.port}",
                                                            f"host={primary.folder},{replica.folder}&port={primary.port},{replica.port}")
        self.cluster.start_service()
        job = self.begin()
        step = self.cluster.job(job)["step"]
        primary.kill()
        replica.promote()
        self.cluster.leader = None
        self.cluster.wait_step(job, step + 5)
        self.succeed_undisturbed(job)
        self.assertEqual("1000001", replica.query("SELECT term FROM leadership", "d1"))

    def test_a_service_with_other_tokens_is_refused(self):
        name = self.cluster.standby_names()[0]
        self.cluster.services[name].signal(signal.SIGTERM)
        self.cluster.services[name].wait_exit()
        os.unlink(os.path.join(self.cluster.data_dir_of(name), "worker.token"))
        self.cluster.start_one(name)
        self.assertEqual(2, self.cluster.services[name].wait_exit())
        self.assertIn("Copy its admin.token and worker.token here", self.cluster.services[name].log())

    def test_what_stands_by_says_who_leads(self):
        name = self.cluster.standby_names()[0]
        leader = self.cluster.url
        harness.wait_until(lambda: "holdfast_leads 0" in self.metrics_of(name), 20, "the other to stand by")
        self.cluster.leader = self.cluster.url_of(name)
        status, answer = self.cluster.request("POST", "/v1/jobs", {})
        self.assertEqual((503, "not_leader"), (status, answer["code"]))
        self.assertIn(leader, answer["detail"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
