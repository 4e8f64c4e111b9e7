"""What clients called while services failed, and whether the store that they left agrees with all of it.

A history is a list of calls, each with its times, its key and its outcome. check() reads it beside the jobs and the keys of the
store, and check_events() the events that somebody followed beside the store's; both return complaints, none where all is well.
They know nothing of services: test_histories.py shows that each rule can be broken."""
import dataclasses
import json


@dataclasses.dataclass
class Call:
    """One program or request, from its beginning to its end. `job`: what it was told; None: it was told nothing, and whether
    it was carried out is not known."""
    client: str
    what: str      # "submit" or "stop"
    key: str       # of a submission; a stop has its job's
    began: float   # seconds since 1970
    ended: float
    job: str = None
    spec: dict = dataclasses.field(default_factory=dict)
    said: str = ""
    status: int = 0  # the program's

    def acknowledged(self):
        return self.job is not None


def write(path, calls):
    """One JSON object in each line, for whoever wants to read it afterwards."""
    with open(path, "w", encoding="utf-8") as file:
        for call in sorted(calls, key=lambda call: call.began):
            file.write(json.dumps(dataclasses.asdict(call)) + "\n")


def check(calls, jobs, keys):
    """`jobs`: all of the store, {"id", "name", "state", "spec"}; those of clients have their key as their name. `keys`: the
    store's [(key, job)]."""
    known = {call.key for call in calls if call.what == "submit"}
    named = {}
    for job in jobs:
        if job["name"] in known:
            named.setdefault(job["name"], []).append(job)
    complaints = [*of_ids(jobs, calls), *of_keys(known, named, keys)]
    for call in calls:
        if call.acknowledged() and call.what == "submit":
            complaints += of_submission(call, named.get(call.key, []))
        elif call.acknowledged():
            complaints += of_stop(call, named.get(call.key, []))
    return complaints


def of_ids(jobs, calls):
    """An id stands for one job, in the store and in all answers."""
    complaints = []
    ids = [job["id"] for job in jobs]
    complaints += [f"the store has {ids.count(job)} jobs {job}" for job in sorted(set(ids)) if ids.count(job) > 1]
    told = {}
    for call in calls:
        if call.what == "submit" and call.acknowledged():
            told.setdefault(call.job, set()).add(call.key)
    return complaints + [f"{job} was told to those of {', '.join(sorted(of))}" for job, of in told.items() if len(of) > 1]


def of_keys(known, named, keys):
    """A key stands for one job, whether anybody was told of it or not."""
    complaints = [f"key {key} made {len(made)} jobs: {', '.join(job['id'] for job in made)}"
                  for key, made in named.items() if len(made) > 1]
    there = {}
    for key, job in keys:
        there.setdefault(key, []).append(job)
    for key in sorted(known):
        made = [job["id"] for job in named.get(key, [])]
        if sorted(there.get(key, [])) != sorted(made):
            complaints.append(f"the store's key {key} is of {there.get(key, [])}, and the jobs that it made are {made}")
    return complaints


def of_submission(call, made):
    if not made:
        return [f"{call.key} was acknowledged as {call.job}, and is lost"]
    complaints = [f"{call.key} was acknowledged as {call.job}, and is {job['id']}" for job in made if job["id"] != call.job]
    for job in made:
        other = {name: job["spec"].get(name) for name, value in call.spec.items() if job["spec"].get(name) != value}
        if other:
            complaints.append(f"{call.key} was submitted with {call.spec}, and {job['id']} has {other}")
    return complaints


def of_stop(call, made):
    return [f"{call.job} was acknowledged to be stopped, and is {job['state']}"
            for job in made if job["id"] == call.job and job["state"] != "cancelled"]


def check_events(seen, stored):
    """`seen`: [(id, event)] as a follower had them, one after the other; `stored`: the same, of the store. The follower began
    with the store's first, and went on to `stored`'s last."""
    complaints = []
    for (before, _), (after, _) in zip(seen, seen[1:]):
        if after == before:
            complaints.append(f"event {after} came twice")
        elif after < before:
            complaints.append(f"event {after} came after event {before}")
    last = stored[-1][0] if stored else 0
    there = dict(stored)
    had = {number for number, _ in seen}
    missed = [number for number, _ in stored if number not in had]
    if missed:
        complaints.append(f"{len(missed)} of {len(stored)} events were missed, the first of them {missed[0]}")
    for number, event in seen:
        if number > last:
            continue  # it came after the store was read
        if number not in there:
            complaints.append(f"event {number} was sent, and the store has none: {event}")
        elif event != there[number]:
            complaints.append(f"event {number} was sent as {event}, and the store has {there[number]}")
    return complaints


def check_submitted_once(stored, jobs):
    """An id that was given twice would have been told of twice: each job has one event of its submission."""
    told = [event["job"] for _, event in stored if event["kind"] == "job_submitted"]
    return [f"{job['id']} has {told.count(job['id'])} events job_submitted, not one" for job in jobs if told.count(job["id"]) != 1]
