#!/usr/bin/python3
"""Jobs whose checkpoints are in S3 (s3rver, a real server): killed with everything else and resumed, with the state of a run that
nobody disturbed; resumed, begun with weights, looked at, verified and exported by their places. The key is written nowhere."""
import json
import os
import sys
import unittest

E2E = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [E2E, os.path.join(os.path.dirname(E2E), "storage", "s3")]
import harness  # noqa: E402
import servers  # noqa: E402

SECRET = "a-key-that-must-be-nowhere-0123456789"  # s3rver takes any


class JobsInS3(harness.ClusterTest):
    def setUp(self):
        for name, value in servers.environment(servers.S3rver.KEY, SECRET).items():
            if name.startswith("AWS_"):
                os.environ[name] = value
        super().setUp()
        self.server = servers.S3rver(self.cluster.folder + "/s3")
        self.addCleanup(self.server.stop)
        self.spec = harness.small_spec(self.cluster.folder)
        self.store = self.server.place("runs/a b+c")
        self.in_s3 = {**self.spec, "checkpoint_store": self.store}

    def place_of(self, job, more=""):
        path, settings = self.store.split("?")
        return f"{path}/{job}{more}?{settings}"

    def undisturbed_hash(self, **changes):
        job = self.cluster.submit(**{**self.spec, **changes})
        return self.cluster.wait_state(job, "succeeded")["state_hash"]

    def refused(self, **changes):
        status, problem = self.cluster.request("POST", "/v1/jobs", {**self.in_s3, **changes})
        self.assertNotEqual(201, status)
        return json.dumps(problem)

    def test_a_job_that_is_killed_with_everything_resumes_with_the_same_bits(self):
        self.cluster.start_workers("w1", "w2", slow_ms=20)
        for shard in ("none", "optimizer"):
            job = self.cluster.submit(**{**self.in_s3, "nodes": 2, "shard": shard, "replicas": 1})
            self.cluster.wait_event(job, "checkpoint_committed", containing="20")
            self.cluster.wait_step(job, 25)
            self.cluster.kill_everything()
            self.cluster.start_service()
            self.cluster.start_workers("w1", "w2")
            shown = self.cluster.wait_state(job, "succeeded")
            self.assertEqual(self.store, self.cluster.job(job)["spec"]["checkpoint_store"])
            self.assertEqual(self.undisturbed_hash(nodes=2), shown["state_hash"])
            said = self.cluster.cli("ckpt", "verify", job)
            self.assertIn("step 60: ok", said)
            rows = self.cluster.get(f"/v1/jobs/{job}/checkpoints")["checkpoints"]
            self.assertTrue(rows and all(row["store"] == self.store for row in rows), rows)

    def test_the_server_may_be_away_for_a_while(self):
        self.cluster.start_workers("w1", slow_ms=30)
        job = self.cluster.submit(**{**self.in_s3, "checkpoint_every": 10, "total_steps": 200})
        self.cluster.wait_event(job, "checkpoint_committed")
        self.server.stop()
        before = self.cluster.job(job)["step"]
        self.cluster.wait_step(job, before + 25)
        self.server.start()
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual((0, 200), (shown["restarts"], shown["latest_checkpoint"]["step"]))
        self.cluster.cli("ckpt", "verify", job)

    def test_checkpoints_are_named_by_their_places(self):
        self.cluster.start_workers("w1")
        job = self.cluster.submit(**{**self.in_s3, "keep_last": 0})
        self.cluster.wait_state(job, "succeeded")
        hashes = {row["step"]: row["state_hash"] for row in self.cluster.get(f"/v1/jobs/{job}/checkpoints")["checkpoints"]}
        for place in (self.place_of(job), f"job:{job}"):
            listed = self.cluster.cli_json("ckpt", "ls", place)["checkpoints"]
            self.assertEqual(hashes, {row["step"]: row["state_hash"] for row in listed})
        for place in (self.place_of(job, "@20"), self.place_of(job) + "@20", self.place_of(job, "/step-0000000020")):
            self.assertIn("step 20: ok", self.cluster.cli("ckpt", "verify", place))
        self.cluster.cli("ckpt", "export", self.place_of(job, "@20"), "--format", "safetensors", "--output", self.cluster.folder + "/model")
        self.assertIn("no-such-bucket", self.cluster.cli("ckpt", "ls", self.place_of(job).replace(servers.BUCKET, "no-such-bucket"), expect=2))

        resumed = self.cluster.submit(**{**self.in_s3, "resume_from": self.place_of(job, "@20")})
        self.assertEqual(hashes[60], self.cluster.wait_state(resumed, "succeeded")["state_hash"])
        tuned = [self.cluster.submit(**{**self.in_s3, "init_from": place}) for place in (self.place_of(job, "@20"), f"job:{job}@20")]
        first, second = (self.cluster.wait_state(one, "succeeded")["state_hash"] for one in tuned)
        self.assertEqual(first, second)
        status, ticket = self.cluster.request("POST", f"/v1/jobs/{job}/checkpoints/60/export", {"format": "safetensors"})
        self.assertIn(status, (200, 201), ticket)

    def test_a_service_without_credentials_leaves_the_verifying_to_workers(self):
        self.cluster.start_workers("w1")
        job = self.cluster.submit(**self.in_s3)
        state_hash = self.cluster.wait_state(job, "succeeded")["state_hash"]
        self.cluster.service.signal(9)
        self.cluster.service.wait_exit()
        self.cluster.start_service({"AWS_ACCESS_KEY_ID": ""})
        self.cluster.wait_workers("w1")
        resumed = self.cluster.submit(**{**self.in_s3, "resume_from": f"job:{job}@20"})
        self.assertEqual(state_hash, self.cluster.wait_state(resumed, "succeeded")["state_hash"])
        said = self.refused(resume_from=self.place_of(job, "@20"))
        self.assertIn("there are no credentials", said)

    def test_keys_are_written_nowhere_and_refused_in_a_place(self):
        self.cluster.start_workers("w1")
        job = self.cluster.submit(**self.in_s3)
        self.cluster.wait_state(job, "succeeded")
        for place in (f"s3://A:{SECRET}@bucket/a", f"s3://bucket/a?secret={SECRET}", f"s3://bucket?endpoint=http://A:{SECRET}@host"):
            self.assertIn("never part of a place", self.refused(checkpoint_store=place))
            self.assertIn("never part of a place", self.refused(resume_from=place))
            self.assertNotIn(SECRET, self.cluster.cli("ckpt", "ls", place, expect=2))
        wrong = self.cluster.cli("doctor", "--checkpoint_store", self.store, expect=None, environment={"AWS_ACCESS_KEY_ID": "NOBODY"})
        self.assertRegex(wrong, r"FAIL +bucket writable +.*InvalidAccessKeyId")
        right = self.cluster.cli("doctor", expect=None, environment={"HOLDFAST_CHECKPOINT_STORE": self.store})
        self.assertRegex(right, r"ok +bucket writable +s3://checkpoints/runs/a b\+c at http.* written, read back and removed in")
        self.cluster.kill_everything()
        found = []
        for path in servers.files_below(self.cluster.folder):
            with open(path, "rb") as file:
                if SECRET.encode() in file.read():
                    found.append(path)
        self.assertEqual([], found)


if __name__ == "__main__":
    servers.skip_without(servers.S3rver.is_installed(), "s3rver is not installed: run ops/setup --page")
    harness.main()
