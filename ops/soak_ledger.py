"""Where the time of a disturbed job went: pure arithmetic over its commits, events and faults, in seconds since 1970.

A step's time is as its worker measured it, from its beginning to its commit. What is not within a committed step is time
without progress; what a step took longer than an undisturbed one is slowness. Both are given to causes so that their sum is
exactly the time of the span less that of as many undisturbed steps."""

LOST_WORK = "the step under way when a fault came"
DETECTION = "detecting the fault"
FORMING = "forming the next generation"
STARTING = "state copy, and agreeing on what is kept"
JOINING = "joins: forming, and the joiner's copy of the state"
BETWEEN = "between steps: checkpoint stall, hashing, reports"
FIRST_STEP = "first step of a generation (shorter where its microbatches were kept)"
SLOW = "a worker that a drill slowed down"
FEWER = "fewer workers, and others starting up beside them"
OTHER = "other steps, longer or shorter: noise of the machine"
CAUSES = (LOST_WORK, DETECTION, FORMING, STARTING, JOINING, BETWEEN, FIRST_STEP, SLOW, FEWER, OTHER)
ENDINGS = ("fault_reported", "worker_lost", "generation_over")


def settled(commits):
    """Commit times no later than heard, and each early enough for the step after it (they may be heard of together)."""
    commits = [dict(commit) for commit in commits]
    for before, after in zip(reversed(commits[:-1]), reversed(commits)):
        if before["step"] + 1 == after["step"]:
            before["at"] = min(before["at"], after["at"] - after["step_s"])
    return commits


def gap_causes(begin, end, events, faults):
    """{cause: seconds} of the time between two generations' steps."""
    inside = [e for e in events if begin <= e["at"] <= end]
    formed = max((e["at"] for e in inside if e["kind"] == "generation_formed"), default=begin)
    ended = [e["at"] for e in inside if e["kind"] in ENDINGS]
    if not ended:
        return {JOINING: end - begin}
    fault = min(max((f for f in faults if f <= end), default=begin), min(ended))
    marks = [begin, fault, min(ended), formed, end]
    for i in range(1, len(marks)):
        marks[i] = min(max(marks[i], marks[i - 1]), end)
    return dict(zip((LOST_WORK, DETECTION, FORMING, STARTING), (b - a for a, b in zip(marks, marks[1:]))))


def slowness_cause(commit, is_first, slowed, members, full):
    if is_first:
        return FIRST_STEP
    if any(begin <= commit["at"] and commit["at"] - commit["step_s"] <= end for begin, end in slowed):
        return SLOW
    return FEWER if members.get(commit["generation"], full) < full else OTHER


def usual(commits, span):
    """(a step's mean seconds, the mean seconds between two) of a span without faults; their sum is a step's share of the span."""
    commits = [commit for commit in settled(commits) if span[0] < commit["at"] <= span[1]]
    if len(commits) < 2:
        raise ValueError(f"{len(commits)} steps were committed in {span[1] - span[0]:.0f} s without faults: not enough to measure against")
    each_s = (commits[-1]["at"] - commits[0]["at"]) / (len(commits) - 1)
    step_s = min(each_s, sum(commit["step_s"] for commit in commits[1:]) / (len(commits) - 1))
    return step_s, each_s - step_s


def ledger(commits, events, faults, members, full, usual_times, span):
    """{cause: seconds} of `span` (begin, end). `faults`: [{"at", "kind", "held_s"}]; `members`: workers by generation;
    `usual_times` as of usual()."""
    usual_step_s, usual_between_s = usual_times
    begin, end = span
    at = [f["at"] for f in faults]
    slowed = [(f["at"], f["at"] + f["held_s"]) for f in faults if f["kind"] == "slow"]
    causes = dict.fromkeys(CAUSES, 0.0)
    commits = settled(commits)
    for before, commit in zip(commits, commits[1:]):
        if not (begin <= before["at"] and commit["at"] <= end):
            continue
        start = max(commit["at"] - commit["step_s"], before["at"])
        is_first = before["generation"] != commit["generation"]
        gap = gap_causes(before["at"], start, events, at) if is_first else {BETWEEN: start - before["at"]}
        for cause, seconds in gap.items():
            causes[cause] += seconds
        causes[FIRST_STEP if is_first else BETWEEN] -= usual_between_s
        causes[slowness_cause(commit, is_first, slowed, members, full)] += commit["at"] - start - usual_step_s
    return causes


def seconds_away(commits, members, full, span):
    """Worker-seconds that were missing in the generations of the span."""
    begin, end = span
    commits = settled(commits)
    return sum((commit["at"] - before["at"]) * (full - members.get(commit["generation"], full))
               for before, commit in zip(commits, commits[1:]) if begin <= before["at"] and commit["at"] <= end)
