"""Faults at random moments while several services, workers and clients are at work: brought one after the other, measured, and judged
at the end by what everybody was told (histories.py). leader_faults.py and postgresql_faults.py say which faults.

Promises: the order and all moments come from a seed, which is printed. Times are shown, and judged in the table alone."""
import argparse
import random
import statistics
import sys
import time

import harness
import histories
from clients import Follower, Submitter
from leader_report import FaultOutcome, line, write_section
from long_job import LongJob
from network import namespaces
from networked_services import WORKERS
from store_read import StoreRead

SKIPPED = 77
LASTS_S, BEFORE_S = (2.0, 8.0), (0.3, 2.0)
CLIENTS = 3
STEPS_A_SECOND, FAULT_S = 15, 14  # at most: the long job goes on until all is over, and is hurried then
TAKEN_PATIENCE_S = 60


class Kind:
    """A fault. `text`: for people; `inject` and `heal` get the cluster and the name of the service that leads; `prepare`, the same
    before the moment comes. `inject` may return the moment. `counts_from_heal`: before it is taken back nobody can do anything."""

    def __init__(self, text, inject, heal=lambda cluster, leader: None, prepare=lambda cluster, leader: None, counts_from_heal=False):
        self.text, self.inject, self.heal, self.prepare, self.counts_from_heal = text, inject, heal, prepare, counts_from_heal


def arguments(doc, kinds, short):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20, metavar="N", help="of each kind")
    parser.add_argument("--kinds", default="", metavar="KIND,…", help="of: " + ", ".join(kinds) + "; all by default")
    parser.add_argument("--short", action="store_true", help="one each of: " + ", ".join(short))
    parser.add_argument("--seed", type=int, help="of order and moments")
    parser.add_argument("--write", metavar="FILE", help="put the table into FILE, in place of the one that it has")
    parser.add_argument("--history", metavar="FILE", help="keep the clients' calls there, a JSON object in each line")
    parsed = parser.parse_args()
    parsed.kinds = [name for name in parsed.kinds.split(",") if name] or list(short if parsed.short else kinds)
    unknown = [name for name in parsed.kinds if name not in kinds]
    if unknown or parsed.faults < 1:
        parser.error(f"there is no kind {unknown[0]}: {', '.join(kinds)}" if unknown else f"--faults {parsed.faults}: expected at least 1")
    if parsed.short:
        parsed.faults = 1
    if parsed.seed is None:
        parsed.seed = random.SystemRandom().randrange(1 << 31)
    return parsed


