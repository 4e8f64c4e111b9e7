#!/usr/bin/python3
"""Faults while texts are written, with real processes in network namespaces: every kind of fault upon a replica or the service, at every
moment of a text, with another replica that can go on and without one.

    tests/e2e/serving/text_faults.py --all --write bench/FAULTS.md      the whole table
    tests/e2e/serving/text_faults.py --only stop:writing:alone          one cell; "stop" and "*:writing" mean several
    tests/e2e/serving/text_faults.py --short                            a few, for every change

Exit status: 0 every cell kept the promises (each text the one that is written undisturbed, nothing left behind, texts written again),
1 one did not, 2 bad arguments, 77 this machine has no network namespaces for us. Times are shown, and judged in the table alone."""
import argparse
import concurrent.futures
import dataclasses
import datetime
import http.client
import itertools
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
import texts  # noqa: E402
from fault_matrix import faults, report, sections  # noqa: E402
from network import namespaces, networked_cluster  # noqa: E402
from processes import wait_until  # noqa: E402

SKIPPED = 77
TITLE = "## Texts under way"
FAULTS = {
    "kill": "kill -9 of the replica's worker, started again later",
    "stop": "SIGSTOP to it",
    "reset": "its TCP connections are reset",
    "cut": "nothing reaches it and nothing leaves it",
    "one_way": "what it sends vanishes, what is sent to it arrives",
    "drain": "it is drained, and started again later",
    "service": "kill -9 of the service, started again later: its clients are cut off, and ask again with the same seed",
}
MOMENTS = {
    "waiting": "no text is under way; the requests come right after it",
    "beginning": "right after the requests were sent",
    "writing": "a quarter of all tokens is told",
    "swapping": "likewise, right after a newer checkpoint was committed, which replicas are to read",
}
COMPANY = {
    "alone": "no other replica",
    "beside": "another replica is there",
    "first": "a replica is two workers with half of the layers each, it has the first, and a third worker is there",
    "last": "likewise, and it has the last",
}
IN_STAGES = ("first", "last")
SHORT = ("kill:writing:beside", "stop:writing:alone", "cut:writing:beside", "service:writing:alone", "cut:writing:first")
TEXTS, TOKENS = 6, 400
PAUSE_S = {"kill": 1, "stop": 4, "cut": 4, "one_way": 4, "drain": 1, "reset": 1}  # with another replica: the lease is 3 s
STAGE_PAUSE_S = {fault: seconds + 1 for fault, seconds in PAUSE_S.items()}  # the third worker reads its layers first


@dataclasses.dataclass
class Outcome:
    cell: tuple
    pause_s: float = None  # the longest of a text's
    again_s: float = None  # until a request that came after the fault was answered
    failure: str = ""


class Drain(faults.Fault):
    def inject(self):
        self.cluster.request("POST", f"/v1/nodes/{self.victim}/drain")


KINDS = {**{name: faults.KINDS[name] for name in FAULTS if name != "drain"}, "drain": Drain}


def cells_of(pattern):
    parts = (pattern.split(":") + ["*", "*"])[:3]
    for part, known in zip(parts, (FAULTS, MOMENTS, COMPANY)):
        if part != "*" and part not in known:
            raise ValueError(f"'{part}' in '{pattern}' is not one of {', '.join(known)}")
    every = (cell for cell in itertools.product(FAULTS, MOMENTS, COMPANY) if cell[2] not in IN_STAGES or cell[1] in ("writing", "swapping"))
    return [cell for cell in every if all(part in ("*", value) for part, value in zip(parts, cell))]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="every cell")
    which.add_argument("--short", action="store_true", help="a few cells")
    which.add_argument("--only", metavar="FAULT:MOMENT:COMPANY", action="append", help="these cells; may be repeated")
    parser.add_argument("--write", metavar="FILE", help="put the table into FILE, in place of the one that it has")
    parsed = parser.parse_args()
    try:
        patterns = parsed.only or (SHORT if parsed.short else ["*"])
        chosen = dict.fromkeys(cell for pattern in patterns for cell in cells_of(pattern))
    except ValueError as error:
        parser.error(str(error))
    parsed.cells = sorted(chosen, key=lambda cell: list(COMPANY).index(cell[2]))
    return parsed


