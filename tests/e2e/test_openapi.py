#!/usr/bin/python3
"""Every route's every documented answer, held against openapi.json."""
import functools
import glob
import hashlib
import http.client
import json
import os
import signal
import urllib.error
import urllib.request

import harness
import jsonschema
from api_description import Description
from processes import wait_until

REGISTRATION = {"protocol_version": harness.protocol_version(), "name": "by-hand", "incarnation": "by-hand-1", "node": "n", "address": "127.0.0.1:1", "numerics": "x"}
PAGES_OF_JOBS = ("listJobEvents", "listJobLogs", "listJobMetrics", "listCheckpoints", "getLedger", "listObjects")
ALONE = ("getHealth", "getReadiness", "getPage", "getOpenapi", "getPrometheus", "listJobs", "getJobSpec", "listEvents", "listNodes", "listServices", "whoAmI",
         "listTokens", "listWebhooks", "listDataSets", "listModels")
CHUNK = b"a chunk of a data set"
CHUNK_NAME = hashlib.sha256(CHUNK).hexdigest()
MANIFEST = {"format": 1, "chunk_bytes": 4 << 20, "files": [{"name": "train.bin", "bytes": len(CHUNK), "chunks": [CHUNK_NAME]}]}


def messages(worker, incarnation):
    """A body for each message of workers, and for what else needs one."""
    who = {"worker": worker, "incarnation": incarnation, "generation": 1}
    point = {"step": 1, "loss": 2.5, "gradient_norm": 1.0, "learning_rate": 1e-3, "step_s": 0.1, "communication_s": 0.0, "tokens": 8,
             "data_digest": "d", "validation_loss": None, "shares": []}
    return {"reportStatus": {"incarnation": incarnation, "phase": "idle", "job": "", "generation": 0, "step": -1, "data_digest": "", "data_tokens": 0,
                             "leaving": False, "reason": ""},
            "sendLogs": {"incarnation": incarnation, "job": "", "lines": []},
            "reportProgress": {**who, "step": 1, "points": [point], "state_hash": "", "state_hash_step": -1, "finished": False, "failure": ""},
            "reportFaults": {**who, "suspect_rank": -1, "kind": "silent", "detail": "d", "checkpoint_step": -1},
            "reportEvents": {"worker": worker, "incarnation": incarnation, "kind": "k", "message": "m"},
            "commitCheckpoint": {**who, "step": 1, "store": "", "state_hash": "0" * 32, "created_at": "2026-01-01T00:00:00Z", "raw_bytes": 1,
                                 "stored_bytes": 1, "shards": 1, "stall_s": 0.0, "write_s": 0.0, "removed_steps": []},
            "reportProfile": {"worker": worker, "incarnation": incarnation, "profile": "p", "piece": 0, "pieces": 1, "names": [], "tracks": [], "dropped": 0,
                              "ended": ""},
            "postHolders": {"worker": worker, "incarnation": incarnation, "address": "127.0.0.1:1", "have": "0", "first": [0], "room": 1},
            "reportTexts": {"incarnation": incarnation, "job": "j1"}, "complete": {"model": "nobody", "prompt": "a"},
            "scaleJob": {"nodes": 1}, "putObject": b"bytes"}


class From(urllib.request.HTTPHandler):
    """Requests from one of this machine's addresses."""
    def __init__(self, address):
        super().__init__()
        self.connection = functools.partial(http.client.HTTPConnection, source_address=(address, 0))

    def http_open(self, request):
        return self.do_open(self.connection, request)