class Run:
    def __init__(self, parsed, kinds, cluster):
        self.parsed, self.kinds, self.cluster = parsed, kinds, cluster
        self.random = random.Random(parsed.seed)
        self.quiet_s = 5 if parsed.short else 30
        self.outcomes, self.quiet, self.quiet_words = [], [], ""
        self.submitters, self.follower = [], None

    def run(self):
        cluster = self.cluster
        cluster.start_service()
        faults = len(self.parsed.kinds) * self.parsed.faults
        job = LongJob(cluster, WORKERS, steps=STEPS_A_SECOND * (faults * FAULT_S + 2 * self.quiet_s + 20))
        job.find_undisturbed_hash()
        job.begin()
        cluster.wait_settled()
        self.follower = Follower(cluster)
        self.submitters = [Submitter(cluster, f"client{number}", self.parsed.seed) for number in range(1, CLIENTS + 1)]
        try:
            self.stay_quiet(self.quiet_s)
            order = [kind for kind in self.parsed.kinds for _ in range(self.parsed.faults)]
            self.random.shuffle(order)
            for number, kind in enumerate(order, 1):
                self.outcomes.append(self.bring(kind, job))
                print(f"{number}/{len(order)} {line(self.outcomes[-1])}", flush=True)
            self.stay_quiet(self.quiet_s)
        finally:
            for submitter in self.submitters:
                submitter.stop()
        self.quiet_words = self.told_of_quiet(job)
        job.finish()
        return self.complaints(job) + job.complaints()

    def stay_quiet(self, seconds):
        """For comparison: as long without a fault."""
        began = time.time()
        time.sleep(seconds)
        self.quiet.append((began, time.time()))

    def told_of_quiet(self, job):
        late = sorted(seconds for began, ended in self.quiet for seconds in job.lateness(began, ended))
        faulty = sorted(seconds for o in self.outcomes for seconds in job.lateness(o.began, o.began + o.lasted_s + 5))
        return (f"For comparison, in {sum(ended - began for began, ended in self.quiet):.0f} s of the same run without a fault the latest of {len(late)} steps was "
                f"{late[-1] * 1000:.0f} ms late, and 99 % were by less than {late[len(late) * 99 // 100] * 1000:.0f} ms; of {len(faulty)} steps "
                f"during faults 99 % were late by less than {faulty[len(faulty) * 99 // 100] * 1000:.0f} ms.")

    def bring(self, name, job):
        cluster, kind = self.cluster, self.kinds[name]
        leader = cluster.wait_settled()
        kind.prepare(cluster, leader)
        time.sleep(self.random.uniform(*BEFORE_S))
        lasts = self.random.uniform(*LASTS_S)
        began = time.time()
        try:
            began = kind.inject(cluster, leader) or began
            time.sleep(max(0.0, began + lasts - time.time()))
        finally:
            kind.heal(cluster, leader)
        counts_from = time.time() if kind.counts_from_heal else began
        self.wait_taken(counts_from)
        after = cluster.wait_settled()
        outcome = FaultOutcome(name, began, lasts, passed=after != leader, taken_s=self.taken(counts_from))
        outcome.wait_s = self.longest_wait(began)
        outcome.late_s = job.latest(began, time.time())
        return outcome

    def calls(self):
        return [call for submitter in self.submitters for call in list(submitter.calls)]

    def taken(self, began):
        """Until a submission that began after the fault was acknowledged."""
        ended = [call.ended for call in self.calls() if call.what == "submit" and call.acknowledged() and call.began > began]
        return min(ended) - began if ended else None

    def wait_taken(self, began):
        harness.wait_until(lambda: self.taken(began) is not None, TAKEN_PATIENCE_S, "a submission to be taken after a fault")

    def longest_wait(self, began):
        """Of a client whose submission was under way or began while the fault had effect: from its first try to its answer."""
        first, waits = {}, [0.0]
        for call in sorted(self.calls(), key=lambda call: call.began):
            if call.what == "submit":
                since = first.setdefault(call.key, call.began)
                if call.acknowledged() and call.ended > began:
                    waits.append(call.ended - since)
        return max(waits)

    def complaints(self, job):
        calls = self.calls()
        if self.parsed.history:
            histories.write(self.parsed.history, calls)
        refused = [f"{call.key}: {call.what} was refused: {call.said}" for submitter in self.submitters for call in submitter.refused]
        store = StoreRead(self.cluster)
        self.follower.wait_for(store.events[-1][0])
        self.follower.stop()
        acknowledged = sum(call.acknowledged() for call in calls)
        print(f"{len(calls)} calls of clients, {acknowledged} acknowledged; {len(store.jobs)} jobs and {len(store.events)} events in the store; "
              f"the follower came {self.follower.connections} times; term {store.term}", flush=True)
        failed = [f"{submitter.name} failed: {trace}" for submitter in self.submitters for trace in submitter.failed]
        return [*failed, *refused, *histories.check(calls, store.jobs, store.keys), *histories.check_events(self.follower.seen, store.events),
                *histories.check_submitted_once(store.events, store.jobs)]


def main(doc, kinds, short, new_cluster, title, program):
    parsed = arguments(doc, kinds, short)
    harness.need_programs()
    if not namespaces.entered():
        return SKIPPED
    print(f"seed {parsed.seed}", flush=True)
    began, failed = time.time(), True
    cluster = new_cluster()
    run = Run(parsed, kinds, cluster)
    try:
        complaints = run.run()
        failed = bool(complaints)
    finally:
        if run.follower is not None:
            run.follower.stop()
        cluster.close(failed)
    for complaint in complaints:
        print(f"WRONG: {complaint}")
    print(run.quiet_words)
    if parsed.write:
        seed = [] if "--seed" in sys.argv else ["--seed", str(parsed.seed)]
        write_section(parsed.write, title, run.outcomes, complaints, " ".join([program, *sys.argv[1:], *seed]), time.time() - began,
                      {name: kind.text for name, kind in kinds.items()}, run.quiet_words)
    taken = [outcome.taken_s for outcome in run.outcomes]
    print(f"{len(run.outcomes)} faults in {time.time() - began:.0f} s: a submission was taken again after {statistics.median(taken):.2f} s "
          f"(median), {max(taken):.2f} s (worst); {len(complaints)} promises were broken")
    return 1 if complaints else 0