class Run:
    """All cells with one service, one model that is trained a little further for each swap, a victim for each cell, for a worker that is
    lost again and again is given no work for a while, and another replica."""

    def __init__(self):
        self.cluster = networked_cluster.NetworkedCluster()
        self.expected = {}  # fingerprint -> the texts
        self.trained = self.data = None
        self.victims = 0
        self.victim = None
        self.served = "texts"  # the job that is asked

    def begin(self):
        cluster = self.cluster.start_service()
        self.data = os.path.join(cluster.folder, "data")
        cluster.cli("data", "prepare", os.path.join(harness.ROOT, "LICENSE"), "--output", self.data, "--vocab_size", 400)
        cluster.start_worker("trainer", arguments=("--labels", "for=training"))
        self.trained = cluster.submit(**harness.small_spec(
            cluster.folder, train_data_path=f"{self.data}/train.bin", valid_data_path="", vocab_size=400, eval_every=0, block_size=512, n_layer=6, n_embd=256,
            n_head=4, total_steps=100000, checkpoint_every=0, keep_last=4, checkpoint_store=os.path.join(cluster.folder, "store"), nodes=1, max_nodes=1, name="trains",
            requires={"for": "training"}))
        self.wait_checkpoint(0)
        cluster.submit(kind="serve", init_from=f"job:{self.trained}", follow="on", precision="float32", nodes=2, min_nodes=1, name="texts",
                       requires={"for": "serving"})
        cluster.submit(kind="serve", init_from=f"job:{self.trained}", follow="on", precision="float32", stages=2, nodes=3, min_nodes=2, name="divided",
                       requires={"for": "stages"})

    def wait_checkpoint(self, above):
        """One more, which the job writes as it pauses."""
        wait_until(lambda: self.cluster.job(self.trained)["step"] > above, 60, "a step")
        self.cluster.post(self.trained, "pause")
        self.cluster.wait_state(self.trained, "paused")
        wait_until(lambda: self.steps() and max(self.steps()) > above, 10, "its checkpoint")

    def steps(self):
        shown = self.cluster.try_get(f"/v1/jobs/{self.trained}/checkpoints")
        return [checkpoint["step"] for checkpoint in shown["checkpoints"]] if shown else []

    def start_replica(self, name):
        self.cluster.start_worker(name, arguments=("--labels", f"for={'serving' if self.served == 'texts' else 'stages'}"))

    def model(self):
        shown = self.cluster.try_get("/v1/models")
        return next((model for model in shown["data"] if model["id"] == self.served), None) if shown else None

    def wait_replicas(self, *names):
        """Exactly these, with the newest checkpoint."""
        def there():
            model = self.model()
            return model and sorted(w["worker"] for w in model["workers"]) == sorted(names) and model["step"] == max(self.steps())
        wait_until(there, 60, f"the replicas {', '.join(names)}")

    def put_in_order(self, company):
        """As the next cell needs it: every worker well, with the newest checkpoint; and who is the victim."""
        before = self.cluster.workers.pop(self.victim, None)
        if before:
            before.signal(signal.SIGTERM)
            before.wait_exit()
        self.served = "divided" if company in IN_STAGES else "texts"
        if company in IN_STAGES:
            self.put_stages_in_order(company)
        else:
            self.victim = self.start_another("r")
            if company == "beside" and "other" not in self.cluster.workers:
                self.start_replica("other")
            self.wait_replicas(self.victim, *(["other"] if company == "beside" else []))
        fingerprint = self.model()["system_fingerprint"]
        if fingerprint not in self.expected:
            asked = [self.ask(number) for number in range(TEXTS)]  # each alone
            self.expected[fingerprint] = [choices for _, choices, _ in asked]

    def start_another(self, letter):
        self.victims += 1
        self.start_replica(f"{letter}{self.victims}")
        return f"{letter}{self.victims}"

    def put_stages_in_order(self, company):
        while sum(name.startswith("s") for name in self.cluster.workers) < 3:
            self.start_another("s")

        def whole():
            model = self.model()
            return model and model["step"] == max(self.steps()) and self.cluster.job(model["job"])["world_size"] == 3 and model["workers"]
        stages = wait_until(whole, 60, "a whole replica, and one worker more")[0]["stages"]
        self.victim = stages[IN_STAGES.index(company)]

    def ask(self, number, at_tokens=lambda count: None):
        fields = {"prompt": "THE " * (1 + 5 * number), "max_tokens": TOKENS, "seed": number, "logprobs": 1, "stream": True}
        return texts.ask(self.cluster, self.served, fields, at_tokens)

    def run(self, cell):
        fault_name, moment, company = cell
        outcome = Outcome(cell)
        try:
            self.put_in_order(company)
            fault = KINDS[fault_name](self.cluster, moment, self.victim, "other")
            fault.aim()
            self.disturb(outcome, fault, moment)
            fault.check()
            wait_until(lambda: self.metric("writing") + self.metric("waiting") == 0, 10, "nothing to be left of the texts")
        except (AssertionError, OSError, ValueError, http.client.HTTPException) as error:
            outcome.failure = " ".join(str(error).split())[:400]
        return outcome

    def disturb(self, outcome, fault, moment):
        told, lock = [0], threading.Lock()
        lengths = [len(choices[0]["logprobs"]["tokens"]) for choices in self.expected[self.model()["system_fingerprint"]]]

        def at_tokens(count):
            with lock:
                told[0] += count

        def ask(number):
            while True:
                try:
                    return self.ask(number, at_tokens)
                except (OSError, http.client.HTTPException):
                    if outcome.cell[0] != "service":
                        raise
                    time.sleep(0.1)

        if moment == "waiting":
            fault.inject()
        injected = time.monotonic()
        if moment == "swapping":
            self.cluster.post(self.trained, "resume")
            self.wait_checkpoint(max(self.steps()))
        with concurrent.futures.ThreadPoolExecutor(TEXTS + 1) as pool:
            asked = [pool.submit(ask, number) for number in range(TEXTS)]
            if moment != "waiting":
                if moment != "beginning":
                    wait_until(lambda: told[0] > sum(lengths) / 4, 60, "a quarter of the tokens")
                injected = time.monotonic()
                fault.inject()
            later = pool.submit(lambda: (ask(lengths.index(max(lengths))), time.monotonic()))
            if fault.heal_after_s is not None:
                time.sleep(max(0.0, injected + fault.heal_after_s - time.monotonic()))
                fault.heal()
            elif outcome.cell[0] in ("kill", "drain"):
                self.come_again(fault)
            answers = [one.result() for one in asked]
            (_, again) = later.result()
        outcome.pause_s, outcome.again_s = max(pause for _, _, pause in answers), again - injected
        self.judge(answers)

    def come_again(self, fault):
        worker = self.cluster.workers[fault.victim]
        wait_until(lambda: not worker.running(), 30, "the replica to end")
        self.cluster.workers.pop(fault.victim)
        self.start_replica(fault.victim)

    def judge(self, answers):
        for fingerprint in {answer[0] for answer in answers} - set(self.expected):
            wait_until(lambda f=fingerprint: (model := self.model()) and model["system_fingerprint"] == f, 60, "the newer checkpoint to answer")
            asked = [self.ask(number) for number in range(TEXTS)]
            self.expected[fingerprint] = [choices for _, choices, _ in asked]
        for number, (fingerprint, choices, _) in enumerate(answers):
            if choices != self.expected[fingerprint][number]:
                raise AssertionError(f"text {number} is another one than it is undisturbed: {choices[0]['text'][:60]!r}")

    def metric(self, name):
        return texts.metric(self.cluster.request("GET", "/metrics")[1], f"holdfast_serve_texts_{name}")


