#!/usr/bin/python3
"""A job serves: its workers are replicas that are killed, drained, restarted and given newer checkpoints, and every text is the one that
is written when nothing else is.

HOLDFAST_E2E_REQUESTS: how many requests are asked at least while all that happens [120]; with more than that each is asked alone
afterwards, with fewer some are."""
import concurrent.futures
import http.client
import json
import os
import random
import signal
import sys
import threading
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
import texts  # noqa: E402
from processes import wait_until  # noqa: E402
from trained import TrainedCase  # noqa: E402

REQUESTS = int(os.environ.get("HOLDFAST_E2E_REQUESTS", "120"))
MANY = REQUESTS > 500
DISTURBED_EVERY_S, DISTURBANCES = (5 / 3, 12) if MANY else (1, 3)  # each third one is a kill


class Replicas(TrainedCase):
    @classmethod
    def train(cls):
        cls.training = cls.spec(block_size=128, n_layer=3, n_embd=192, n_head=3, total_steps=100000, checkpoint_every=5, keep_last=0, nodes=1, max_nodes=1,
                                name="trains", requires={"for": "training"})
        cls.cluster.start_worker("trainer", arguments=("--labels", "for=training"))
        cls.job = cls.cluster.submit(**cls.training)
        cls.cluster.wait_event(cls.job, "checkpoint_committed")
        cls.cluster.post(cls.job, "pause")
        cls.cluster.wait_state(cls.job, "paused")

    def serve(self, nodes, name, **more):
        job = self.cluster.submit(**{"kind": "serve", "init_from": f"job:{self.job}", "precision": "float32", "nodes": nodes, "min_nodes": 1, "name": name,
                                     "requires": {"for": "serving"}, **more})
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        if self.cluster.job(job)["state"] not in ("cancelled", "failed"):
            self.cluster.post(job, "stop")
            self.cluster.wait_state(job, "cancelled")

    def start_replica(self, name):
        self.cluster.start_worker(name, arguments=("--labels", "for=serving"))

    def model(self, name):
        found = [model for model in self.cluster.get("/v1/models")["data"] if model["id"] == name]
        return found[0] if found else None

    def wait_ready(self, name, replicas=1):
        return wait_until(lambda: (found := self.model(name)) and found["replicas"] >= replicas and found, 60, f"{replicas} replicas of {name}")

    def ask(self, model, fields):
        return texts.ask(self.cluster, model, fields)

    @staticmethod
    def requests():
        chosen = random.Random(5)
        while True:
            yield {"prompt": "".join(chosen.choices("abc THE and\n", k=chosen.randint(1, 60))), "max_tokens": chosen.randint(1, 90), "seed": chosen.randint(0, 9),
                   "temperature": chosen.choice([0, 0.7, 1.2]), "top_p": chosen.choice([1, 0.8]), "n": chosen.randint(1, 3),
                   "stream": chosen.random() < 0.5, **chosen.choice([{}, {"logprobs": 2}, {"stop": ["e t", "zz"]}, {"logprobs": 0, "echo": True}])}

    def test_one_text_for_a_request_whatever_becomes_of_the_replicas(self):
        served = self.serve(3, "texts", follow="on")
        for number in range(3):
            self.start_replica(f"r{number}")
        first = self.wait_ready("texts", 3)
        self.assertEqual({"object": "model", "owned_by": "holdfast", "max_model_len": 128, "job": served}.items(), first.items() & {
            "object": "model", "owned_by": "holdfast", "max_model_len": 128, "job": served}.items())
        stop, done = threading.Event(), []
        asked, together, requests = [], [], self.requests()
        with concurrent.futures.ThreadPoolExecutor(1) as aside, concurrent.futures.ThreadPoolExecutor(16 if MANY else 6) as pool:
            disturbing = aside.submit(self.disturb, stop, done)
            try:
                while len(asked) < REQUESTS or (len(done) < DISTURBANCES and not disturbing.done()):
                    more = [next(requests) for _ in range(12)]
                    together += pool.map(lambda fields: self.ask("texts", fields), more)
                    asked += more
            finally:
                stop.set()
            disturbing.result()
        moved = self.metric("holdfast_serve_texts_moved_total")
        print(f"{len(asked)} requests in {len({answer[0] for answer in together})} models; {done.count('kill')} kills, {done.count('drain')} drains, "
              f"{done.count('swap')} swaps; {moved:.0f} texts moved; the longest pause of a stream {max(answer[2] for answer in together):.2f} s")
        self.assertGreater(len({answer[0] for answer in together}), 1, "newer checkpoints answered, too")
        self.assertGreater(moved, 0)
        self.end(served)
        self.compare_with_each_alone(asked, together)

    def disturb(self, stop, done):
        chosen, number = random.Random(7), 3
        alive, drained = ["r0", "r1", "r2"], []
        while not stop.wait(DISTURBED_EVERY_S):
            what = ("swap", "kill", "drain")[len(done) % 3]
            if what == "swap":
                step = self.model("texts")["step"]
                self.cluster.post(self.job, "resume")
                before = len(self.cluster.get(f"/v1/jobs/{self.job}/checkpoints")["checkpoints"])
                wait_until(lambda: len(self.cluster.get(f"/v1/jobs/{self.job}/checkpoints")["checkpoints"]) > before, 60, "a newer checkpoint")
                self.cluster.post(self.job, "pause")
                self.cluster.wait_state(self.job, "paused")
                wait_until(lambda s=step: self.model("texts")["step"] > s, 60, "the newer checkpoint to answer")
            else:
                victim = alive.pop(chosen.randrange(len(alive)))
                if what == "kill":
                    self.cluster.kill_worker(victim)
                else:
                    drained.append(self.cluster.workers.pop(victim))
                    self.assertEqual(202, self.cluster.request("POST", f"/v1/nodes/{victim}/drain")[0])
                alive.append(f"r{number}")
                self.start_replica(alive[-1])
                number += 1
            done.append(what)
        for worker in drained:
            self.assertEqual(0, worker.wait_exit(60))

    def compare_with_each_alone(self, asked, together):
        """One worker, one request at a time, of each checkpoint by itself."""
        by_model, alone = {}, min(60, len(asked)) if REQUESTS <= 120 else len(asked)
        chosen = set(random.Random(3).sample(range(len(asked)), alone))
        asked, together = ([of[index] for index in sorted(chosen)] for of in (asked, together))
        for fields, (fingerprint, choices, _) in zip(asked, together):
            by_model.setdefault(fingerprint, []).append((fields, choices))
        steps = [checkpoint["step"] for checkpoint in self.cluster.get(f"/v1/jobs/{self.job}/checkpoints")["checkpoints"]]
        for step in steps:
            job = self.cluster.submit(kind="serve", init_from=f"job:{self.job}@{step}", precision="float32", nodes=1, name=f"alone{step}", requires={"for": "serving"})
            fingerprint = self.wait_ready(f"alone{step}")["system_fingerprint"]
            for fields, choices in by_model.pop(fingerprint, []):
                again = self.ask(f"alone{step}", fields)
                self.assertEqual((fingerprint, choices), again[:2], fields)
            self.end(job)
        self.assertEqual({}, by_model, "models of no checkpoint")

    def metric(self, name):
        return texts.metric(self.cluster.request("GET", "/metrics")[1], name)

    def test_a_service_that_begins_anew_takes_no_text_of_its_last_life_for_one_of_this(self):
        self.serve(1, "lives", requires={"for": "lives"})
        self.cluster.start_worker("lived", arguments=("--labels", "for=lives"))
        self.wait_ready("lives")
        fields = [{"prompt": "THE " * (1 + number), "max_tokens": 60, "seed": number, "n": 3, "logprobs": 1} for number in range(8)]
        expected = [self.ask("lives", one)[:2] for one in fields]

        def ask_in_vain(one):
            try:
                self.ask("lives", {**one, "seed": one["seed"] + 100, "max_tokens": 100})
            except (OSError, http.client.HTTPException, ValueError):
                pass  # the service is killed
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            under_way = [pool.submit(ask_in_vain, one) for one in fields]
            wait_until(lambda: self.metric("holdfast_serve_texts_writing") > 4, 20, "texts under way")
            self.cluster.service.kill()
            self.cluster.start_service()
            concurrent.futures.wait(under_way)
        self.wait_ready("lives")
        self.assertEqual(expected, [self.ask("lives", one)[:2] for one in fields])
        wait_until(lambda: self.metric("holdfast_serve_texts_writing") == 0, 20, "nothing to be left")

    def test_a_replica_that_comes_late_finds_the_checkpoint_that_it_serves(self):
        trains = self.cluster.submit(**{**self.training, "keep_last": 1, "name": "removes"})
        self.cluster.wait_event(trains, "checkpoint_committed")
        checkpoints = f"/v1/jobs/{trains}/checkpoints"
        served = self.cluster.submit(kind="serve", init_from=f"job:{trains}", precision="float32", nodes=1, name="pinned", requires={"for": "late"})
        pinned = int(self.cluster.job(served)["spec"]["init_from"].partition("@")[2])

        def steps():
            return [each["step"] for each in self.cluster.get(checkpoints)["checkpoints"]]

        wait_until(lambda: len(found := steps()) == 2 and max(found) > pinned + 15, 60, "newer checkpoints, and those between removed")
        self.assertIn(pinned, steps())
        self.cluster.start_worker("late", arguments=("--labels", "for=late"))
        self.assertEqual(pinned, self.wait_ready("pinned")["step"])
        self.end(served)
        wait_until(lambda: pinned not in steps(), 60, "the removal of what nobody needs any more")
        self.cluster.post(trains, "stop")
        self.cluster.wait_state(trains, "cancelled")

    def test_a_model_that_is_divided_among_workers_writes_the_same_texts_when_they_are_lost(self):
        self.serve(1, "whole", requires={"for": "whole"})
        self.cluster.start_worker("whole", arguments=("--labels", "for=whole"))
        fingerprint = self.wait_ready("whole")["system_fingerprint"]
        self.serve(4, "divided", stages=2, min_nodes=2, requires={"for": "stages"})
        for number in range(4):
            self.start_stage(f"s{number}")
        model = self.wait_ready("divided", 2)
        self.assertEqual(fingerprint, model["system_fingerprint"])
        self.assertEqual({f"s{number}" for number in range(4)}, {name for worker in model["workers"] for name in worker["stages"]})
        asked, divided, requests, ended = [], [], self.requests(), threading.Event()

        def lose_one_after_another():
            for number, (stage, what) in enumerate([(0, "kill"), (1, "kill"), (0, "stop"), (1, "drain"), (0, "drain")]):
                wait_until(lambda: self.metric("holdfast_serve_texts_writing") > 0, 20, "texts under way")
                self.lose_a_stage(stage, what)
                self.start_stage(f"s{number + 4}")
                self.wait_ready("divided", 2)

        with concurrent.futures.ThreadPoolExecutor(7) as pool:
            losing = pool.submit(lose_one_after_another)
            losing.add_done_callback(lambda _: ended.set())
            while not ended.is_set():
                more = [next(requests) for _ in range(12)]
                divided += pool.map(lambda fields: self.ask("divided", fields)[:2], more)
                asked += more
            losing.result()
        self.assertEqual([self.ask("whole", fields)[:2] for fields in asked[:40]], divided[:40])

    def start_stage(self, name):
        self.cluster.start_worker(name, arguments=("--labels", "for=stages"))

    def lose_a_stage(self, stage, what):
        victim = max(self.model("divided")["workers"], key=lambda worker: worker["texts"])["stages"][stage]
        if what == "kill":
            self.cluster.kill_worker(victim)
        elif what == "drain":
            self.cluster.workers.pop(victim)
            self.cluster.request("POST", f"/v1/nodes/{victim}/drain")
        else:
            os.kill(self.cluster.training_pid(victim), signal.SIGSTOP)
        wait_until(lambda: all(victim not in worker["stages"] for worker in self.model("divided")["workers"]), 30, f"{victim} to be missed")
        if what == "stop":
            self.cluster.kill_worker(victim)

    def test_a_worker_that_nobody_trains_with_serves_and_is_given_back(self):
        self.serve(1, "idle", priority=-1, requires={"for": "both"})
        self.cluster.start_worker("both", arguments=("--labels", "for=both"))
        self.wait_ready("idle")
        fields = {"prompt": "THE ", "max_tokens": 100, "n": 8, "seed": 4}
        right = self.ask("idle", fields)[:2]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(self.ask, "idle", fields) for _ in range(4)]
            wait_until(lambda: self.metric("holdfast_serve_texts_writing") > 0, 20, "texts under way")
            trained = self.cluster.submit(**self.spec(total_steps=20, nodes=1, max_nodes=1, priority=1, requires={"for": "both"}))
            self.cluster.wait_state(trained, "succeeded")
            self.assertEqual([right] * 4, [answer.result()[:2] for answer in asked])
        self.wait_ready("idle")
        self.assertEqual(right, self.ask("idle", fields)[:2])

    def test_openais_own_client(self):
        self.serve(1, "openais", requires={"for": "openais"})
        self.cluster.start_worker("openais", arguments=("--labels", "for=openais"))
        self.wait_ready("openais")
        self.assertEqual("openais", texts.openais_client(self, f"{self.cluster.url}/v1", self.cluster.token()))

    def test_a_client_that_goes_away_leaves_nothing_behind(self):
        self.serve(1, "left", requires={"for": "left"})
        self.cluster.start_worker("leaver", arguments=("--labels", "for=left"))
        self.wait_ready("left")
        for number in range(100):
            body = json.dumps({"model": "left", "prompt": "THE ", "max_tokens": 100, "seed": number, "stream": True}).encode()
            request = urllib.request.Request(f"{self.cluster.url}/v1/completions", body, {"Authorization": f"Bearer {self.cluster.token()}"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                answer.readline()
        wait_until(lambda: self.metric("holdfast_serve_texts_writing") + self.metric("holdfast_serve_texts_waiting") == 0, 30, "all to be given up")
        os.kill(self.cluster.training_pid("leaver"), signal.SIGSTOP)  # nothing more is written, and nobody is told
        for _ in range(5):
            body = json.dumps({"model": "left", "prompt": "THE ", "max_tokens": 100, "n": 128, "stream": True}).encode()
            urllib.request.urlopen(urllib.request.Request(f"{self.cluster.url}/v1/completions", body, {"Authorization": f"Bearer {self.cluster.token()}"}), timeout=30).close()
        wait_until(lambda: self.metric("holdfast_serve_texts_writing") + self.metric("holdfast_serve_texts_waiting") == 0, 20, "texts that nobody has begun to be given up")
        self.cluster.kill_worker("leaver")

    def test_words(self):
        def refused(**spec):
            status, problem = self.cluster.request("POST", "/v1/jobs", {"kind": "serve", **spec})
            self.assertEqual(400, status)
            return {error["field"]: error["message"] for error in problem["errors"]}
        self.assertIn("is required: the model to serve", refused()["init_from"])
        self.assertIn("has no meaning for a job that serves", refused(init_from=f"job:{self.job}", learning_rate=1)["learning_rate"])
        self.assertIn("no job", json.dumps(self.cluster.request("POST", "/v1/jobs", {"kind": "serve", "init_from": "job:j99"})[1]))
        status, problem = self.cluster.request("POST", "/v1/jobs", {**self.training, "precision": "int8", "name": "x"})
        self.assertEqual(400, status)
        self.assertIn("goes with kind serve", problem["errors"][0]["message"])
        status, error = self.cluster.request("POST", "/v1/completions", {"model": "nobody", "prompt": "a"})
        self.assertEqual((404, "model_not_found"), (status, error["error"]["code"]))
        served = self.serve(1, "waits", requires={"for": "nobody"})
        wait_until(lambda: self.cluster.job(served)["waits_for"], 10, "the job to wait")
        status, error = self.cluster.request("POST", "/v1/completions", {"model": "waits", "prompt": "a"})
        self.assertEqual((503, "not_ready"), (status, error["error"]["code"]))
        self.assertIn("waiting for", error["error"]["message"])


if __name__ == "__main__":
    harness.main()
