#!/usr/bin/python3
"""Stores in S3 against s3rver, a real server: the promises of every object store, keys and prefixes with odd characters, wrong
buckets and keys, kill -9 of the server, and what the folder on its disk has at the end."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402

DRIVER = os.environ.get("HOLDFAST_S3_DRIVER", "")
CONFORMANCE = os.environ.get("HOLDFAST_CONFORMANCE", "")


def drive(place, *words, env):
    """The driver's answers, one for each command."""
    done = subprocess.run([DRIVER, place, *map(str, words)], env=env, capture_output=True, text=True, timeout=120)
    assert done.stderr == "" and done.stdout, f"{words}: {done.returncode} {done.stdout} {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


class S3(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="holdfast_s3_")
        cls.server = servers.S3rver(cls.folder.name + "/data")
        cls.env = cls.server.environment()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def drive(self, place, *words, **more):
        return drive(place, *words, env={**self.env, **more})

    def fails(self, place, *words, **more):
        answer = self.drive(place, *words, **more)[-1]
        self.assertFalse(answer["ok"], answer)
        return answer

    def test_it_keeps_the_promises_of_every_store(self):
        for prefix in ("", "runs/a+b~c:d%20e/ä"):
            # s3rver writes over an object in place, where S3 replaces it: Swift is asked for that (test_s3_swift.py).
            done = subprocess.run([CONFORMANCE, "--gtest_filter=-*AtOnce*"], env={**self.env, "HOLDFAST_TEST_STORE": self.server.place(prefix)}, capture_output=True,
                                  text=True, timeout=300)
            self.assertEqual(0, done.returncode, done.stdout[-5000:])
        self.assertTrue(os.path.isdir(os.path.join(self.server.folder, servers.BUCKET, "runs/a+b~c:d%20e")))

    def test_a_wrong_key_bucket_or_endpoint_is_said(self):
        # s3rver does not compute the signature: Swift (test_s3_swift.py) and the hostile server do.
        wrong = self.fails(self.server.place(), "open", AWS_ACCESS_KEY_ID="NOBODY")
        self.assertEqual("unavailable", wrong["code"])
        self.assertRegex(wrong["message"], "answers 403 InvalidAccessKeyId.*look at AWS_ACCESS_KEY_ID")
        gone = self.fails(self.server.place().replace(servers.BUCKET, "no-such-bucket"), "put", "a", 1)
        self.assertRegex(gone["message"], "NoSuchBucket.*make the bucket, or name another")
        none = self.fails(self.server.place(), "open", AWS_SECRET_ACCESS_KEY="")
        self.assertEqual("refused", none["code"])
        self.assertRegex(none["message"], "no credentials.*AWS_ACCESS_KEY_ID.*/nowhere")
        port = servers.free_ports(1)[0]
        away = self.fails(f"s3://{servers.BUCKET}?endpoint=http://127.0.0.1:{port}", "put", "a", 1, DRIVER_DEADLINE_MS="1500")
        self.assertEqual("unavailable", away["code"])
        self.assertRegex(away["message"], r"cannot write a \(1 bytes\) in s3://checkpoints at http.*connect to.*tried \d+ times")

    def test_profiles_of_files_are_taken(self):
        at = os.path.join(self.folder.name, "aws")
        os.makedirs(at)
        with open(at + "/credentials", "w") as out:
            out.write("[default]\naws_access_key_id = A\naws_secret_access_key = B\n"
                      "[x]\naws_access_key_id = S3RVER\naws_secret_access_key = S3RVER\n")
        files = {"AWS_ACCESS_KEY_ID": "", "AWS_SHARED_CREDENTIALS_FILE": at + "/credentials"}
        self.assertTrue(self.drive(self.server.place("p"), "put", "a", 3, AWS_PROFILE="x", **files)[-1]["ok"])
        self.fails(self.server.place("p"), "open", **files)

    def test_the_endpoint_may_come_from_the_environment(self):
        said = self.drive(f"s3://{servers.BUCKET}/q", "put", "a", 3, ",", "open", AWS_ENDPOINT_URL=self.server.endpoint)
        self.assertEqual(f"s3://{servers.BUCKET}/q at {self.server.endpoint}", said[-1]["place"])

    def test_a_server_that_is_killed_is_waited_for(self):
        place = self.server.place("killed")
        self.drive(place, "write", 10, 1, 1)
        self.server.stop()
        writer = subprocess.Popen([DRIVER, place, "write", "20", "2", "1"], env=self.env, stdout=subprocess.PIPE, text=True)
        self.server.start()
        out, _ = writer.communicate(timeout=120)
        self.assertTrue(json.loads(out)["ok"], out)
        self.assertTrue(all(one["ok"] for one in self.drive(place, "holds", 10, 1, ",", "holds", 20, 2)))

    def test_objects_on_the_servers_disk_that_are_damaged_are_named_and_mended_by_a_put(self):
        place = self.server.place("damaged")
        self.drive(place, "write", 10, 1, 1)
        shards = [path for path in servers.files_below(os.path.join(self.server.folder, servers.BUCKET, "damaged"))
                  if ".hfs._S3rver_object" in path]
        with open(shards[0], "r+b") as shard:
            shard.seek(200)
            shard.write(b"holdfast")
        bad = self.fails(place, "holds", 10, 1)
        self.assertIn("was altered there", bad["message"])
        with open(shards[0], "r+b") as shard:
            shard.truncate(100)
        self.fails(place, "holds", 10, 1)
        # The next writer of the step finds it shorter, and sends it again.
        self.drive(place, "write", 10, 1, 1)
        self.assertTrue(self.drive(place, "holds", 10, 1)[-1]["ok"])


if __name__ == "__main__":
    servers.skip_without(servers.S3rver.is_installed(), "s3rver is not installed: run ops/setup --page")
    unittest.main()
