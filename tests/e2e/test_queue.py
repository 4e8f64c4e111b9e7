#!/usr/bin/python3
"""Several jobs: preemption, requirements, dependent jobs, a bound on the running time, retries. And the bits stay the same."""
import glob
import os

import harness
import ledger

SLOW_MS = 80  # a step


class Queue(harness.ClusterTest):
    reference = None

    def setUp(self):
        super().setUp()
        self.spec = harness.small_spec(self.cluster.folder)
        self.short = {**self.spec, "total_steps": 10, "warmup_steps": 1}
        if Queue.reference is None:
            self.cluster.start_workers("alone")
            Queue.reference = self.cluster.wait_state(self.cluster.submit(**self.spec), "succeeded")["state_hash"]
            self.cluster.stop_workers()

    def succeed_with_the_same_bits(self, job):
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(self.reference, shown["state_hash"])
        return shown

    def waits_for(self, job, kind, containing="", timeout_s=30):
        def there():
            waits = self.cluster.job(job)["waits_for"]
            return waits if waits and waits["kind"] == kind and containing in waits["text"] else None

        return harness.wait_until(there, timeout_s, f"{job} to wait for {kind} with '{containing}'")

    @staticmethod
    def flip_a_bit(path):
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes((byte[0] ^ 4,)))

    # --- priorities

    def test_a_preempted_job_comes_back_and_ends_with_the_same_bits(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        low = self.cluster.submit(**self.spec, nodes=2, min_nodes=2, name="low")
        self.cluster.wait_step(low, 10)
        high = self.cluster.submit(**self.short, nodes=2, min_nodes=2, name="high", priority=5)
        waiting = self.cluster.wait_state(low, "waiting")
        self.assertIn(f"preempted by {high} (priority 5)", waiting["reason"])
        self.assertEqual(waiting["step"], waiting["latest_checkpoint"]["step"], "no step is lost by it")
        self.cluster.wait_state(high, "succeeded")
        self.assertGreater(60, waiting["step"], "else nothing was preempted")
        shown = self.succeed_with_the_same_bits(low)
        self.assertEqual((0, 1), (shown["restarts"], shown["preemptions"]))
        self.assertEqual([], ledger.voided_rows(self.cluster, low))
        ledger.assert_every_microbatch_once(self, self.cluster, low, 60, self.spec["train_data_path"])

    def test_a_job_shrinks_to_its_minimum_for_a_higher_one(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        low = self.cluster.submit(**self.spec, nodes=2, min_nodes=1)
        self.cluster.wait_step(low, 10)
        self.cluster.crawl()
        high = self.cluster.submit(**self.short, nodes=1, max_nodes=1, priority=5)
        self.cluster.wait_state(high, "running")
        self.assertEqual(1, harness.wait_until(lambda: self.cluster.job(low)["world_size"], 20, "the lower one to go on"))
        self.cluster.hurry()
        self.cluster.wait_state(high, "succeeded")
        shown = self.succeed_with_the_same_bits(low)
        self.assertEqual((0, 0), (shown["restarts"], shown["preemptions"]))

    def test_equal_jobs_share_the_extra_workers(self):
        self.cluster.start_workers("w1", "w2", "w3", "w4", slow_ms=SLOW_MS)
        self.cluster.crawl()
        jobs = [self.cluster.submit(**self.spec, nodes=1, max_nodes=4)]
        harness.wait_until(lambda: self.cluster.job(jobs[0])["world_size"] == 4, 30, "the first job to have all")
        jobs.append(self.cluster.submit(**self.spec, nodes=1, max_nodes=4))
        harness.wait_until(lambda: [self.cluster.job(job)["world_size"] for job in jobs] == [2, 2], 60, "each to have two")
        self.cluster.hurry()
        for job in jobs:
            self.assertEqual(0, self.succeed_with_the_same_bits(job)["restarts"])

    # --- what workers must have

    def test_a_job_goes_to_workers_that_have_what_it_requires_and_says_what_is_missing(self):
        self.cluster.start_worker("w1", arguments=("--labels", "zone=a,rack=3"))
        self.cluster.wait_workers("w1")
        said = self.cluster.cli("submit", *[p for k, v in self.short.items() for p in (f"--{k}", str(v))],
                                "--requires", "zone=b", "--requires", "device=cpu", "--json")
        job = harness.json.loads(said)["id"]
        waits = self.waits_for(job, "workers", "the only worker does not satisfy what the job requires: zone=b (1 has a)")
        self.assertEqual((1, 0), (waits["needed"], waits["there"]))
        self.cluster.start_worker("w2", arguments=("--labels", "zone=b"))
        self.cluster.wait_state(job, "succeeded")
        self.assertEqual({"w2"}, {row["worker"] for row in self.cluster.get(f"/v1/jobs/{job}/ledger")["rows"]})
        self.assertIn("rack=3,zone=a", self.cluster.cli("nodes"))

    # --- one after the other

    def test_a_chain_of_jobs_and_what_becomes_of_it_when_a_link_breaks(self):
        first = self.cluster.submit(**self.short, name="first")
        second = self.cluster.submit(**{**self.spec, "after": "first", "resume_from": f"job:{first}"})
        third = self.cluster.submit(**self.short, after=second)
        fourth = self.cluster.submit(**self.short, after=third)
        self.waits_for(second, "job", f"waiting for job {first} to succeed")
        self.cluster.start_workers("w1", slow_ms=SLOW_MS)
        self.cluster.wait_step(first, 3)
        self.cluster.kill_everything()
        self.cluster.start_service()
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        ended = self.cluster.wait_state(first, "succeeded")["finished_at"]
        self.cluster.wait_state(second, "running", "succeeded")
        self.assertLess(ended, self.cluster.job(second)["started_at"])
        self.assertEqual(11, self.cluster.get(f"/v1/jobs/{second}/ledger")["first_step"], "from where the first ended")
        self.cluster.wait_state(second, "succeeded")
        self.cluster.wait_state(third, "succeeded")
        self.cluster.wait_state(fourth, "succeeded")

    def test_a_job_fails_when_the_one_before_it_was_cancelled(self):
        first = self.cluster.submit(**self.spec)
        second = self.cluster.submit(**self.spec, after=first)
        self.cluster.cli("stop", first)
        failed = self.cluster.wait_state(second, "failed")
        self.assertIn(f"job {first}, which this one comes after, was cancelled", failed["reason"])
        data = self.spec["train_data_path"]
        self.assertIn("no job \"nobody\"", self.cluster.cli("submit", "--train_data_path", data, "--after", "nobody", expect=2))

    # --- time and failures

    def test_max_runtime_counts_over_a_death_of_the_service_and_the_job_goes_on_when_submitted_again(self):
        self.cluster.start_workers("w1", slow_ms=SLOW_MS)
        self.cluster.crawl()
        job = self.cluster.submit(**self.spec, max_runtime=4)
        self.cluster.wait_step(job, 2)
        self.cluster.service.kill()
        self.cluster.start_service()
        ended = self.cluster.wait_state(job, "failed")
        self.assertIn("max_runtime of 4 s is over", ended["reason"])
        self.assertEqual(ended["step"], ended["latest_checkpoint"]["step"])
        self.assertGreaterEqual(ended["running_s"], 4)
        self.assertLess(ended["step"], self.spec["total_steps"])
        self.cluster.hurry()
        self.succeed_with_the_same_bits(self.cluster.submit(**self.spec, resume_from=f"job:{job}"))

    def test_a_job_that_failed_begins_again_by_itself(self):
        self.cluster.start_workers("w1")
        first = self.cluster.submit(**self.spec)
        self.cluster.wait_state(first, "succeeded")
        self.cluster.stop_workers()
        job = self.cluster.submit(**self.spec, resume_from=f"job:{first}@20", retries=3, retry_delay=2)
        shard = glob.glob(f"{self.cluster.data_dir}/**/step-0000000020/shard-*", recursive=True)[0]
        self.flip_a_bit(shard)  # after it was verified, and before it is read
        self.cluster.start_workers("w1")
        self.waits_for(job, "retry", " of 3")
        self.flip_a_bit(shard)
        shown = self.succeed_with_the_same_bits(job)
        self.assertGreaterEqual(shown["retries_done"], 1)
        self.assertIn("job_retries", self.cluster.event_kinds(job))


if __name__ == "__main__":
    harness.main()
