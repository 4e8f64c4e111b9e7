"""Runs one cell of the fault matrix and measures it.

The victim waits at its fault point (`mark`) while the fault is injected, so every cell hits its moment whatever the machine does
meanwhile; when each rank confirmed each step is told by the workers themselves (`note`). Times are measured, never judged
here: hash, ledger, steps lost and the checkpoints are."""
import dataclasses
import os
import statistics
import subprocess
import time
import unittest

import harness
import ledger
from fault_matrix import cells
from fault_matrix import faults
from network import networked_cluster

STEPS, FAULT_STEP, CHECKPOINT_EVERY = 40, 12, 10
HALF_STEP_MS = 20  # added before and after the middle of a step's computation
CRAWLS, CRAWL_MS = 10, 20  # and so many more while a fourth worker is awaited, each of which ends at once after that
CHUNK, PIECE = 5, 3  # which chunk of an all-reduce, which piece of a state
SIGNS = ("fault_reported", "worker_lost", "worker_left_out", "checkpoint_failed", "checkpoint_unreadable", "state_diverged")
SIGNS_IN_LOGS = ("the service is away", "the service stops", "is not registered yet", "could not be written")


@dataclasses.dataclass
class Outcome:
    cell: cells.Cell
    step_s: float = None      # an undisturbed step of this run
    detect_s: float = None    # from the fault to the first sign of it; None: there was none
    pause_s: float = None     # from the fault to the next committed step, beyond one step; for idle: submission to first step
    steps_lost: int = None
    ledger: str = "not reached"
    bits: str = "not reached"
    checkpoints: str = "not reached"
    sign: str = ""            # what was said about it first
    failure: str = ""         # why the cell did not come to its end

    def good(self):
        return not self.failure and (self.steps_lost, self.ledger, self.bits, self.checkpoints) == (0, "exact", "equal", "whole")


def job_spec(cluster, store=""):
    return harness.small_spec(cluster.folder, nodes=4, max_nodes=4, min_nodes=1, total_steps=STEPS, valid_data_path="",
                              checkpoint_every=CHECKPOINT_EVERY, keep_last=0, checkpoint_store=store, **cluster.model)


def new_cluster(kind, job):
    """Of kind "gpus" every worker has one, played by the CPU. `job`: fields of the jobs that run on it."""
    cluster = networked_cluster.NetworkedCluster()
    cluster.model = job
    if kind == "gpus":
        cluster.worker_program = f"{harness.BIN}/worker_on_gpu_shim"
        cluster.worker_options = {"device": "auto", "environment": {"HOLDFAST_SHIM_FENCE": "1", "HOLDFAST_SHIM_DEVICES": "4"}}
        cluster.model = {"n_layer": 1, "n_embd": 32, "block_size": 16}  # the CPU is slow at it
    return cluster


def undisturbed_hash(kind, job):
    """Of the same job, run by one worker that nobody disturbs, its state in one piece."""
    cluster = new_cluster(kind, {**job, "shard": "none"})
    failed = True
    try:
        cluster.start_service().start_workers("w1")
        value = cluster.wait_state(cluster.submit(**job_spec(cluster)), "succeeded")["state_hash"]
        failed = False
        return value
    finally:
        cluster.close(failed)


def run(cell, reference, kind, job):
    """The outcome, whatever happens."""
    outcome = Outcome(cell)
    cluster = new_cluster(kind, job)
    try:
        CellRun(cell, cluster, outcome).run(reference)
    except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
        outcome.failure = " ".join(str(error).split())[:600]
    finally:
        cluster.close(not outcome.good())
    return outcome


