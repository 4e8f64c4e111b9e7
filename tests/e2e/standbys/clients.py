"""Clients of several services that go on through their faults, and note all that they were told.

A Submitter runs the real command line, one program after the other: it submits small jobs under keys of its own until each is
acknowledged, and stops most of them again. A Follower reads the stream of all events with Last-Event-ID, from whichever service
leads. Threads; stop() waits for their end."""
import http.client
import json
import os
import random
import re
import subprocess
import threading
import time
import traceback
import urllib.parse

import harness
from histories import Call

PATIENCE_S = 60     # of one program; it gives up by itself long before
PARKED = "parked=no_worker_has_this"
KEPT_OF = 10        # of so many jobs one stays in the queue
BAD_INPUT, REFUSED = 2, "refused"
ANSWER_S = 2.5      # a stream has a comment more often where it has nothing else


class Submitter:
    def __init__(self, cluster, name, seed, pause_s=(0.4, 1.0)):
        self.cluster, self.name, self.pause_s = cluster, name, pause_s
        self.random = random.Random(f"{seed} {name}")
        self.calls, self.refused, self.failed = [], [], []
        self.stopping = threading.Event()
        self.config = os.path.join(cluster.folder, f"{name}.json")
        urls = cluster.server.split(",")
        self.server = ",".join(urls if self.random.random() < 0.5 else reversed(urls))
        self.thread = threading.Thread(target=self._run, name=name)
        self.thread.start()

    def _run(self):
        try:
            self._submit_many()
        except BaseException:  # one that ends without a word would pass for one that had no trouble
            self.failed.append(traceback.format_exc())

    def _submit_many(self):
        number = 0
        while not self.stopping.is_set():
            number += 1
            key = f"{self.name}-{number}"
            spec = {"seed": self.random.randrange(1 << 40), "total_steps": self.random.randrange(1, 1000)}
            job = self._until_told(lambda key=key, spec=spec: self._submit(key, spec))
            if job and job != REFUSED and number % KEPT_OF:
                self._until_told(lambda key=key, job=job: self._stop(key, job))
            self.stopping.wait(self.random.uniform(*self.pause_s))

    def _until_told(self, call):
        """Again and again; the last answer's job, or None where the end came first."""
        while True:
            told = call()
            if told or self.stopping.is_set():
                return told
            time.sleep(0.1)

    def _submit(self, key, spec):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({"name": key, "train_data_path": os.path.join(self.cluster.folder, "train.bin"), "vocab_size": 256, "n_layer": 1,
                       "n_head": 2, "n_embd": 32, "block_size": 32, "batch_size": 1, "global_batch_size": 4, "nodes": 1, "max_nodes": 1, "min_nodes": 1,
                       "requires": dict([PARKED.split("=")]), **spec}, file)
        call = self._call("submit", key, ("submit", "--config", self.config, "--idempotency_key", key))
        call.spec = spec
        found = re.search(r"^(j\d+)$", call.said, re.MULTILINE)
        if found:
            call.job = found[1]
        return self._note(call)

    def _stop(self, key, job):
        """Where an answer was lost, the next one is a refusal: the job is cancelled already."""
        call = self._call("stop", key, ("stop", job))
        if call.status == 0 or "is cancelled" in call.said:
            call.job = job
        return self._note(call)

    def _call(self, what, key, arguments):
        began = time.time()
        command = self.cluster.placed("clients", [f"{harness.BIN}/holdfast", *arguments])
        done = subprocess.run(command, env=self.cluster.environment({"HOLDFAST_SERVER": self.server}), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE_S * harness.PATIENCE, check=False)
        return Call(self.name, what, key, began, time.time(), None, {}, (done.stdout + done.stderr)[:2000], done.returncode)

    def _note(self, call):
        self.calls.append(call)
        if call.job is None and call.status == BAD_INPUT:
            self.refused.append(call)  # nobody asked for anything wrong
            return REFUSED
        return call.job

    def stop(self):
        self.stopping.set()
        self.thread.join()


class Follower:
    """All events from the first on; (id, event) in the order in which they came."""

    def __init__(self, cluster):
        self.cluster, self.seen, self.connections, self.term = cluster, [], 0, 0
        self.urls = cluster.server.split(",")
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="follower")
        self.thread.start()

    def _run(self):
        while not self.stopping.is_set():
            self.urls.append(self.urls.pop(0))
            try:
                self._read(urllib.parse.urlparse(self.urls[0]))
            except (OSError, http.client.HTTPException):
                pass  # the next one may lead
            self.stopping.wait(0.1)

    def _read(self, address):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=ANSWER_S)
        try:
            last = self.seen[-1][0] if self.seen else 0
            connection.request("GET", "/v1/events?follow=1&after=0", headers={
                "Authorization": f"Bearer {self.cluster.token()}", "Last-Event-ID": str(last), "Holdfast-Term": str(self.term)})
            reply = connection.getresponse()
            term = int(reply.headers.get("Holdfast-Term", 0))
            if reply.status != 200 or term < self.term:
                return
            self.term = term
            self.connections += 1
            number = None
            while not self.stopping.is_set():
                line = reply.readline()
                if not line:
                    return
                if line.startswith(b"id: "):
                    number = int(line[4:])
                elif line.startswith(b"data: ") and number is not None:
                    self.seen.append((number, json.loads(line[6:])))
                    number = None
        finally:
            connection.close()

    def wait_for(self, event):
        harness.wait_until(lambda: self.seen and self.seen[-1][0] >= event, 30, f"the follower to have event {event}")

    def stop(self):
        self.stopping.set()
        self.thread.join()