def verdict(outcome):
    bound = {"beside": PAUSE_S, "first": STAGE_PAUSE_S, "last": STAGE_PAUSE_S}.get(outcome.cell[2], {}).get(outcome.cell[0])
    if outcome.failure:
        return "**NO**"
    return "**late**" if bound and outcome.cell[1] != "waiting" and outcome.pause_s > bound else "yes"


def line(outcome):
    name = ":".join(outcome.cell)
    if outcome.failure:
        return f"{name}: {outcome.failure}"
    return f"{name}: the longest pause of a text {outcome.pause_s:.2f} s, a later request answered after {outcome.again_s:.2f} s{'' if verdict(outcome) == 'yes' else ': late'}"


def write_section(path, outcomes, command, took_s):
    broken = [outcome for outcome in outcomes if outcome.failure]
    rows = [TITLE, "",
            f"Jobs serve a GPT-2 of 5 million parameters in float32, one thread a worker; {TEXTS} streams of up to {TOKENS} tokens. "
            "Every program on a node of its own.", "",
            "**Every text was the one that is written undisturbed**, its log-probabilities with it, nothing of it was left behind, and texts were written again "
            "at once." if not broken else f"**{len(broken)} cells were broken**, the first: {line(broken[0])}", "",
            "| fault | moment | company | longest pause of a text, s | a later request answered, s | kept |", "| --- | --- | --- | ---: | ---: | --- |"]
    for outcome in outcomes:
        fault, moment, company = outcome.cell
        rows.append(f"| {report.name(fault)} | {moment} | {company} | {report.seconds(outcome.pause_s)} | "
                    f"{report.seconds(outcome.again_s)} | {verdict(outcome)} |")
    told = "; ".join(f"*{report.name(key)}*: {text}" for key, text in {**FAULTS, **MOMENTS, **COMPANY}.items())
    bounds = ", ".join(f"{report.name(fault)} {seconds} s" for fault, seconds in PAUSE_S.items())
    rows += ["", f"Written by `{command}` on {datetime.date.today()}, commit {report.command_output('git', 'rev-parse', '--short', 'HEAD')}, in {took_s:.0f} s; "
             f"{report.machine()}.", "",
             f"A fault that is taken back lasts {faults.Cut.heal_after_s} s, the service's {faults.Service.heal_after_s}. *A later request*: sent right after the fault, to its "
             f"last token. Bounds of a pause where another replica can go on: {bounds}; 1 s more where it is one of two workers. {told}.", ""]
    sections.put(path, TITLE, rows)


def main():
    parsed = arguments()
    harness.need_programs()
    if not namespaces.entered():
        return SKIPPED
    began, run, outcomes, failed = time.time(), Run(), [], True
    command = " ".join(["tests/e2e/serving/text_faults.py", *sys.argv[1:]])
    try:
        run.begin()
        for number, cell in enumerate(parsed.cells, 1):
            outcomes.append(run.run(cell))
            print(f"{number}/{len(parsed.cells)} {line(outcomes[-1])}", flush=True)
            if parsed.write:
                write_section(parsed.write, outcomes, command, time.time() - began)
        failed = any(outcome.failure for outcome in outcomes)
    finally:
        run.cluster.close(failed)
    print(f"{len(outcomes)} cells in {time.time() - began:.0f} s, {sum(bool(o.failure) for o in outcomes)} of them broke a promise")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
