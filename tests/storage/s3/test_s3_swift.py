#!/usr/bin/python3
"""Stores in S3 against Swift with its S3 interface: a server that was written by others for others, and that checks signatures,
dates and bodies by its own reading of Amazon's documentation."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from swift_server import Swift  # noqa: E402
from test_s3 import CONFORMANCE, drive  # noqa: E402


class OnSwift(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="holdfast_s3_")
        os.chmod(cls.folder.name, 0o755)
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = Swift(cls.folder.name + "/swift")
        cls.addClassCleanup(cls.server.stop)
        cls.server.make_bucket()

    def test_it_keeps_the_promises_of_every_store(self):
        for prefix in ("", "runs/a+b~c:d%20e/ä"):
            env = {**self.server.environment(), "HOLDFAST_TEST_STORE": self.server.place(prefix)}
            done = subprocess.run([CONFORMANCE], env=env, capture_output=True, text=True, timeout=300)
            self.assertEqual(0, done.returncode, done.stdout[-5000:] + self.server.logs())

    def test_a_wrong_key_and_bucket_are_said(self):
        env = self.server.environment()
        wrong = drive(self.server.place(), "open", env={**env, "AWS_SECRET_ACCESS_KEY": "wrong"})[-1]
        self.assertRegex(wrong["message"], "answers 403 SignatureDoesNotMatch")
        gone = drive(self.server.place().replace(servers.BUCKET, "no-such-bucket"), "open", env=env)[-1]
        self.assertRegex(gone["message"], "NoSuchBucket.*make the bucket")
        region = drive(self.server.place() + "&region=eu-1", "open", env=env)[-1]
        self.assertRegex(region["message"], "region")


if __name__ == "__main__":
    servers.skip_without(Swift.is_installed(), "Swift is not installed: run ops/setup --swift")
    unittest.main()
