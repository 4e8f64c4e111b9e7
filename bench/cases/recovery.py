"""From kill -9 of a worker to the next step that the job commits, beside torchrun's restart."""
import os
import signal
import time

import harness
import peer_python
import testbed

TITLE = "Two workers train, one is lost: seconds to the next committed step; steps done again"
NOTE = ("Ours: a GPT-2 of 120,000 parameters whose steps take 50 ms, two workers on this machine. Peer: torchrun with c10d "
        "rendezvous, a loop of 50 ms steps with a checkpoint every 20 (bench/peers/torchrun.py); at its best its last call waits 1 s. Floor: one step; where the service is "
        "killed and back after 20 s, the longest step of the same job before. A killed process is seen by its broken connections, "
        "and its address tells that nobody is there; a frozen one by its silence, when the service asks whether it lives.")
STEP_MS = 50
AWAY_S = 20


def time_to_next_step(lose, rejoin=False):
    """(seconds from `lose(cluster)` to the next committed step, the same for a join, steps done again)."""
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", "w2", slow_ms=STEP_MS)
        job = cluster.submit(**{**harness.small_spec(cluster.folder), "total_steps": 100000, "nodes": 2, "hash_every": 0,
                                "checkpoint_every": 0})
        cluster.wait_step(job, 40)
        lost_at, generation = time.monotonic(), cluster.job(job)["generation"]
        lose(cluster)
        after = next_step_of_a_later_generation(cluster, job, generation)
        recovered = time.monotonic() - lost_at
        joined = None
        if rejoin:
            joined_at = time.monotonic()
            cluster.start_worker("w3", slow_ms=STEP_MS)
            harness.wait_until(lambda: cluster.job(job)["world_size"] == 2, 60, "a join")
            next_step_of_a_later_generation(cluster, job, after["generation"])
            joined = time.monotonic() - joined_at
        voided = sum(r["last_step"] - r["first_step"] + 1 for r in cluster.get(f"/v1/jobs/{job}/ledger")["rows"] if r.get("voided_by"))
        return recovered, joined, voided


def next_step_of_a_later_generation(cluster, job, generation):
    step = cluster.job(job)["step"]
    return harness.wait_until(lambda: (s := cluster.job(job))["generation"] > generation and s["step"] > step and s, 60, "a step")


def torchrun(setup):
    """Seconds after a kill and after a join, steps done again; None for what did not come."""
    return testbed.peer_script("torchrun.py", *(["--at_best"] if setup == peer_python.AT_BEST else []), setup=setup)[-1]


def freeze(cluster):
    os.kill(cluster.training_pid("w2"), signal.SIGSTOP)


def longest_steps_around_an_absence(seconds):
    """Of a job whose service is killed and back after so long: (the longest step before, the longest from then on)."""
    with testbed.Testbed() as cluster:
        trace = os.path.join(cluster.folder, "trace")
        cluster.start_workers("w1", "w2", slow_ms=STEP_MS, environment={"HOLDFAST_FAULT": f"note@confirmed:file={trace}"})
        job = cluster.submit(**{**harness.small_spec(cluster.folder), "total_steps": 100000, "nodes": 2, "hash_every": 0,
                                "checkpoint_every": 0})
        cluster.wait_step(job, 100)
        killed_at = time.time()
        cluster.service.kill()
        time.sleep(seconds)
        cluster.start_service()
        step = cluster.wait_step(job, cluster.job(job)["step"] + 20)["step"]
        first = {}
        with open(trace, encoding="utf-8") as file:
            for moment, _, number, _ in map(str.split, file):
                first[int(number)] = min(float(moment), first.get(int(number), float("inf")))
    if set(range(1, step)) - set(first):
        raise SystemExit("steps are missing in the trace of the workers")
    moments = [first[number] for number in range(20, step)]
    gaps = [(b, b - a) for a, b in zip(moments, moments[1:])]
    return max(gap for at, gap in gaps if at <= killed_at), max(gap for at, gap in gaps if at > killed_at)


def measure(options):
    killed, frozen, away, peer = [], [], [], {setup: [] for setup in testbed.PEER.setups}
    for _ in range(options.repeat):  # in turn, so that a busy minute falls on both sides
        killed.append(time_to_next_step(lambda cluster: cluster.kill_worker("w2"), rejoin=True))
        frozen.append(time_to_next_step(freeze))
        away.append(longest_steps_around_an_absence(AWAY_S))
        for setup, runs in peer.items():
            runs.append(torchrun(setup))

    def theirs(key, typical=testbed.median):
        return {setup: typical([run[key] for run in runs if run[key] is not None]) for setup, runs in peer.items()}

    lost = sum(None in run.values() for runs in peer.values() for run in runs)
    note = NOTE + (f" {lost} of {sum(map(len, peer.values()))} runs of the peer did not recover and are not in its numbers." if lost else "")
    floor = STEP_MS / 1000
    return [testbed.row("kill -9 to the next step", "s", testbed.median([k[0] for k in killed]), theirs("killed_s"), floor=floor, note=note),
            testbed.row("SIGSTOP to the next step", "s", testbed.median([f[0] for f in frozen]), floor=floor, note=note),
            testbed.row("process started to a step with it", "s", testbed.median([k[1] for k in killed]), theirs("joined_s"), floor=floor, note=note),
            testbed.row(f"service away for {AWAY_S} s: longest step", "s", testbed.median([a[1] for a in away]),
                        floor=testbed.median([a[0] for a in away]), note=note),
            testbed.row("steps done again after kill -9", "steps", float(max(k[2] for k in killed)),
                        theirs("again", lambda values: float(max(values)) if values else None), floor=0.0, note=note)]
