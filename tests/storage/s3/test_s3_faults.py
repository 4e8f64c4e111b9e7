#!/usr/bin/python3
"""Stores in S3 through the worst of networks and servers (hostile_server.py), and through kill -9 of the writer at every request of
a checkpoint: afterwards there is the old checkpoint or the new one, whole, and what had been sent is not sent again."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hostile_server  # noqa: E402
import servers  # noqa: E402
from hostile_server import KEY, SECRET, HostileServer  # noqa: E402

DRIVER = os.environ.get("HOLDFAST_S3_DRIVER", "")
ENV = servers.environment(KEY, SECRET)
FIRST_PAUSE_S = 0.1  # of a store, which it takes between the half and the whole of (S3Options)


def start(place, *words, **more):
    return subprocess.Popen([DRIVER, place, *map(str, words)], env={**ENV, **more}, stdout=subprocess.PIPE, text=True)


def drive(place, *words, **more):
    out, _ = start(place, *words, **more).communicate(timeout=120)
    return [json.loads(line) for line in out.splitlines()]


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = HostileServer()
        cls.place = cls.server.place()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        self.server.forget()

    def good(self, *words, **more):
        answers = drive(self.place, *words, **more)
        self.assertTrue(answers and all(one["ok"] for one in answers), answers)
        return answers

    def bad(self, *words, **more):
        answer = drive(self.place, *words, **more)[-1]
        self.assertFalse(answer["ok"], answer)
        self.assertNotIn(SECRET, answer["message"])
        return answer

    def once(self, kind, change, when="after"):
        """The first request of a kind is changed; all others are let through."""
        left = [True]

        def hook(request):
            if request.kind == kind and left[0]:
                left[0] = False
                change(request)
        setattr(self.server, when, hook)
        return left

    # --- kill -9 at every request

    def requests_of(self, before, words):
        """How many requests a command makes, after others."""
        self.server.forget()
        self.good(*before)
        first = len(self.server.requests)
        self.good(*words)
        return len(self.server.requests) - first

    def sweep(self, when, *words):
        """Kills the writer of step 20, generation 2, at each of its requests; an older checkpoint of that step is there, and of step 10."""
        before = ("write", 10, 1, 1, ",", "write", 20, 2, 1)
        count = self.requests_of(before, words)
        for at in range(count):
            self.server.forget()
            self.good(*before)
            first = len(self.server.requests)
            pid = []

            def kill(request):
                if request.number == first + at and pid:
                    os.kill(pid[0], signal.SIGKILL)

            ready = threading.Event()

            def hold(request):
                ready.wait(10)  # until the process's number is known here
                kill(request)
            setattr(self.server, when, hold)
            writer = start(self.place, *words)
            pid.append(writer.pid)
            ready.set()
            writer.communicate(timeout=60)
            self.server.before = self.server.after = lambda request: None
            self.assertEqual(-signal.SIGKILL, writer.returncode)
            answers = drive(self.place, "holds", 20, 3)
            if not answers[0]["ok"]:
                self.good("holds", 20, 2)
            self.good("holds", 10, 1)
            # The next writer goes on where this one stopped.
            sent = set(self.server.puts())
            whole = {key for key in sent if key.endswith(".hfs")}
            seen = len(self.server.requests)
            self.good(*words, ",", "holds", 20, 3, ",", "holds", 10, 1)
            again = [one.key for one in self.server.requests[seen:] if one.method == "PUT" and one.key in whole]
            self.assertEqual([], again, f"sent twice, after a kill at request {at}")
            self.good("orphans", ",", "holds", 20, 3, ",", "holds", 10, 1)
        return count

    def test_kill_9_before_each_request_of_a_checkpoint(self):
        self.assertGreater(self.sweep("before", "write", 20, 3, 2), 8)

    def test_kill_9_after_each_request_of_a_checkpoint_has_taken_effect(self):
        self.assertGreater(self.sweep("after", "write", 20, 3, 2), 8)

    def test_kill_9_at_each_request_of_retention(self):
        before = ("write", 10, 1, 1, ",", "write", 20, 2, 1, ",", "write", 30, 3, 1)
        count = self.requests_of(before, ("keep", 1))
        for at in range(count):
            self.server.forget()
            self.good(*before)
            first, pid, ready = len(self.server.requests), [], threading.Event()

            def hold(request):
                ready.wait(10)
                if request.number == first + at:
                    os.kill(pid[0], signal.SIGKILL)
            self.server.after = hold
            remover = start(self.place, "keep", 1)
            pid.append(remover.pid)
            ready.set()
            remover.communicate(timeout=60)
            self.server.after = lambda request: None
            self.assertEqual(-signal.SIGKILL, remover.returncode)
            self.good("holds", 30, 3)
            for step, seed in ((10, 1), (20, 2)):
                if any(key.endswith(f"step-{step:010}/manifest.json") for key in self.server.objects):
                    self.good("holds", step, seed)
            self.good("keep", 1, ",", "orphans", ",", "holds", 30, 3)
            self.assertTrue(all("step-0000000030" in key for key in self.server.objects), sorted(self.server.objects))
        self.assertGreater(count, 8)

    # --- the network

    def test_resets_at_any_byte_of_a_request_or_an_answer_are_tried_again(self):
        for cut in (0, 1, 20, 300, 5000):
            for resets in (False, True):
                def shorten(request, cut=cut, resets=resets):
                    request.cut, request.resets = cut, resets
                for kind in ("PUT", "GET", "list"):
                    self.server.forget()
                    self.good("put", "x", 100000)
                    left = self.once(kind, shorten)
                    answers = self.good(*{"PUT": ("put", "x", 100000), "GET": ("get", "x"), "list": ("list",)}[kind])
                    self.assertFalse(left[0])
                    if kind == "GET":
                        self.assertEqual({"ok": True, "bytes": 100000, "same": True}, answers[-1])
        for taken in (0, 1, 60000):
            def break_off(request, taken=taken):
                request.handler.rfile.read(taken)
                request.reset()
            self.once("PUT", break_off, "before")
            self.good("put", "y.hfs", 100000, ",", "get", "y.hfs")

    def test_a_body_that_is_altered_on_its_way_is_read_again(self):
        def flip(request):
            request.reply = bytes([request.reply[0] ^ 1]) + request.reply[1:]
        self.good("put", "x", 5000)
        self.once("GET", flip)
        self.assertTrue(self.good("get", "x")[-1]["same"])
        self.server.after = lambda request: flip(request) if request.kind == "GET" else None
        always = self.bad("get", "x")
        self.assertEqual("corrupt", always["code"])
        self.assertIn("was altered there", always["message"])

    def test_a_request_that_is_altered_on_its_way_is_refused_and_sent_again(self):
        def alter(request):
            read = request.handler.rfile.read

            class Altered:
                def read(self, count):
                    request.handler.rfile = original  # the connection's next request is another
                    return bytes([read(1)[0] ^ 1]) + read(count - 1)

                def __getattr__(self, name):
                    return getattr(original, name)
            original, request.handler.rfile = request.handler.rfile, Altered()
        self.once("PUT", alter, "before")
        self.assertTrue(self.good("put", "x.hfs", 5000, ",", "get", "x.hfs")[-1]["same"])
        self.assertIn(400, [one.status for one in self.server.requests])

    def test_a_slow_answer_is_waited_for(self):
        def drip(request):
            request.drip_s = 0.02
        self.good("put", "x", 50000)
        self.once("GET", drip)
        self.assertTrue(self.good("get", "x")[-1]["same"])

    def test_a_server_that_never_answers_ends_at_the_deadline(self):
        hold = threading.Event()
        self.server.after = lambda request: hold.wait(60)
        begin = time.monotonic()
        answer = self.bad("put", "x", 100, DRIVER_DEADLINE_MS="1500")
        hold.set()
        self.assertEqual("unavailable", answer["code"])
        self.assertLess(time.monotonic() - begin, 30)

    def test_what_a_server_answered_is_said_though_the_deadline_ends_a_later_try(self):
        hold, puts = threading.Event(), []

        def busy_then_silent(request):
            if request.kind == "PUT":
                puts.append(request)
                if len(puts) > 1:
                    hold.wait(60)
                request.error(503, "SlowDown", "Please reduce your request rate.")
        self.server.before = busy_then_silent
        answer = self.bad("put", "x", 100, DRIVER_DEADLINE_MS="2500")
        hold.set()
        self.assertRegex(answer["message"], r"503 SlowDown: Please reduce your request rate\.")

    # --- the server

    def test_errors_that_pass_are_tried_again_and_retry_after_is_honoured(self):
        for status, code in ((500, "InternalError"), (503, "SlowDown"), (503, "ServiceUnavailable"), (429, "TooManyRequests"),
                             (408, "RequestTimeout"), (400, "RequestTimeout"), (409, "OperationAborted")):
            for kind, words in (("PUT", ("put", "x", 10)), ("GET", ("get", "x")), ("DELETE", ("remove", "x")), ("list", ("list",))):
                self.server.forget()
                self.good("put", "x", 10)
                left = self.once(kind, lambda request, s=status, c=code: request.error(s, c, "later"), "before")
                self.good(*words)
                self.assertFalse(left[0])
        self.server.forget()
        times = []

        def busy(request):
            if request.kind == "PUT":
                times.append(time.monotonic())
                if len(times) == 1:
                    request.error(503, "SlowDown", "Please reduce your request rate.", Retry_After=2)
        self.server.before = busy
        self.good("put", "x", 10)
        self.assertGreaterEqual(times[1] - times[0], 2)
        self.server.before = lambda request: request.error(503, "SlowDown", "", Retry_After=3000) if request.kind == "PUT" else None
        begin = time.monotonic()
        answer = self.bad("put", "x", 10)
        self.assertLess(time.monotonic() - begin, 15, "it does not wait for what comes after its deadline")
        self.assertRegex(answer["message"], "503 SlowDown.*not to be asked again for 3000 s")

    def test_many_writers_that_are_told_to_slow_down_do_not_come_back_together(self):
        times, lock, together = [], threading.Lock(), threading.Barrier(6)

        def busy(request):
            if request.kind == "PUT":
                with lock:
                    times.append(time.monotonic())
                    first = len(times) <= 6
                if first:
                    together.wait(60)  # they hear of it at the same time
                    request.error(503, "SlowDown", "")
        self.server.before = busy
        writers = [start(self.place, "put", f"x{i}", 10) for i in range(6)]
        for writer in writers:
            out, _ = writer.communicate(timeout=60)
            self.assertTrue(json.loads(out)["ok"], out)
        self.assertGreater(max(times[6:]) - min(times[6:]), FIRST_PAUSE_S / 10)

    def test_refusals_come_back_at_once_and_say_what_to_do(self):
        self.good("put", "x", 10)
        for status, code, words in ((403, "AccessDenied", "bucket's policy"), (507, "InsufficientStorage", "free space there"),
                                    (403, "QuotaExceeded", "raise the quota"), (301, "PermanentRedirect", "name the endpoint")):
            self.server.before = lambda request, s=status, c=code: request.error(s, c, "no") if request.kind == "PUT" else None
            seen = len(self.server.requests)
            answer = self.bad("put", "x", 10)
            self.assertEqual("no_space" if "space" in words or "quota" in words else "unavailable", answer["code"])
            self.assertIn(words, answer["message"])
            self.assertEqual(1, sum(one.kind == "PUT" for one in self.server.requests[seen:]), "it was tried once")
        region = drive(self.place.replace(hostile_server.REGION, "us-east-1"), "open")[-1]
        self.assertRegex(region["message"], f"the bucket is in region {hostile_server.REGION}.*write region={hostile_server.REGION}")

    def test_a_clock_that_is_wrong_is_said_with_both_times(self):
        self.server.clock_ahead_s = 3600
        answer = self.bad("open")
        self.assertRegex(answer["message"], r"this machine's clock says (\S+ \S+) UTC, the server's (?!\1)\S+ \S+ UTC.*15 minutes.*timedatectl")
        self.server.clock_ahead_s = 800
        self.good("put", "x", 10)

    def test_keys_that_have_expired_are_looked_for_again(self):
        left = self.once("PUT", lambda request: request.error(403, "ExpiredToken", "The token has expired."), "before")
        self.good("put", "x", 10)
        self.assertFalse(left[0])

    def test_lists_of_an_older_state_lose_nothing(self):
        """An old Ceph may list what it had a moment ago."""
        self.good("write", 10, 1, 1)
        old = sorted(self.server.objects)

        def stale(request):
            if request.kind == "list" and request.status == 200 and request.query.get("max-keys") != "1":
                request.reply = self.server.list_of(request, old)
        self.server.after = stale
        self.good("write", 20, 2, 1)
        self.good("parts", 30, 3, 0)
        self.good("parts", 30, 3, 1)
        self.good("make", 30, 3)  # what a list lacks is looked for by its name
        self.good("orphans")
        self.server.after = lambda request: None
        self.good("holds", 10, 1, ",", "holds", 20, 2, ",", "holds", 30, 3)

    def test_a_manifest_that_reads_back_otherwise_is_no_success(self):
        self.good("write", 10, 1, 1)
        stale = dict(self.server.objects)
        metadata = dict(self.server.metadata)
        reads = []

        def older(request):
            if request.kind == "GET" and request.key.endswith("manifest.json") and len(reads) < 3:
                reads.append(request.key)
                if len(reads) > 2:  # the first two are of the check for a newer writer
                    request.reply, request.reply_headers = stale[request.key], dict(metadata[request.key])
        self.server.after = older
        self.good("write", 10, 2, 2, ",", "holds", 10, 2)

        def always_older(request):
            if request.kind == "GET" and request.key == "j/x":
                request.reply, request.reply_headers = stale["j/x"], dict(metadata["j/x"])
        self.server.after = lambda request: None
        self.good("put", "x", 10)
        stale, metadata = dict(self.server.objects), dict(self.server.metadata)
        self.server.after = always_older
        self.assertRegex(self.bad("put", "x", 11)["message"], "gives back 10 other bytes: does somebody else write there")

    def test_lists_that_go_wrong_are_no_lists(self):
        self.good("put", "x", 10)
        for reply in (b"", b"<ListBucketResult>", b"<html>welcome</html>",
                      b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"):
            def wrong(request, reply=reply):
                if request.kind == "list" and request.query.get("max-keys") == "1000":
                    request.reply = reply
            self.server.after = wrong
            self.assertIn("no list of objects", self.bad("list")["message"])

    def test_a_list_that_turns_in_a_circle_ends(self):
        self.good("put", "x", 10)
        def circle(request):
            if request.kind == "list" and request.query.get("max-keys") == "1000":
                request.reply = (b"<ListBucketResult><IsTruncated>true</IsTruncated>"
                                 b"<NextContinuationToken>again</NextContinuationToken></ListBucketResult>")
        self.server.after = circle
        self.assertIn("the list names the page that it is as the next", self.bad("list")["message"])

    def test_objects_of_others_below_the_place_are_passed_over(self):
        for key in ("j/a b", "j/step-1/:x", "j/ä", "j/.hidden", "j//x", "j/"):
            self.server.objects[key], self.server.metadata[key] = b"x", {}
        self.good("put", "x", 10)
        self.assertEqual(["x"], self.good("list")[-1]["keys"])
        self.good("orphans")
        self.assertEqual(7, len(self.server.objects))

    def test_an_answer_that_does_not_end_is_not_kept(self):
        self.good("put", "x", 10)

        def endless(request):
            if request.kind == "list":
                request.reply = b"x" * (100 << 20)
        self.server.after = endless
        seen = len(self.server.requests)
        self.assertIn("the answer is longer than", self.bad("list")["message"])
        self.assertEqual(1, sum(one.kind == "list" for one in self.server.requests[seen:]), "it was tried once")
        self.server.after = lambda request: None
        self.server.before = lambda request: request.error(403, "x" * (1 << 20)) if request.kind == "PUT" else None
        refused = self.bad("put", "x", 10)
        self.assertEqual("unavailable", refused["code"])
        self.assertLess(len(refused["message"]), 100_000)


if __name__ == "__main__":
    unittest.main()
