"""Weeks of records in one database: how long a list of jobs, a job and a curve are waited for while events come in."""
import http.client
import json
import os
import random
import time

import testbed
from cases import service

TITLE = "10,000 jobs and 1,000,000 steps in one database, 200 events/s written: what is asked for meanwhile"
NOTE = ("Ours: bench_records_fill writes the database (half of the steps are one long run's, the rest are spread evenly), a "
        "service is started on it, 200 events a second are posted one by one by two workers that are played, and two clients ask "
        "one thing after the other: 100 jobs of the list from anywhere in it, a job, its curve in 500 points, the long run's curve "
        "in 2,000. Times are from before a request is sent to its last byte, in Python, on the same machine. Memory and CPU are of "
        "the service's process meanwhile; the database with its write-ahead log. Floor: a request to /healthz.")
REPEAT = 1
JOBS, POINTS, EVENTS_PER_S, SECONDS, CLIENTS, WRITERS = 10_000, 1_000_000, 200, 30, 2, 2


class Client:
    def __init__(self, cluster, kind="admin"):
        self.connection = http.client.HTTPConnection(cluster.host, cluster.port, timeout=30)
        self.headers = {"Authorization": f"Bearer {cluster.token(kind)}", "Content-Type": "application/json"}

    def ask(self, method, path, body=None, status=200):
        """(milliseconds, the answer's text)."""
        start = time.perf_counter()
        self.connection.request(method, path, json.dumps(body) if body is not None else None, self.headers)
        reply = self.connection.getresponse()
        text = reply.read()
        taken = (time.perf_counter() - start) * 1000
        if reply.status != status:
            raise SystemExit(f"{method} {path} was answered {reply.status}: {text[:300]}")
        return taken, text


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def write_events(cluster, number, times, until):
    """One worker's share of the events, at even distances."""
    client, name = Client(cluster, "worker"), f"writer-{number}"
    client.ask("POST", "/v1/workers", {"protocol_version": testbed.harness.protocol_version(), "name": name, "incarnation": f"{name}-1"})
    start, rng = time.monotonic(), random.Random(number)
    for count in range(int((until - start) * EVENTS_PER_S / WRITERS)):
        time.sleep(max(0, start + count * WRITERS / EVENTS_PER_S - time.monotonic()))
        event = {"worker": name, "incarnation": f"{name}-1", "kind": "checkpoint_committed",
                 "message": f"event {count} of a worker that is played"}
        times.append(client.ask("POST", f"/v1/jobs/j{rng.randint(1, JOBS)}/events", event, 204)[0])


def ask_on(cluster, number, times, until):
    client, rng = Client(cluster), random.Random(100 + number)
    while time.monotonic() < until:
        job = f"j{rng.randint(1, JOBS - 1)}"
        for what, path in (("list", f"/v1/jobs?limit=100&page_token=p{rng.randint(200, JOBS):x}"),
                           ("show", f"/v1/jobs/{job}"),
                           ("curve", f"/v1/jobs/{job}/metrics?points=500"),
                           ("long curve", f"/v1/jobs/j{JOBS}/metrics?points=2000"),
                           ("nothing", "/healthz")):
            times[what].append(client.ask("GET", path)[0])


def calls_of(function, count, cluster, results, seconds):
    """For testbed.beside_each_other: one for each of `count` clients."""
    until = time.monotonic() + seconds
    return [(function, cluster, number, results, until) for number in range(count)]


def measure(_options):
    with testbed.Testbed() as cluster:
        cluster.service.signal(15)
        cluster.service.wait_exit()
        database = os.path.join(cluster.data_dir, "holdfast.sqlite")
        os.unlink(database)
        filled = testbed.json_lines(testbed.output_of(
            [f"{testbed.BIN}/bench_records_fill", "--database", database, "--jobs", JOBS, "--points", POINTS]))[-1]
        start = time.perf_counter()
        cluster.start_service()
        start_s = time.perf_counter() - start
        pid = cluster.service.pid
        times, writes = {what: [] for what in ("list", "show", "curve", "long curve", "nothing")}, []
        before, began = service.usage(pid), time.monotonic()
        testbed.beside_each_other(*calls_of(write_events, WRITERS, cluster, writes, SECONDS), *calls_of(ask_on, CLIENTS, cluster, times, SECONDS))
        after, wall = service.usage(pid), time.monotonic() - began
        size = sum(os.path.getsize(database + suffix) for suffix in ("", "-wal") if os.path.exists(database + suffix))
    if len(writes) < EVENTS_PER_S * SECONDS * 0.95:
        raise SystemExit(f"only {len(writes)} of {EVENTS_PER_S * SECONDS} events were written")
    floor = percentile(times["nothing"], 99)
    rows = []
    for what, label in (("list", "100 jobs of the list"), ("show", "a job"), ("curve", "a curve in 500 points"),
                        ("long curve", f"the curve of {filled['long_run']:,} steps in 2,000 points")):
        for percent in (50, 99):
            value, beside = percentile(times[what], percent), floor if percent == 99 else None
            rows.append(testbed.row(f"{label}, p{percent}", "ms", value, floor=beside, note=NOTE))
    rows.append(testbed.row("an event written, p50", "ms", percentile(writes, 50), note=NOTE))
    rows.append(testbed.row("an event written, p99", "ms", percentile(writes, 99), note=NOTE))
    rows.append(testbed.row("events written", "1/s", len(writes) / SECONDS, note=NOTE))
    rows.append(testbed.row("answers", "1/s", sum(len(t) for t in times.values()) / SECONDS, note=NOTE))
    rows.append(testbed.row("start of the service", "s", start_s, note=NOTE))
    rows.append(testbed.row("database", "MB", size / 1e6, note=NOTE))
    rows.append(testbed.row("VmHWM of the service", "MB", after["peak_mb"], note=NOTE))
    rows.append(testbed.row("RSS of the service", "MB", after["rss_mb"], note=NOTE))
    rows.append(testbed.row("CPU of the service", "s/s", (after["cpu_s"] - before["cpu_s"]) / wall, note=NOTE))
    return rows
