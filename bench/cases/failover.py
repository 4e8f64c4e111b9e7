"""The service that leads fails, beside a PostgreSQL primary under Patroni that does: until a write is acknowledged again."""
import os
import signal
import sys
import time

import peer_python
import testbed
from peers import patroni_cluster

sys.path.insert(0, os.path.join(testbed.ROOT, "tests", "e2e", "standbys"))
from postgresql_server import PostgresqlServer  # noqa: E402  (needs the path above)
from several_services import SeveralServices  # noqa: E402

TITLE = "The one that leads is killed with -9, or stopped; seconds until a write is acknowledged again"
NOTE = ("Ours: two services with one PostgreSQL, the leading process is killed, or stopped (SIGSTOP), and `holdfast submit` is run one after the "
        "other; the database lives on. Peer: Patroni over one etcd with its default settings (ttl 30, loop_wait 10, retry_timeout 10), and with "
        "the least that it takes (20, 1, 3); two PostgreSQL servers; Patroni and PostgreSQL of the primary are killed, or stopped, together, and psql writes a row, one after the "
        "other, at whichever server takes it. All on this machine. There is no ratio, for they do not do the same: Patroni replaces a database, Holdfast a service; a Holdfast "
        "whose database is under Patroni waits for both.")
REPEAT = 3
PATIENCE_S, PAUSE_S = 180, 0.1
SETTINGS = dict(zip(peer_python.SETUPS, (patroni_cluster.DEFAULTS, patroni_cluster.LEAST)))
FAULTS = (("kill -9", signal.SIGKILL), ("SIGSTOP", signal.SIGSTOP))


def until_written(write):
    began = time.monotonic()
    while not write():
        if time.monotonic() > began + PATIENCE_S:
            raise SystemExit(f"bench/run failover: nothing was written for {PATIENCE_S} s")
        time.sleep(PAUSE_S)
    return time.monotonic() - began


def ours(server, number):
    cluster, failed = SeveralServices(server), True
    try:
        cluster.start_service()
        train, _ = testbed.harness.write_training_files(cluster.folder)
        testbed.harness.wait_until(lambda: all(stands_by(cluster, name) for name in cluster.standby_names()), 20, "the other service to stand by")

        def submit():
            try:
                return cluster.cli("submit", "--train_data_path", train, "--vocab_size", "256", "--total_steps", "20").startswith("j")
            except AssertionError:
                return False

        cluster.services[cluster.leader_name()].signal(number)
        taken = until_written(submit)
        failed = False
        return taken
    finally:
        for service in cluster.services.values():
            service.signal(signal.SIGCONT)
        cluster.close(failed)


def stands_by(cluster, name):
    try:
        with testbed.harness.urllib.request.urlopen(f"{cluster.url_of(name)}/metrics", timeout=1) as reply:
            return "holdfast_leads 0" in reply.read().decode()
    except OSError:
        return False


def patronis(number, settings):
    cluster = patroni_cluster.PatroniCluster(settings)
    try:
        cluster.begin()
        until_written(cluster.write)
        time.sleep(settings["loop_wait"] / 2)  # a moment in the middle of its loop
        (cluster.kill if number == signal.SIGKILL else cluster.freeze)("one")
        return until_written(cluster.write)
    finally:
        cluster.close()


def measure(options):
    missing = patroni_cluster.missing()
    note = NOTE
    if missing:
        note += f" Patroni was not measured: {' and '.join(missing)} not found; ops/setup --failover installs it."
    server = PostgresqlServer().make().start()
    rows = []
    try:
        for name, number in FAULTS:
            mine, theirs = [], {setup: [] for setup in ([] if missing else SETTINGS)}
            for _ in range(options.repeat):
                mine.append(ours(server, number))
                for setup, taken in theirs.items():
                    taken.append(patronis(number, SETTINGS[setup]))
                print(f"bench/run failover: {name}: ours {mine[-1]:.2f} s, Patroni's {[taken[-1] for taken in theirs.values()]}", file=sys.stderr, flush=True)
            rows.append(testbed.row(f"{name}: median", "s", testbed.median(mine), testbed.by_setup(theirs), is_alike=False, note=note))
            rows.append(testbed.row(f"{name}: longest", "s", max(mine), {setup: max(taken) for setup, taken in theirs.items()}, is_alike=False, note=note))
    finally:
        server.close()
    return rows