class Api(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.description = Description(self.cluster.get("/openapi.json"))
        self.seen = set()  # (operation, status)
        self.tokens = {role: self.cluster.request("POST", "/v1/tokens", {"name": role, "role": role})[1]["token"]
                       for role in ("read", "submit", "worker")}

    def call(self, name, status, path=None, body=None, token=None, query="", headers=None, address="127.0.0.1"):
        """One request; the answer must have this status, and be as described. Returns (JSON or text, headers)."""
        method = self.description.operations[name][0]
        target = self.description.path(name, path or {}) + query
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.cluster.url + target, data=data, method=method)
        secret = self.cluster.token() if token is None else token
        if secret:
            request.add_header("Authorization", f"Bearer {secret}")
        for key, value in (headers or {}).items():
            request.add_header(key, value)
        try:
            with urllib.request.build_opener(From(address)).open(request, timeout=30) as reply:
                got, text, shown = reply.status, reply.read().decode(errors="replace"), reply.headers
        except urllib.error.HTTPError as error:
            got, text, shown = error.code, error.read().decode(errors="replace"), error.headers
        self.assertEqual(status, got, f"{method} {target}: {text[:300]}")
        kind = shown.get("Content-Type", "")
        self.assertEqual([], self.description.complaints(name, got, kind, text), f"{method} {target}")
        self.assertTrue(shown["X-Request-Id"], target)
        for header in self.description.operations[name][2]["responses"].get(str(got), {}).get("headers", {}):
            self.assertTrue(shown[header], f"{method} {target}: no {header}")
        self.seen.add((name, got))
        return (json.loads(text) if "json" in kind else text), shown

    def test_every_documented_answer_is_as_described(self):
        jsonschema.Draft202012Validator.check_schema({"$defs": self.description.document["components"]["schemas"]})
        self.a_worker_by_hand()
        job = self.a_job_that_trains()
        self.refusals()
        self.unknown_things()
        self.bad_bodies_and_queries()
        for name in ALONE:
            self.call(name, 200)
        for name in PAGES_OF_JOBS:
            self.call(name, 200, {"job": job})
        self.call("listJobMetrics", 200, {"job": job}, query="?points=3")
        self.call("listJobLogs", 200, {"job": job}, query="?tail=2&level=info&worker=w1")
        self.profile(job)
        self.steering(job)
        self.files_and_objects(job)
        self.data_sets()
        self.exports()
        self.tokens_and_webhooks()
        self.an_end(job)
        documented = {(name, status) for name in self.description.operations for status in self.description.statuses(name)}
        self.assertEqual(set(), documented - self.seen, "documented, and never seen")

    def a_worker_by_hand(self):
        """Trains a step of a job of its own, and says what workers say, in time and too late."""
        me = {"worker": "by-hand"}
        self.call("registerWorker", 200, body=REGISTRATION)
        self.call("registerWorker", 400, body={**REGISTRATION, "protocol_version": 1})
        self.call("registerWorker", 400, body={**REGISTRATION, "only_job": "j9"})
        said = messages("by-hand", "by-hand-1")
        self.call("reportStatus", 200, me, said["reportStatus"])
        job = {"job": self.call("submitJob", 201, body=harness.small_spec(self.cluster.folder))[0]["id"]}
        prepared = {**said["reportStatus"], **job, "phase": "prepared", "data_digest": "d", "data_tokens": 10000}
        self.call("reportStatus", 200, me, prepared)
        tag = self.call("reportStatus", 200, me, {**prepared, "phase": "active", "generation": 1, "step": 0, "state_generation": 1})[0]["directive_tag"]
        self.call("awaitDirective", 200, me, query="?incarnation=by-hand-1&wait_ms=0")
        self.call("awaitDirective", 204, me, query=f"?incarnation=by-hand-1&wait_ms=0&have={tag}")
        for name in ("reportProgress", "reportFaults", "reportEvents"):
            self.call(name, 204, job, said[name])
        profile = self.call("beginProfile", 202, job, {"steps": 2})[0]["id"]
        self.call("beginProfile", 409, job)
        self.call("getProfileTrace", 409, job)
        self.call("reportProfile", 204, job, {**said["reportProfile"], "profile": profile})
        self.call("reportProfile", 409, job, said["reportProfile"])
        self.call("commitCheckpoint", 201, job, said["commitCheckpoint"])
        self.call("sendLogs", 204, me, said["sendLogs"])
        self.call("registerWorker", 200, body={**REGISTRATION, "incarnation": "by-hand-2"})
        for name in ("reportStatus", "sendLogs", "reportTexts"):
            self.call(name, 409, me, said[name])
        self.call("awaitDirective", 409, me, query="?incarnation=by-hand-1&wait_ms=0")
        for name in ("reportProgress", "reportFaults", "reportEvents", "commitCheckpoint"):
            self.call(name, 409, job, said[name])
        gone = {"Holdfast-Worker": "by-hand", "Holdfast-Incarnation": "by-hand-1"}
        for name in ("putObject", "deleteObject"):
            self.call(name, 409, {**job, "key": "k"}, said.get(name), headers=gone)
        self.call("drainNode", 202, me)
        self.call("reportLost", 204, body={"incarnation": "by-hand-2", "reason": "r"})
        self.call("drainNode", 409, me)
        self.call("stopJob", 202, job)

    def a_job_that_trains(self):
        self.cluster.start_workers("w1", "w2", slow_ms=30)
        spec = harness.small_spec(self.cluster.folder, total_steps=5000, nodes=2, eval_every=10)
        self.call("submitJob", 200, body=spec, query="?dry_run=1")
        job = self.call("submitJob", 201, body=spec, headers={"Idempotency-Key": "k"}, token=self.tokens["submit"])[0]["id"]
        self.call("submitJob", 409, body={**spec, "seed": 8}, headers={"Idempotency-Key": "k"})
        self.call("planJob", 422, body={"spec": spec})
        self.call("planJob", 200, body={"spec": spec, "microbatch_s": 0.03, "keep": ["batch_size"]}, token=self.tokens["read"])
        self.cluster.wait_event(job, "checkpoint_committed")
        return job

    def refusals(self):
        """401 and 403 of each operation that needs a token."""
        for number, (name, (_, _, operation)) in enumerate(self.description.operations.items()):
            roles, path = operation["x-roles"], {each["name"]: "x" for each in self.description.parameters(name, "path")}
            if not roles:
                continue
            address = f"127.0.0.{2 + number % 4}"  # more than 50 at once from one are slowed down
            self.call(name, 401, path, token="wrong" if number % 2 else "", address=address)
            if 403 in self.description.statuses(name):
                self.call(name, 403, path, token=next(token for role, token in self.tokens.items() if role not in roles))

    def unknown_things(self):
        for name in self.description.operations:
            if 404 in self.description.statuses(name):
                path = {each["name"]: "0" * 64 if each["name"] == "chunk" else "nothing" for each in self.description.parameters(name, "path")}
                self.call(name, 404, path, messages("nobody", "i").get(name))

    def bad_bodies_and_queries(self):
        for name, (_, _, operation) in self.description.operations.items():
            if 400 not in self.description.statuses(name):
                continue
            path = {each["name"]: {"job": "j1", "worker": "by-hand", "key": "../../x", "chunk": "x", "name": ".x", "step": "x"}[each["name"]]
                    for each in self.description.parameters(name, "path")}
            if operation.get("requestBody") and "key" not in path:
                self.call(name, 400, path, b"{")
            else:
                self.call(name, 400, path, messages("", "").get(name), query="?wait_ms=-1&limit=0")

    def profile(self, job):
        self.call("beginProfile", 202, {"job": job}, {"steps": 2}, token=self.tokens["submit"])
        wait_until(lambda: self.call("getProfile", 200, {"job": job})[0]["state"] == "done", 30, "the profile")
        self.assertTrue(self.call("getProfileTrace", 200, {"job": job})[0]["traceEvents"])

    def steering(self, job):
        for name in ("stopJob", "pauseJob", "resumeJob", "scaleJob"):
            self.call(name, 412, {"job": job}, messages("", "").get(name), headers={"If-Match": '"other.tag"'})
        self.call("scaleJob", 202, {"job": job}, {"nodes": 1})
        self.call("resumeJob", 409, {"job": job})
        self.call("pauseJob", 202, {"job": job})
        wait_until(lambda: self.call("getJob", 200, {"job": job})[0]["state"] == "paused", 30, "the pause")
        etag = self.call("getJob", 200, {"job": job})[1]["ETag"]
        self.call("getJob", 304, {"job": job}, headers={"If-None-Match": etag})
        self.call("resumeJob", 202, {"job": job})

    def files_and_objects(self, job):
        self.assertIn("<title>", self.call("getPage", 200)[0])
        main = {"file": "main.js"}
        etag = self.call("getPlayground", 200)[1]["ETag"]
        self.call("getPlayground", 304, headers={"If-None-Match": etag})
        etag = self.call("getPageFile", 200, main)[1]["ETag"]
        self.call("getPageFile", 304, main, headers={"If-None-Match": etag})
        place = {"job": job, "key": "a/b"}
        self.call("putObject", 204, place, b"bytes")
        self.assertEqual("bytes", self.call("getObject", 200, place)[0])
        self.call("deleteObject", 204, place)

    def data_sets(self):
        chunk, wiki = {"chunk": CHUNK_NAME}, {"name": "wiki"}
        self.assertEqual([CHUNK_NAME], self.call("findMissingChunks", 200, body={"chunks": [CHUNK_NAME]})[0]["missing"])
        self.call("putDataSet", 409, wiki, MANIFEST)
        self.call("putChunk", 204, chunk, CHUNK)
        self.assertEqual(CHUNK.decode(), self.call("getChunk", 200, chunk)[0])
        digest = self.call("putDataSet", 201, wiki, MANIFEST)[0]["digest"]
        self.call("putDataSet", 200, wiki, MANIFEST)
        self.assertEqual(MANIFEST, self.call("getDataSet", 200, {"name": digest}, token=self.tokens["worker"])[0]["manifest"])
        self.assertEqual("wiki", self.call("listDataSets", 200)[0]["data_sets"][0]["name"])
        self.assertEqual([0], self.call("postHolders", 200, {"name": digest}, messages("other", "other-1")["postHolders"])[0]["take"])
        self.call("postHolders", 409, {"name": digest}, messages("by-hand", "by-hand-1")["postHolders"])
        job = self.call("submitJob", 201, body=harness.small_spec(self.cluster.folder, train_data_path="data:wiki", nodes=6, min_nodes=6))[0]["id"]
        self.call("deleteDataSet", 409, wiki)
        self.call("stopJob", 202, {"job": job})
        [file] = glob.glob(f"{self.cluster.folder}/**/{CHUNK_NAME}", recursive=True)
        with open(file, "ab") as damaged:
            damaged.write(b"!")
        self.call("getChunk", 422, chunk)
        self.call("deleteDataSet", 204, wiki)

    def exports(self):
        job = self.call("submitJob", 201, body=harness.small_spec(self.cluster.folder, total_steps=20))[0]["id"]
        self.cluster.wait_state(job, "succeeded")
        self.serving(job)
        place = {"job": job, "step": "20"}
        self.call("exportCheckpoint", 200, place, token=self.tokens["read"])
        ticket = self.call("prepareDownload", 201, place, {"dtype": "float16"}, token=self.tokens["read"])[0]["ticket"]
        self.call("getDownload", 200, {"ticket": ticket}, token="")
        self.call("exportCheckpoint", 409, place, query="?format=gguf")
        self.call("prepareDownload", 409, place, {"format": "gguf"})
        for key in self.call("listObjects", 200, {"job": job}, query="?prefix=step-0000000020/shard")[0]["keys"]:
            self.call("putObject", 204, {"job": job, "key": key}, b"damaged")
        for name in ("exportCheckpoint", "prepareDownload"):
            self.call(name, 422, place)

    def more_texts_than_may_wait(self, worker, question):
        training = self.cluster.training_pid(worker)
        os.kill(training, signal.SIGSTOP)
        many = json.dumps({**question, "n": 128, "stream": True}).encode()
        ask = lambda: urllib.request.urlopen(urllib.request.Request(f"{self.cluster.url}/v1/completions", many, {"Authorization": f"Bearer {self.cluster.token()}"}), timeout=30)  # noqa: E731
        asked = [ask() for _ in range(9)]  # 128 are given to the replica, 1,024 wait
        try:
            self.assertEqual("1", self.call("complete", 429, body={**question, "n": 128})[1]["Retry-After"])
        finally:
            os.kill(training, signal.SIGCONT)
            for answer in asked:
                answer.close()

    def serving(self, trained):
        tokenizer = f"{self.cluster.folder}/bytes"
        self.cluster.cli("data", "prepare", f"{harness.ROOT}/LICENSE", "--output", tokenizer, "--tokenizer", "bytes")
        spec = {"kind": "serve", "init_from": f"job:{trained}", "tokenizer": tokenizer, "name": "texts"}
        question = {"model": "texts", "prompt": "The", "max_tokens": 2}
        waits = self.call("submitJob", 201, body={**spec, "name": "waits", "requires": {"for": "nobody"}})[0]["id"]
        self.call("complete", 503, body={**question, "model": "waits"})
        self.call("stopJob", 202, {"job": waits})
        job = self.call("submitJob", 201, body=spec)[0]["id"]
        wait_until(lambda: self.call("listModels", 200)[0]["data"], 30, "the replica")
        self.assertEqual(1, len(self.call("complete", 200, body=question, token=self.tokens["read"])[0]["choices"]))
        self.assertIn("data: [DONE]", self.call("complete", 200, body={**question, "stream": True})[0])
        worker = self.call("getJob", 200, {"job": job})[0]["workers"][0]["id"]
        life = next(node["incarnation"] for node in self.call("listNodes", 200)[0]["nodes"] if node["id"] == worker)
        self.more_texts_than_may_wait(worker, question)
        self.call("reportTexts", 200, {"worker": worker}, {"incarnation": life, "job": job})
        self.call("stopJob", 202, {"job": job})

    def tokens_and_webhooks(self):
        made = self.call("createToken", 201, body={"name": "x", "role": "read"})[0]["id"]
        self.call("revokeToken", 204, {"token": made})
        self.call("revokeToken", 409, {"token": "admin.token"})
        hook = self.call("createWebhook", 201, body={"url": "http://127.0.0.1:1/"})[0]["id"]
        self.call("listWebhooks", 200)
        self.call("removeWebhook", 204, {"webhook": hook})

    def an_end(self, job):
        self.call("stopJob", 202, {"job": job})
        self.cluster.wait_state(job, "cancelled")
        for name in ("stopJob", "pauseJob", "scaleJob"):
            self.call(name, 409, {"job": job}, messages("", "").get(name))


if __name__ == "__main__":
    harness.main()
