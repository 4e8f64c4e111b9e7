#!/usr/bin/python3
"""`holdfast profile`: a job of two ranks is recorded while it trains; its trace is read here and opened in Chromium.

The trace is read twice, by readers that share nothing with what wrote it: traces/reader.py, and speedscope, a viewer of such
traces from npm, in Debian's Chromium (tests/page/open_trace.mjs)."""
import collections
import json
import os
import re
import shutil
import subprocess

import harness
from processes import wait_until
from traces.reader import Trace

PAGE = os.path.join(harness.ROOT, "tests", "page")
PHASES = ["accumulate", "exchange", "update", "confirm", "after the step", "deal the next step"]
STEPS = 20


class Profile(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.cluster.start_workers("w1", "w2", slow_ms=20)
        self.spec = harness.small_spec(self.cluster.folder, nodes=2, min_nodes=1, total_steps=130, eval_every=10,
                                       checkpoint_every=5)

    def submit(self, **changes):
        job = self.cluster.submit(**{**self.spec, **changes})
        self.cluster.wait_step(job, 5)
        return job

    def path(self, name):
        return os.path.join(self.cluster.folder, name)

    def test_the_trace_of_two_ranks(self):
        job = self.submit()
        said = self.cluster.cli("profile", job, "--steps", STEPS, "--output", "trace.json")
        print(said)
        shown = self.cluster.get(f"/v1/jobs/{job}/profile")
        trace = Trace(self.path("trace.json"))
        self.the_text_says_what_is_in_the_trace(said, shown)
        for rank in (0, 1):
            self.phases_tile_the_steps(trace, rank)
        self.ranks_are_on_one_clock(trace)
        self.every_part_of_a_step_is_there(trace)
        self.costs_are_those_of_the_trace(trace, shown)
        self.speedscope_shows_it(trace)
        self.the_bits_are_those_of_a_job_that_nobody_watched(job)

    def the_text_says_what_is_in_the_trace(self, said, shown):
        self.assertEqual("done", shown["state"])
        self.assertEqual(STEPS, shown["result"]["steps"])
        self.assertEqual(10, len(shown["result"]["costs"]))
        self.assertRegex(said, r"a step takes [\d.]+ ms \(mean of 20 steps, \d+ to \d+, on 2 ranks, clocks within [\d.]+ (us|ms)\)")
        for cost in shown["result"]["costs"]:
            self.assertIn(cost["name"], said)
        self.assertIn("The trace is in trace.json", said)

    def phases_tile_the_steps(self, trace, rank):
        steps = [span for span in trace.threads[rank, "train"] if span.kind == "step"]
        self.assertEqual(STEPS, len(steps))
        self.assertEqual(list(range(steps[0].arguments["step"], steps[0].arguments["step"] + STEPS)), [s.arguments["step"] for s in steps])
        for step in steps:
            phases = [child for child in step.children if child.kind == "phase"]
            self.assertEqual(PHASES, [phase.name for phase in phases])
        tiled = sum(phase.duration for step in steps for phase in step.children if phase.kind == "phase")
        whole = sum(step.duration for step in steps)
        print(f"rank {rank}: {STEPS} steps take {whole / 1000:.2f} ms, their phases {tiled / 1000:.2f} ms: {100 * tiled / whole:.2f} %")
        self.assertAlmostEqual(1, tiled / whole, delta=0.02)
        self.assertAlmostEqual(1, (steps[-1].end - steps[0].begin) / whole, delta=0.02)

    def ranks_are_on_one_clock(self, trace):
        """Both ranks have the machine's clock: the offset that was found is an error, and the error that was stated covers it."""
        first, second = trace.metadata["ranks"]
        print(f"the clocks of one machine were found to differ by {second['clock_offset_us']:.1f} us, at most {second['clock_error_us']:.1f} off")
        self.assertEqual(0, first["clock_offset_us"])
        self.assertLessEqual(abs(second["clock_offset_us"]), second["clock_error_us"])
        gathers = [{span.arguments["number"]: span for span in trace.every(rank) if span.kind == "all-gather"} for rank in (0, 1)]
        common = set(gathers[0]) & set(gathers[1])
        self.assertGreaterEqual(len(common), 2 * STEPS)
        for number in common:
            one, other = gathers[0][number], gathers[1][number]
            for a, b in ((one, other), (other, one)):
                self.assertGreaterEqual(a.end + second["clock_error_us"], b.begin, f"all-gather {number} ended before all had begun it")

    def every_part_of_a_step_is_there(self, trace):
        for rank in (0, 1):
            names = collections.Counter(span.name for span in trace.every(rank))
            for name in ("matmul forward", "matmul backward", "attention backward", "head, loss and backward", "pack gradients", "adamw",
                         "bucket", "all-reduce", "all-gather", "wait for the reduction", "evaluation", "compare states", "data"):
                self.assertGreater(names[name], 0, f"{name} on rank {rank}: {names}")
            self.assertIn((rank, "reduction"), trace.threads)
        checkpoints = {span.name for span in trace.every(0) if span.kind == "checkpoint"}
        self.assertLessEqual({"checkpoint: copy of the state", "checkpoint: put an object"}, checkpoints)
        self.assertEqual({0: "rank 0", 1: "rank 1"}, {pid: name[:6] for pid, name in trace.processes.items()})

    def costs_are_those_of_the_trace(self, trace, shown):
        """The largest costs, added up anew from the spans' own times."""
        own = collections.defaultdict(float)
        for rank in (0, 1):
            for span in trace.every(rank, "train"):
                if span.kind not in ("step", "phase"):
                    own[span.name, rank] += span.own() / 1e6 / STEPS
        for cost in shown["result"]["costs"]:
            if cost["thread"] == "train" and cost["kind"] not in ("step", "phase"):
                for rank in cost["ranks"]:
                    self.assertAlmostEqual(own[cost["name"], rank["rank"]], rank["seconds"], delta=1e-6, msg=cost["name"])

    def speedscope_shows_it(self, trace):
        chromium = shutil.which("chromium")
        done = subprocess.run(["node", f"{PAGE}/open_trace.mjs", self.path("trace.json"), self.path("trace.png")], check=False, text=True,
                              env=dict(os.environ, HOLDFAST_PAGE_CHROMIUM=chromium or ""), capture_output=True, timeout=120)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        seen = json.loads(done.stdout)
        train = next(table for table in seen["threads"] if re.search(r"rank 0 .*train", table["thread"]))
        print("speedscope in Chromium:", len(seen["threads"]), "threads;", train["thread"],
              {name: train["total_ms"].get(name) for name in ["step", *PHASES]})
        self.assertEqual(len(trace.threads), len(seen["threads"]))
        self.assertEqual([], seen["wrong"])
        tiled = sum(train["total_ms"].get(phase, 0) for phase in PHASES)
        self.assertAlmostEqual(1, tiled / train["total_ms"]["step"], delta=0.02)
        artifacts = os.path.join(os.path.dirname(harness.BIN), "page-screenshots")
        os.makedirs(artifacts, exist_ok=True)
        shutil.copy(self.path("trace.png"), os.path.join(artifacts, "trace-in-speedscope.png"))

    def the_bits_are_those_of_a_job_that_nobody_watched(self, job):
        watched = self.cluster.wait_state(job, "succeeded")
        alone = self.cluster.wait_state(self.cluster.submit(**self.spec), "succeeded")
        self.assertEqual((watched["state_hash_step"], watched["state_hash"]), (alone["state_hash_step"], alone["state_hash"]))

    def test_a_rank_that_is_killed_in_the_middle_is_named_and_the_others_are_shown(self):
        job = self.submit(total_steps=5000)
        asked = self.cluster.spawn("asked", [f"{harness.BIN}/holdfast", "profile", job, "--steps", "200", "--server", self.cluster.url,
                                             "--output", self.path("half.json")])
        first = wait_until(lambda: (self.cluster.try_get(f"/v1/jobs/{job}/profile") or {}).get("from_step"), 20, "the profile")
        self.cluster.wait_step(job, first + 8)
        ranks = {worker["rank"]: worker["id"] for worker in self.cluster.job(job)["workers"]}
        self.cluster.kill_worker(ranks[1])
        self.assertEqual(0, asked.wait_exit(timeout_s=40), asked.log())
        print(asked.log())
        self.assertRegex(asked.log(), rf"Rank 1 \({ranks[1]}\) is missing: {ranks[1]} was lost while it recorded")
        self.assertRegex(asked.log(), rf"Rank 0 \({ranks[0]}\) ended early: ")
        trace = Trace(self.path("half.json"))
        self.assertEqual([0], list(trace.processes))
        steps = [span for span in trace.every(0) if span.kind == "step"]
        self.assertGreaterEqual(len(steps), 8)
        self.assertLess(len(steps), 200)
        self.cluster.cli("profile", job, "--steps", 5)  # the next generation is profiled as if nothing had been

    def test_a_service_that_restarts_has_lost_it_and_says_so(self):
        job = self.submit(total_steps=5000)
        asked = self.cluster.spawn("asked", [f"{harness.BIN}/holdfast", "profile", job, "--steps", "200", "--server", self.cluster.url,
                                             "--output", self.path("lost.json")])
        # The service may have begun it before the answer to that arrived: a kill in between would lose a request, not a profile.
        asked.wait_log("Recording steps")
        self.cluster.service.kill()
        self.cluster.start_service()
        self.assertIn(asked.wait_exit(timeout_s=30), (1, 3))
        print(asked.log())
        self.assertIn(f"the profile of {job} is lost", asked.log())
        self.assertFalse(os.path.exists(self.path("lost.json")))
        status, problem = self.cluster.request("GET", f"/v1/jobs/{job}/profile")
        self.assertEqual((404, "no_profile"), (status, problem["code"]))
        wait_until(lambda: self.cluster.job(job)["state"] == "running", 30, "the job to train")
        self.cluster.wait_step(job, self.cluster.job(job)["step"] + 30)  # until it has heard of the steps done meanwhile
        self.cluster.cli("profile", job, "--steps", 5)

    def test_refusals_say_what_to_do(self):
        job = self.submit()
        self.assertIn("expected a file in a folder that is there", self.cluster.cli("profile", job, "--output", "/nowhere/x.json", expect=2))
        self.cluster.post(job, "stop")
        self.cluster.wait_state(job, "cancelled")
        self.assertIn("a profile is recorded of one that trains", self.cluster.cli("profile", job, expect=2))


if __name__ == "__main__":
    harness.main()
