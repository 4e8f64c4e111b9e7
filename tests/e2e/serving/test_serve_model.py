#!/usr/bin/python3
"""A trained model is served in the form of OpenAI's API, and OpenAI's own client gets its texts, streams and errors."""
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
import texts  # noqa: E402
from processes import wait_until  # noqa: E402
from trained import TrainedCase  # noqa: E402

TOKEN = "a-token-of-this-test"


class ServeModel(TrainedCase):
    @classmethod
    def train(cls):
        cls.cluster.start_workers("w1")
        cls.job = cls.cluster.submit(**cls.spec(total_steps=20, checkpoint_every=10))
        cls.cluster.wait_state(cls.job, "succeeded")
        cls.tokens = os.path.join(cls.cluster.folder, "tokens")
        with open(cls.tokens, "w", encoding="utf-8") as file:
            file.write(f"{TOKEN}\n")

    def serve(self, *more, place=None):
        """(the server's process, its base URL)"""
        arguments = ["serve-model", place or f"job:{self.job}", "--tokenizer", self.data, "--listen", "127.0.0.1:0", "--token_file", self.tokens, *more]
        server = self.cluster.spawn("serving", [f"{harness.BIN}/holdfast", *map(str, arguments)], {"HOLDFAST_SERVER": self.cluster.server})
        self.addCleanup(server.kill)
        said = lambda: re.search(r" at (http://\S+/v1): ", server.log())  # noqa: E731
        wait_until(lambda: said() or not server.running(), 60, "the model to be served")
        self.assertTrue(said(), server.log())
        return server, said().group(1)

    def ask(self, base, fields):
        request = urllib.request.Request(f"{base}/completions", json.dumps({"model": self.job, **fields}).encode(), {"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    @staticmethod
    def metrics(base):
        with urllib.request.urlopen(urllib.request.Request(f"{base.removesuffix('/v1')}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}), timeout=10) as answer:
            return answer.read().decode()

    def test_openais_own_client(self):
        server, base = self.serve()
        self.assertEqual(self.job, texts.openais_client(self, base, TOKEN))
        self.assertIn('holdfast_serve_requests_total{result="refused"} 4', self.metrics(base))  # three of them requests, one without a right token
        server.signal(signal.SIGTERM)
        self.assertEqual(0, server.wait_exit())
        self.assertNotIn("The software", server.log(), "no prompt is in the log")

    def test_a_reader_that_does_not_read_is_in_nobodys_way(self):
        server, base = self.serve("--log_prompts", place=f"job:{self.job}@latest")
        host, port = re.match(r"http://([^:/]+):(\d+)", base).groups()
        metric = lambda name: texts.metric(self.metrics(base), name)  # noqa: E731
        right = self.ask(base, {"prompt": "THE ", "max_tokens": 20, "seed": 1})["choices"]
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect((host, int(port)))
            body = json.dumps({"model": self.job, "prompt": "unread ", "max_tokens": 40, "n": 128, "logprobs": 20, "stream": True}).encode()
            slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s" % (TOKEN.encode(), len(body), body))
            wait_until(lambda: metric('holdfast_serve_texts{state="writing"}') > 0, 30, "the texts that nobody reads")
            for _ in range(5):
                self.assertEqual(right, self.ask(base, {"prompt": "THE ", "max_tokens": 20, "seed": 1})["choices"])
            wait_until(lambda: metric("holdfast_serve_abandoned_total") == 1, 60, "the reader to be given up")
        wait_until(lambda: metric('holdfast_serve_pages{pages="held"}') == 0, 30, "its pages to be free")
        self.assertIn('"prompt":"unread "', server.log(), "asked for by --log_prompts")

    def test_one_text_for_a_request_whatever_else_is_asked_and_in_whichever_life(self):
        chosen = random.Random(5)
        requests = [{"prompt": "".join(chosen.choices("abc THE and\n", k=chosen.randint(1, 60))), "max_tokens": chosen.randint(1, 30), "seed": chosen.randint(0, 9),
                     "temperature": chosen.choice([0, 0.7, 1.2]), "top_p": chosen.choice([1, 0.8]), "n": chosen.randint(1, 3)} for _ in range(40)]
        server, base = self.serve("--batch_tokens", 16, "--cache_mib", 1, "--threads", 1)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            together = list(pool.map(lambda fields: self.ask(base, fields)["choices"], requests))
        server.kill()
        _, base = self.serve("--threads", 2)
        for fields, choices in zip(requests, together):
            self.assertEqual(choices, self.ask(base, fields)["choices"])

    def stage(self, layers, *more):
        """(the stage's process, its URL)"""
        arguments = ["serve-stage", "--from", f"job:{self.job}", "--layers", layers, "--listen", "127.0.0.1:0", "--token_file", self.tokens, "--threads", 1, *more]
        stage = self.cluster.spawn(f"stage{layers}", [f"{harness.BIN}/holdfast", *map(str, arguments)], {"HOLDFAST_SERVER": self.cluster.server})
        self.addCleanup(stage.kill)
        said = lambda: re.search(r" at (http://\S+): ", stage.log())  # noqa: E731
        wait_until(lambda: said() or not stage.running(), 60, "the stage")
        self.assertTrue(said(), stage.log())
        return stage, said().group(1)

    def test_a_model_that_is_divided_between_two_programs_writes_the_same_texts(self):
        fields = [{"prompt": "THE SOFTWARE " * (1 + number % 4), "max_tokens": 25, "seed": number, "n": 2, "logprobs": 1} for number in range(12)]
        whole, base = self.serve()
        expected = [self.ask(base, one) for one in fields]
        whole.kill()
        stage, url = self.stage("0:1")
        self.assertIn("Layers 0 to 0 of", stage.log())
        server, base = self.serve("--stage", url, "--stage_token_file", self.tokens)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            divided = list(pool.map(lambda one: self.ask(base, one), fields))
        for one, other in zip(expected, divided):
            self.assertEqual([one[key] for key in ("choices", "system_fingerprint")], [other[key] for key in ("choices", "system_fingerprint")])
        for wrong, words in ((["--stage", url], "Bearer TOKEN"), (["--stage", url, "--stage_token_file", self.tokens, "--precision", "bfloat16"], "start both with the same"),
                             (["--stage", url, "--follow"], "leave out --follow")):
            refused = self.cluster.cli("serve-model", "--from", f"job:{self.job}", "--tokenizer", self.data, "--listen", "127.0.0.1:0", *wrong, expect=2)
            self.assertIn(words, refused)
        self.assertIn("expected FIRST:END, such as 0:1", self.cluster.cli("serve-stage", "--from", f"job:{self.job}", "--layers", "0:2", expect=2))
        stage.kill()
        self.assertEqual({"lost"}, {choice["finish_reason"] for choice in self.ask(base, fields[0] | {"prompt": "another"})["choices"]})
        self.assertEqual(1, server.wait_exit())
        self.assertIn("a stage is lost: ", server.log())

    def test_follow_answers_with_the_newest_checkpoint(self):
        kept = os.path.join(self.cluster.data_dir, "checkpoints", self.job)
        place = os.path.join(self.cluster.folder, "newest")
        older, newer = sorted(os.listdir(kept))[-2:]
        shutil.copytree(os.path.join(kept, older), os.path.join(place, older))
        server, base = self.serve("--follow", place=place)
        fields = {"prompt": "THE ", "max_tokens": 20, "seed": 1}
        before = self.ask(base, fields)
        # As a job that trains leaves it: the manifest comes last.
        shutil.copytree(os.path.join(kept, newer), os.path.join(place, newer), ignore=lambda _folder, names: [n for n in names if n == "manifest.json"])
        shutil.copy(os.path.join(kept, newer, "manifest.json"), os.path.join(place, newer, "manifest.json"))
        server.wait_log("from now on", 30)
        self.assertIn(f"Serving step {int(newer.removeprefix('step-'))} of {self.job} from now on.", server.log())
        after = self.ask(base, fields)
        self.assertNotEqual(before["system_fingerprint"], after["system_fingerprint"])
        _, whole = self.serve(place=f"job:{self.job}@{int(newer.removeprefix('step-'))}")
        self.assertEqual(after["choices"], self.ask(whole, fields)["choices"])
        # A checkpoint that cannot be read is told of, and the one before it goes on being served.
        os.makedirs(os.path.join(place, "step-9999999999"))
        with open(os.path.join(place, "step-9999999999", "manifest.json"), "w", encoding="utf-8") as file:
            file.write("no manifest")
        server.wait_log("is served, and it is tried again", 30)
        self.assertEqual(after["choices"], self.ask(base, fields)["choices"])
        refused = self.cluster.cli("serve-model", "--from", f"job:{self.job}@10", "--tokenizer", self.data, "--follow", expect=2)
        self.assertIn("leave out @10", refused)

    def test_weights_of_fewer_bits_hardly_change_the_loss(self):
        def loss(precision):
            return json.loads(self.cluster.cli("eval", "--from", f"job:{self.job}", "--data", f"{self.data}/val.bin", "--precision", precision, "--json"))["loss"]

        half = loss("bfloat16")
        for precision, delta in (("int8", 0.005), ("int4", 0.05)):
            with self.subTest(precision):
                self.assertAlmostEqual(1, loss(precision) / half, delta=delta)
                _, base = self.serve("--precision", precision)
                self.assertIn(f"-{precision}-", self.ask(base, {"prompt": "THE ", "max_tokens": 5})["system_fingerprint"])

    def test_a_file_of_requests_is_answered_across_a_kill_with_the_same_bytes(self):
        requests = os.path.join(self.cluster.folder, "requests.jsonl")
        with open(requests, "w", encoding="utf-8") as file:
            for number in range(300):
                file.write(json.dumps({"prompt": "THE "[:number % 5], "id": number, "n": 1 + number % 3}) + "\n")

        def command(output, *more):
            return ["generate", "--from", f"job:{self.job}", "--tokenizer", self.data, "--input", requests, "--output", output, "--tokens", 40, *more]

        alone, killed = (os.path.join(self.cluster.folder, f"{name}.jsonl") for name in ("alone", "killed"))
        said = json.loads(self.cluster.cli(*command(alone, "--threads", 1, "--json")))
        self.assertEqual((300, 0), (said["requests"], said["gone_on_from"]))
        first = self.cluster.spawn("generate", [f"{harness.BIN}/holdfast", *map(str, command(killed, "--threads", 2, "--batch_tokens", 16))],
                                   {"HOLDFAST_SERVER": self.cluster.server})
        wait_until(lambda: os.path.exists(f"{killed}.part") and os.path.getsize(f"{killed}.part") > 5000, 60, "some answers")
        first.kill()
        self.assertFalse(os.path.exists(killed))
        self.assertIn("Went on from the ", self.cluster.cli(*command(killed, "--threads", 2)))
        with open(alone, "rb") as one, open(killed, "rb") as other:
            self.assertEqual(one.read(), other.read())
        self.assertIn("is there already", self.cluster.cli(*command(killed), expect=2))

    def test_refuses_to_listen_to_strangers(self):
        said = self.cluster.cli("serve-model", "--from", f"job:{self.job}", "--tokenizer", self.data, "--listen", "0.0.0.0:0", expect=2)
        self.assertIn("--token_file", said)


if __name__ == "__main__":
    harness.main()
