#!/usr/bin/python3
"""Bad input gets an error that names the thing, the value and what to do; and nothing is lost by it."""
import http.server
import json
import os
import socket
import struct
import subprocess
import threading
import unittest

import harness


class BadInput(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.spec = harness.small_spec(self.cluster.folder, total_steps=5, warmup_steps=1)

    def says(self, text, *words):
        for word in words:
            self.assertIn(str(word), text)

    def flags(self, **changes):
        return [part for key, value in {**self.spec, **changes}.items() for part in (f"--{key}", str(value))]

    # --- the spec

    def test_every_wrong_field_is_named_at_once(self):
        bad = {**self.spec, "n_headd": 2, "batch_size": "four", "dtype": "float8", "total_steps": -1, "beta1": 1.5,
               "reduction": "exactly"}
        status, problem = self.cluster.request("POST", "/v1/jobs", bad)
        self.assertIn(status, (400, 422))
        named = {e["field"]: e["message"] for e in problem["errors"]}
        self.assertEqual({"n_headd", "batch_size", "dtype", "total_steps", "beta1", "reduction"}, set(named))
        self.says(named["dtype"], "float8", "bfloat16", "float32")
        self.assertEqual([], self.cluster.get("/v1/jobs")["jobs"])

    def test_the_command_line_names_every_wrong_field_and_exits_2(self):
        said = self.cluster.cli("submit", *self.flags(n_embd=400, n_head=6, dtype="float8"), expect=2)
        self.says(said, "n_head", "400", "6", "dtype", "float8")

    def test_an_unknown_flag_or_command_is_named(self):
        self.says(self.cluster.cli("submit", *self.flags(), "--learning_rat", 1, expect=2), "learning_rat")
        self.says(self.cluster.cli("subnit", expect=2), "subnit")

    def test_a_body_that_is_no_json_is_refused(self):
        status, problem = self.cluster.request("POST", "/v1/jobs", b"{oops")
        self.assertEqual((400, 400), (status, problem["status"]))

    def test_what_is_not_there_is_a_problem_too(self):
        for method, path, expected in (("GET", "/v1/jobs/j999", 404), ("GET", "/v1/nothing", 404), ("DELETE", "/v1/jobs", 405),
                                       ("POST", "/v1/jobs/j999/stop", 404)):
            status, problem = self.cluster.request(method, path)
            self.assertEqual((expected, expected), (status, problem["status"]), path)
            self.assertTrue(problem["title"], path)
        self.says(self.cluster.cli("show", "j999", expect=2), "j999")

    def test_an_action_in_the_wrong_state_is_a_conflict(self):
        job = self.cluster.submit(**self.spec)
        self.cluster.post(job, "stop")
        self.cluster.wait_state(job, "cancelled")
        self.assertEqual(409, self.cluster.request("POST", f"/v1/jobs/{job}/pause", {})[0])

    # --- data

    def refused_for_data(self, **changes):
        self.cluster.start_workers("w1")
        job = self.cluster.submit(**{**self.spec, **changes})
        message = self.cluster.wait_event(job, "worker_refused")["message"]
        shown = self.cluster.job(job)
        self.assertNotIn(shown["state"], ("running", "succeeded"))
        self.assertTrue(shown["reason"])
        return message

    def test_a_missing_data_file(self):
        missing = os.path.join(self.cluster.folder, "missing.bin")
        self.says(self.refused_for_data(train_data_path=missing), missing)

    def test_a_truncated_llm_c_file(self):
        path = os.path.join(self.cluster.folder, "llmc.bin")
        with open(path, "wb") as file:
            file.write(struct.pack("<256i", 20240520, 1, 5000, *([0] * 253)) + bytes(2 * 1234))
        self.says(self.refused_for_data(train_data_path=path), path, "5000", str(1024 + 2 * 1234), "truncated")

    def test_a_file_of_odd_size(self):
        path = os.path.join(self.cluster.folder, "odd.bin")
        with open(path, "wb") as file:
            file.write(bytes(4097))
        self.says(self.refused_for_data(train_data_path=path), path, "4097")

    def test_a_token_beyond_the_vocabulary(self):
        path = harness.write_tokens(os.path.join(self.cluster.folder, "beyond.bin"), b"a" * 5000)
        with open(path, "r+b") as file:
            file.seek(2 * 617)
            file.write(struct.pack("<H", 300))
        self.says(self.refused_for_data(train_data_path=path), path, "300", "1234", "256")

    def test_data_info_describes_a_file_and_names_what_is_wrong(self):
        self.says(self.cluster.cli("data", "info", self.spec["train_data_path"]), "10358", "nanogpt")
        missing = os.path.join(self.cluster.folder, "missing.bin")
        self.says(self.cluster.cli("data", "info", missing, expect=2), missing)

    # --- programs that meet the wrong counterpart

    def test_a_port_in_use_is_named(self):
        second = self.cluster.spawn("second", [f"{harness.BIN}/holdfast", "serve", "--listen", f"127.0.0.1:{self.cluster.port}",
                                               "--data_dir", os.path.join(self.cluster.folder, "other")])
        self.assertNotEqual(0, second.wait_exit())
        self.says(second.log(), str(self.cluster.port), "--listen")

    def test_listening_beyond_this_machine_in_the_clear_is_refused(self):
        open_folder = os.path.join(self.cluster.folder, "open")
        for flags, said in ((("--listen", "0.0.0.0:0"), ("0.0.0.0:0", "--tls_cert", "--allow_insecure")),
                            (("--listen", "127.0.0.1:0", "--tls_cert", "x.pem"), ("--tls_key",)),
                            (("--listen", "127.0.0.1:0", "--tls_cert", "x.pem", "--tls_key", "y.pem"), ("x.pem",))):
            second = self.cluster.spawn("second", [f"{harness.BIN}/holdfast", "serve", "--data_dir", open_folder, *flags])
            self.assertEqual(2, second.wait_exit())
            self.says(second.log(), *said)
        self.assertNotIn("holdfast serves", second.log())

    def test_a_submitter_leads_no_worker_outside_its_folders(self):
        outside = os.path.join(self.cluster.folder, "outside")
        inside = os.path.join(self.cluster.folder, "inside")
        os.mkdir(inside)
        self.cluster.start_worker("w1", arguments=("--data_root", inside, "--checkpoint_root", inside))
        self.cluster.wait_workers("w1")
        job = self.cluster.submit(**self.spec)
        harness.wait_until(lambda: "--data_root" in self.cluster.job(job)["reason"], 20, "the file to be refused")
        harness.write_training_files(inside)
        named = {**self.spec, "train_data_path": "train.bin", "valid_data_path": "val.bin", "checkpoint_store": outside}
        job = self.cluster.submit(**named)
        harness.wait_until(lambda: "--checkpoint_root" in self.cluster.job(job)["reason"], 20, "the folder to be refused")
        self.assertFalse(os.path.exists(outside))
        done = self.cluster.submit(**{**named, "checkpoint_store": inside + "/checkpoints", "total_steps": 3})
        self.cluster.wait_state(done, "succeeded")

    def test_a_data_directory_in_use_is_named(self):
        second = self.cluster.spawn("second", [f"{harness.BIN}/holdfast", "serve", "--listen", "127.0.0.1:0",
                                               "--data_dir", self.cluster.data_dir])
        self.assertNotEqual(0, second.wait_exit())
        self.says(second.log(), self.cluster.data_dir)

    def test_a_wrong_token_is_refused_everywhere(self):
        for token in ("wrong", ""):
            status, problem = self.cluster.request("GET", "/v1/jobs", token=token)
            self.assertEqual((401, 401), (status, problem["status"]))
        self.says(self.cluster.cli("ls", expect=4, environment={"HOLDFAST_TOKEN": "wrong"}), "token")
        status, _ = self.cluster.request("POST", "/v1/jobs", self.spec, token=self.cluster.token("worker"))
        self.assertEqual(403, status, "a worker's token submits no jobs")
        worker = self.cluster.start_worker("w1", environment={"HOLDFAST_TOKEN": "wrong"})
        worker.wait_log("token")

    def test_a_stranger_is_refused_before_the_body_is_sent(self):
        host, port = self.cluster.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(b"PUT /v1/jobs/j1/objects/a HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer wrong\r\nContent-Length: 100000000\r\n\r\n")
            self.assertIn(b" 401 ", connection.recv(100), "the answer does not wait for the bytes")

    def test_a_service_that_is_not_there_exits_3(self):
        nowhere = f"http://127.0.0.1:{harness.free_port()}"
        self.says(self.cluster.cli("ls", expect=3, environment={"HOLDFAST_SERVER": nowhere}), nowhere)

    def test_the_service_refuses_a_worker_of_another_version(self):
        status, problem = self.cluster.request("POST", "/v1/workers", {
            "protocol_version": 99, "version": "9.9.9", "name": "w9", "incarnation": "i9", "node": "n", "pid": 1,
            "address": "127.0.0.1:1", "device": "cpu", "device_model": "m", "numerics": "cpu", "memory_bytes": 1, "threads": 1},
            token=self.cluster.token("worker"))
        self.assertIn(status, (400, 409, 426))
        self.says(problem["detail"], "99", "1")

    def test_a_worker_tells_that_the_service_is_of_another_version(self):
        detail = "this service speaks protocol 2; worker w1 speaks protocol 1: install the same release on both"

        class OtherVersion(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.dumps({"type": "about:blank", "status": 409, "title": "Version mismatch", "detail": detail,
                                   "code": "protocol_version"}).encode()
                self.send_response(409)
                self.send_header("Content-Type", "application/problem+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OtherVersion) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.cluster.url = f"http://127.0.0.1:{server.server_port}"
            worker = self.cluster.start_worker("w1")
            worker.wait_log(detail)
            self.assertNotEqual(0, worker.wait_exit(), "trying again would not help")
            server.shutdown()

    def test_an_instruction_set_that_is_none_ends_the_worker_for_good(self):
        worker = self.cluster.start_worker("w1", environment={"HOLDFAST_CPU_ISA": "sse9"})
        self.assertEqual(2, worker.wait_exit(), "trying again would not help")
        self.says(worker.log(), "HOLDFAST_CPU_ISA=sse9", "avx2")

    def test_help_has_an_example_for_each_command(self):
        for command in ("serve", "submit", "ls", "show", "logs", "events", "stop", "pause", "resume", "wait", "scale", "nodes",
                        "drain", "checkpoints", "ckpt", "data", "sample", "audit"):
            self.says(self.cluster.cli(command, "--help").lower(), "example", f"holdfast {command}")
        said = subprocess.run([f"{harness.BIN}/holdfast-worker", "--help"], capture_output=True, text=True, check=True).stdout
        self.says(said.lower(), "example", "holdfast-worker")

    def test_text_in_and_tokens_out(self):
        text = os.path.join(self.cluster.folder, "text")
        os.mkdir(text)
        with open(os.path.join(text, "a.txt"), "w", encoding="utf-8") as file:
            for number in range(300):
                file.write(f"Paragraph {number}: the rope holds fast.\n第{number}段：绳子系得很牢。\n\n")
        for tokenizer in (["--tokenizer", "bytes"], ["--vocab_size", 320]):
            out = os.path.join(self.cluster.folder, "-".join(map(str, tokenizer)).strip("-"))
            self.cluster.cli("data", "prepare", text, "--output", out, *tokenizer)
            for name in ("train.bin", "val.bin"):
                self.assertGreater(os.path.getsize(os.path.join(out, name)), 100)
        bad = os.path.join(self.cluster.folder, "latin1.txt")
        with open(bad, "wb") as file:
            file.write("café\n".encode("latin-1") * 100)
        self.says(self.cluster.cli("data", "prepare", bad, "--output", os.path.join(self.cluster.folder, "bad"), expect=2), bad, "UTF-8")


if __name__ == "__main__":
    unittest.TestCase.longMessage = True
    harness.main()
