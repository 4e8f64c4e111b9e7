#!/usr/bin/python3
"""Stores in S3: keys that a machine's metadata service gives, and certificates that the environment's bundle has."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hostile_server import KEY, SECRET, HostileServer  # noqa: E402
from test_s3_faults import drive  # noqa: E402


class Metadata:
    """The service that gives a machine's role its keys; `silent`: it answers nothing of use."""

    def __init__(self):
        self.asked = asked = []
        self.silent = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self):
                self.say("token-1" if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else "", 500 if outer.silent else 200)

            def do_GET(self):
                asked.append(self.path)
                if self.headers.get("X-aws-ec2-metadata-token") != "token-1":
                    return self.say("", 401)
                if self.path.endswith("/security-credentials/"):
                    return self.say("trainer\n", 200)
                soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
                return self.say(json.dumps({"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": "session", "Expiration": soon}), 200)

            def say(self, text, status):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass
        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()
        self.env = {"AWS_ACCESS_KEY_ID": "", "AWS_EC2_METADATA_DISABLED": "",
                    "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{self.http.server_address[1]}"}

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


class RoleOfTheMachine(unittest.TestCase):
    def setUp(self):
        self.metadata, self.server = Metadata(), HostileServer()
        self.addCleanup(self.server.stop)

    def test_the_metadata_service_gives_keys_that_end(self):
        answers = drive(self.server.place(), "put", "x", 10, ",", "get", "x", **self.metadata.env)
        self.assertTrue(all(one["ok"] for one in answers), answers)
        self.assertEqual({"session"}, {one.headers.get("x-amz-security-token") for one in self.server.requests})
        self.assertEqual(2, len(self.metadata.asked), "it was asked once, for the role's name and its keys")
        self.metadata.stop()
        none = drive(self.server.place(), "open", **self.metadata.env)[-1]
        self.assertEqual("refused", none["code"])
        self.assertRegex(none["message"], "there are no credentials.*as this machine's role: http://127.0.0.1")

    def test_keys_that_cannot_be_had_again_for_a_moment_are_no_refusal(self):
        def expired(request):
            if request.kind == "PUT" and request.key.endswith("/y"):
                self.metadata.silent = True
                request.error(403, "ExpiredToken", "The token has expired.")
        self.server.before = expired
        first, second = drive(self.server.place(), "put", "x", 10, ",", "put", "y", 10, **self.metadata.env)
        self.assertTrue(first["ok"], first)
        self.assertEqual("unavailable", second["code"], "the same try a minute later would succeed")
        self.metadata.stop()


class Tls(unittest.TestCase):
    def test_the_servers_certificate_is_checked_against_the_bundle_of_the_environment(self):
        with tempfile.TemporaryDirectory(prefix="holdfast_s3_") as folder:
            key, certificate = folder + "/key.pem", folder + "/certificate.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                            "-subj", "/CN=holdfast test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                           check=True, capture_output=True)
            server = HostileServer(tls=(certificate, key))
            refused = drive(server.place(), "open", AWS_CA_BUNDLE="", CURL_CA_BUNDLE="", SSL_CERT_FILE="")[-1]
            self.assertRegex(refused["message"], "certificate was not accepted.*AWS_CA_BUNDLE")
            answers = drive(server.place(), "put", "x.hfs", 100000, ",", "get", "x.hfs", AWS_CA_BUNDLE=certificate)
            self.assertTrue(all(one["ok"] for one in answers), answers)
            self.assertEqual({"UNSIGNED-PAYLOAD"}, {one.headers.get("x-amz-content-sha256") for one in server.requests})
            server.stop()


if __name__ == "__main__":
    unittest.main()
