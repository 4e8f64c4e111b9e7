"""The service's database, a file of SQLite and a PostgreSQL server beside each other, under what a thousand workers and some people do."""
import http.client
import json
import os
import statistics
import sys
import time

import testbed
from cases import records, service

sys.path.insert(0, os.path.join(testbed.ROOT, "tests", "e2e", "standbys"))
from postgresql_server import PostgresqlServer  # noqa: E402  (needs the path above)

TITLE = "10,000 jobs in the store, 1,000 workers, 200 events/s and submissions: SQLite and PostgreSQL beside each other"
NOTE = ("bench_service_load's 1,000 workers report once a second and hold a long-poll each; two played workers post 200 events a second, and a "
        "client submits jobs that wait, one after the other with 50 ms between them, on the same machine as service and database. Times "
        "are from before a request is sent to its last byte. Both databases are on the same disk, and commit durably before anything is answered "
        "(SQLite: WAL, synchronous=FULL; PostgreSQL: Debian's defaults, synchronous_commit=on). HOLDFAST_BEFORE_BIN names the programs of "
        "an earlier build (holdfast, bench_records_fill, bench_service_load), whose SQLite is measured beside. Kept: events in the store at the end, of those that were acknowledged. Floor: 4 kB "
        "written and synced to that disk.")
REPEAT = 3
JOBS, POINTS, WORKERS, QUICK_WORKERS, SECONDS, PAUSE_S = 10_000, 100_000, 1000, 200, 20, 0.05
BESIDE_S = SECONDS + 10  # events and submissions: until the workers are there, and while they are measured


def synced_write_ms(folder, count=100):
    path, taken = os.path.join(folder, "synced"), []
    with open(path, "wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - start) * 1000)
    os.unlink(path)
    return statistics.median(taken)


def submit_all_the_while(cluster, times, until):
    client, number = records.Client(cluster), 0
    while time.monotonic() < until:
        number += 1
        spec = {"name": f"waits-{number}", "train_data_path": "/data/train.bin", "total_steps": 10, "warmup_steps": 1, "requires": {"nobody": "has"}}
        client.headers["Idempotency-Key"] = spec["name"]
        times.append(client.ask("POST", "/v1/jobs", spec, 201)[0])
        time.sleep(PAUSE_S)


def write_events(cluster, number, times, until):
    try:
        records.write_events(cluster, number, times, until)
    except (http.client.HTTPException, OSError) as error:
        raise SystemExit(f"an event was not answered: {error}") from error


def fill(cluster, programs, address):
    """The records of 10,000 jobs in the service's database, which is not in use."""
    database = os.path.join(cluster.data_dir, "holdfast.sqlite")
    if os.path.exists(database):
        os.unlink(database)
    testbed.output_of([f"{programs}/bench_records_fill", "--database", database, "--jobs", JOBS, "--points", POINTS])
    if address:
        testbed.output_of([f"{testbed.BIN}/holdfast", "store", "copy", "--from", cluster.data_dir, "--to", address])


def events_in(cluster):
    """How many of those that this case posted are in the store."""
    client, after, count = records.Client(cluster), 0, 0
    while True:
        page = json.loads(client.ask("GET", f"/v1/events?after={after}&limit=1000")[1])["events"]
        if not page:
            return count
        count += sum(event["message"].endswith("of a worker that is played") for event in page)
        after = page[-1]["id"]


def loaded(programs, address, workers):
    """Figures of one run."""
    with testbed.Testbed() as cluster:
        cluster.service.signal(15)
        cluster.service.wait_exit()
        fill(cluster, programs, address)
        if address:
            cluster.service_flags += ("--store", address, "--shared_dir", os.path.join(cluster.folder, "shared"))
            os.makedirs(os.path.join(cluster.folder, "shared"))
        testbed.harness.BIN, kept = programs, testbed.harness.BIN
        try:
            cluster.start_service()
        finally:
            testbed.harness.BIN = kept
        events, submissions = [], []
        before, began = service.usage(cluster.service.pid), time.monotonic()
        load = [f"{programs}/bench_service_load", "--server", cluster.url, "--token", cluster.token("worker"), "--workers", workers, "--seconds", SECONDS, "--rounds", 0]
        output = testbed.beside_each_other((testbed.output_of, load), *records.calls_of(write_events, records.WRITERS, cluster, events, BESIDE_S),
                                           (submit_all_the_while, cluster, submissions, time.monotonic() + BESIDE_S))[0]
        said = testbed.json_lines(output)[-1]
        after, wall = service.usage(cluster.service.pid), time.monotonic() - began
        if said["errors"]:
            raise SystemExit(f"{said['errors']} requests of workers failed, the first: {said['first_error']}")
        figures = {"heartbeat p50": said["heartbeat_p50_ms"], "heartbeat p99": said["heartbeat_p99_ms"],
                   "submission p50": records.percentile(submissions, 50), "submission p99": records.percentile(submissions, 99),
                   "event p50": records.percentile(events, 50), "event p99": records.percentile(events, 99),
                   "events a second": len(events) / BESIDE_S, "kept": 100 * events_in(cluster) / len(events),
                   "cpu": (after["cpu_s"] - before["cpu_s"]) / wall, "missed": said["missed"], "floor": synced_write_ms(cluster.folder)}
    print(f"bench/run store: {programs} {address or 'SQLite'}: {figures}", file=sys.stderr, flush=True)
    return figures


def measure(options):
    earlier = os.environ.get("HOLDFAST_BEFORE_BIN")
    workers = QUICK_WORKERS if options.quick else WORKERS
    server = PostgresqlServer().make().start("shared_buffers=128MB")
    runs = {"SQLite": [], "PostgreSQL": [], "SQLite before": []}
    try:
        for _ in range(options.repeat):  # in turn, so that a busy minute falls on all
            runs["SQLite"].append(loaded(testbed.BIN, None, workers))
            if earlier:
                runs["SQLite before"].append(loaded(earlier, None, workers))
            runs["PostgreSQL"].append(loaded(testbed.BIN, server.fresh_address(), workers))
    finally:
        server.close()
    rows = []
    floor = testbed.median([run["floor"] for of_engine in runs.values() for run in of_engine])
    for what, unit, higher in (("heartbeat p50", "ms", False), ("heartbeat p99", "ms", False), ("submission p50", "ms", False), ("submission p99", "ms", False),
                               ("event p50", "ms", False), ("event p99", "ms", False), ("events a second", "1/s", True), ("kept", "%", True),
                               ("cpu", "s/s", False), ("missed", "count", False)):
        sqlite, postgresql, before = (testbed.median([run[what] for run in runs[engine]]) for engine in ("SQLite", "PostgreSQL", "SQLite before"))
        of = floor if what in ("submission p50", "event p50") else None
        rows.append(testbed.row(f"SQLite: {what}", unit, sqlite, reference=before, floor=of, higher_is_better=higher, note=NOTE))
        rows.append(testbed.row(f"PostgreSQL: {what}", unit, postgresql, reference=sqlite, floor=of, higher_is_better=higher, note=NOTE))
    return rows