class CellRun:
    def __init__(self, cell, cluster, outcome):
        self.cell, self.cluster, self.outcome = cell, cluster, outcome
        names = [f"w{i}" for i in range(1, 5)]  # ranks follow the names
        self.first, self.late = (names[:3], names[3:]) if cell.joins else (names, [])
        victim = names[cell.rank]
        self.fault = faults.KINDS[cell.fault](cluster, cell.moment, victim, names[(cell.rank + 1) % 4])
        cluster.put_together(names, self.fault.workers_of_a_node)
        self.job = self.shown = None
        self.injected = self.submitted = None  # seconds since 1970
        self.healed = self.fault.heal_after_s is None
        self.crawls_since = None

    def path(self, name):
        return os.path.join(self.cluster.folder, name)

    def run(self, reference):
        cluster, fault = self.cluster, self.fault
        cluster.start_service()
        fault.prepare()
        environment = {"HOLDFAST_FAULT": ",".join(self.rules())}
        cluster.start_workers(*self.first, environment=environment)
        spec = job_spec(cluster, self.path("store") if self.cell.fault == "full_store" else "")
        if self.cell.moment == "idle":
            fault.aim()
            self.inject()
        self.submit(spec)
        if self.late:
            self.let_join(environment)
        elif self.cell.moment != "idle":
            fault.aim()
        if self.cell.moment != "idle":
            self.inject_at_mark()
        self.follow()
        fault.check()
        self.judge(reference, spec)

    # --- the moment

    def rules(self):
        rules = [f"slow@step:ms={HALF_STEP_MS}", f"slow@step:ms={HALF_STEP_MS}", f"note@confirmed:file={self.path('trace')}"]
        mark = self.mark()
        if mark:
            rules.insert(1, f"{mark}:file={self.path('mark')}:once_file={self.path('once')}")
        if self.cell.joins:
            rules += CRAWLS * [f"slow@step:ms={CRAWL_MS}:while_file={self.cluster.folder}/crawl"]
        return rules

    def mark(self):
        cell = self.cell
        in_step = f"step={FAULT_STEP}"
        if cell.joins:
            in_step = f"while_file={self.path('join')}"
        of_rank = f"rank={cell.rank}:{in_step}"
        chunk = CHUNK if self.fault.workers_of_a_node == 1 else 1  # in memory a sum goes in few, large pieces
        object_number = 1 if cell.fault == "corrupt" else 2
        applied = f"rank={cell.rank}:step={FAULT_STEP + 1}" if not cell.joins else of_rank
        return {
            "compute": f"mark@step:{of_rank}",
            "reduce_scatter": f"mark@reduce_scatter:{of_rank}:pass={chunk}",
            "all_gather": f"mark@all_gather:{of_rank}:pass={chunk}",
            "commit": f"mark@commit:{applied}",
            "state_copy": f"mark@state_copy:{of_rank}:pass={PIECE}",
            "norm": f"mark@norm:{of_rank}",
            "share": f"mark@share:{applied}:pass={PIECE}",
            "restore": f"mark@restore:{of_rank}:pass={PIECE}",
            "gather": f"mark@gather:{of_rank}:pass={PIECE}",
            "checkpoint_write": f"mark@checkpoint_object:pass={object_number}" + (f":{in_step}" if cell.joins else ""),
            "rendezvous": f"mark@rendezvous:{of_rank}",
        }.get(cell.moment)

    def let_join(self, environment):
        """The fourth worker comes while the job runs."""
        self.cluster.wait_step(self.job, 5)
        self.crawls_since = time.time()
        self.cluster.crawl()  # so that it has not ended when the fourth is there
        if self.cell.role != "joiner":
            self.fault.aim()
        with open(self.path("join"), "wb"):
            pass
        self.cluster.start_worker(self.late[0], environment=environment)
        if self.cell.role == "joiner":
            self.cluster.wait_workers(self.late[0])
            self.fault.aim()

    def inject(self):
        self.injected = time.time()
        self.fault.inject()

    def inject_at_mark(self):
        harness.wait_until(lambda: os.path.exists(self.path("mark")), 30, f"the moment of {self.cell}")
        if self.cell.joins:
            self.cluster.hurry()
        self.inject()
        os.unlink(self.path("mark"))

    def submit(self, spec):
        """Again and again while the service is away."""
        def answered():
            self.heal_when_due()
            try:
                status, reply = self.cluster.request("POST", "/v1/jobs", spec)
            except OSError:
                return None
            return (status, reply) if status < 500 else None

        self.submitted = time.time()
        status, reply = harness.wait_until(answered, 20, "the service to take a job")
        if status != 201:
            raise AssertionError(f"submit: {status} {reply}")
        self.job = reply["id"]

    def heal_when_due(self):
        if not self.healed and self.injected and time.time() > self.injected + self.fault.heal_after_s:
            self.fault.heal()
            self.healed = True

    def follow(self):
        """To the job's end; the fault is taken back on the way."""
        def ended():
            self.heal_when_due()
            shown = self.cluster.try_get(f"/v1/jobs/{self.job}")
            if shown and shown["state"] in ("failed", "cancelled"):
                raise AssertionError(f"{self.job} is {shown['state']}: {shown['reason']}")
            return shown if self.healed and shown and shown["state"] == "succeeded" else None

        self.shown = harness.wait_until(ended, 60, f"{self.job} to succeed")

    # --- what came of it

    def judge(self, reference, spec):
        outcome, cluster = self.outcome, self.cluster
        outcome.bits = "equal" if self.shown["state_hash"] == reference else f"DIFFERENT: {self.shown['state_hash']}"
        try:
            ledger.assert_every_microbatch_once(unittest.TestCase(), cluster, self.job, STEPS, spec["train_data_path"])
            outcome.ledger = "exact"
        except AssertionError as error:
            outcome.ledger = "WRONG: " + " ".join(str(error).split())[:300]
        outcome.steps_lost = len({step for row in ledger.voided_rows(cluster, self.job)
                                  for step in range(row["first_step"], row["last_step"] + 1)})
        try:
            cluster.cli("ckpt", "verify", self.job)
            outcome.checkpoints = "whole"
        except AssertionError as error:
            outcome.checkpoints = "NOT WHOLE: " + " ".join(str(error).split())[:300]
        self.measure_pause()
        self.find_sign()

    def commits(self):
        """When each step was first confirmed by anybody, in order."""
        first = {}
        with open(self.path("trace"), encoding="utf-8") as trace:
            for line in trace:
                moment, _, step, _ = line.split()
                first[int(step)] = min(float(moment), first.get(int(step), float("inf")))
        return sorted(first.values())

    def measure_pause(self):
        """The longest time without a commit among those that begin within a second of the fault."""
        commits = self.commits()
        if self.cell.moment == "idle":
            self.outcome.step_s = statistics.median(b - a for a, b in zip(commits, commits[1:]))
            self.outcome.pause_s = commits[0] - self.submitted
            return
        before = [at for at in commits if at <= (self.crawls_since or self.injected)]
        self.outcome.step_s = statistics.median(b - a for a, b in zip(before, before[1:]))
        rest = [self.injected] + [at for at in commits if at > self.injected]
        pause = max(b - a for a, b in zip(rest, rest[1:]) if a <= self.injected + 1)
        self.outcome.pause_s = max(0.0, pause - self.outcome.step_s)

    def find_sign(self):
        """The first thing that was said about it, by the service in an event or by a worker in its log."""
        signs = [(harness.seconds_of(event["time"]), event["message"]) for event in self.cluster.events(self.job)
                 if event["kind"] in SIGNS]
        for worker in self.cluster.everything:
            signs += [(harness.seconds_of_log(line), line.split("] ", 1)[-1]) for line in worker.log().splitlines()
                      if any(sign in line for sign in SIGNS_IN_LOGS)]
        after = sorted(sign for sign in signs if sign[0] and sign[0] >= self.injected - 0.001)
        if after:
            self.outcome.detect_s = max(0.0, after[0][0] - self.injected)
            self.outcome.sign = after[0][1]
