#!/usr/bin/python3
"""Random faults of the PostgreSQL server that several services share, with real processes in network namespaces: it is killed, stopped,
replaced by its synchronous replica, its disk is full, and connections to it end in the middle of a commit. Meanwhile four workers
train one job without a pause, and clients submit small jobs all the time and follow all events.

    tests/e2e/standbys/postgresql_faults.py --faults 5 --write bench/FAULTS.md      each kind so often, in any order
    tests/e2e/standbys/postgresql_faults.py --faults 3 --kinds killed,"disk full"   some kinds
    --seed N    the order and all moments; one is chosen and printed where none is given

Exit status: 0 every promise was kept (nothing acknowledged lost or made twice, each event once and in order, every step once, the bits of
a run that nobody disturbed), 1 one was not, 2 bad arguments, 77 this machine has no network namespaces for us. Times are shown, and
judged in the table alone."""
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
import random_faults  # noqa: E402
from clients import PARKED  # noqa: E402
from database_proxy import DatabaseProxy  # noqa: E402
from leader_report import OF_DATABASE  # noqa: E402
from network import full_disk, namespaces  # noqa: E402
from networked_services import DRIVERS_ADDRESS, NetworkedServices  # noqa: E402
from postgresql_server import PostgresqlServer  # noqa: E402
from random_faults import Kind  # noqa: E402

SHORT = ("killed", "commit cut after")
DISK_MB = 320
PROXY_PORT = 6001
NODES = ("database", "database2")
SYNCHRONOUS = "replica"


class ServicesAndReplica(NetworkedServices):
    """Two places for a database, each with a small disk of its own; the second is empty until a replica is made. A proxy leads to the one
    that takes writes, as an address that moves with it would."""

    def __init__(self):
        self.disks = {}
        super().__init__()
        self.at = 0  # the place of the one that takes writes
        self.servers = [self.database, None]
        addresses = [self.node(name).address for name in NODES]
        self.proxy = DatabaseProxy((DRIVERS_ADDRESS, PROXY_PORT), lambda: (addresses[self.at], 5432))
        self.database_at(f"{DRIVERS_ADDRESS}:{PROXY_PORT}")

    def make_database(self, name, folder=None):
        return super().make_database(name, self.disk(name))

    def disk(self, name):
        folder = os.path.join("/tmp", f"holdfast-pg-disk-{os.getpid()}-{name}")
        os.makedirs(folder)
        namespaces.run("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0755", "disk", folder)
        self.disks[name] = folder
        return folder

    def make_replica(self):
        """At the other place; it has everything before anybody is answered."""
        other = 1 - self.at
        name = NODES[other]
        if self.servers[other] is not None:
            self.servers[other].close()
        if name in self.disks:
            namespaces.run("umount", self.disks[name])
            os.rmdir(self.disks[name])
        replica = PostgresqlServer(name, self.node(name).address, placed=lambda command: self.placed(name, command), folder=self.disk(name))
        replica.follow(self.database, SYNCHRONOUS)
        self.servers[other] = replica
        self.database.query(f"ALTER SYSTEM SET synchronous_standby_names = '{SYNCHRONOUS}'")
        self.database.query("SELECT pg_reload_conf()")
        harness.wait_until(lambda: self.database.query("SELECT sync_state FROM pg_stat_replication") == "sync", 20, "the replica to be synchronous")

    def fail_over(self):
        replica = self.servers[1 - self.at]
        self.database.kill()
        replica.query("ALTER SYSTEM RESET synchronous_standby_names")
        replica.query("SELECT pg_reload_conf()")
        replica.promote()
        self.at = 1 - self.at
        self.database = replica

    def close(self, failed):
        self.proxy.close()
        super().close(failed)
        for server in self.servers:
            if server is not None:
                server.close(failed)
        for folder in self.disks.values():
            if failed:
                shutil.copytree(folder, folder + ".kept", dirs_exist_ok=True, ignore=lambda _, names: [n for n in names if n in ("ballast", "base", "pg_wal") or n.startswith(".s.")])
            namespaces.run("umount", folder)
            os.rmdir(folder)


def kill(cluster, _leader):
    cluster.database.kill()


def stop_fast(cluster, _leader):
    cluster.database.process.signal(signal.SIGINT)
    cluster.database.process.wait_exit()


def start(cluster, _leader):
    cluster.database.start()


def fill_disk(cluster, _leader):
    full_disk.fill(cluster.database.folder)


def free_disk(cluster, _leader):
    """A server that did not outlive it is started, as a service manager would."""
    full_disk.free(cluster.database.folder)
    if not cluster.database.process.running():
        cluster.database.start()


def cut_commit(when):
    def inject(cluster, _leader):
        cluster.proxy.cut_next(PARKED.split("=")[1].encode(), when)
        harness.wait_until(cluster.proxy.cut.is_set, 30, "a submission to be committed")
        return cluster.proxy.cut_at
    return inject


KINDS = {
    "killed": Kind("kill -9 of the server, started again later", kill, start, counts_from_heal=True),
    "stopped": Kind("stopped in fast mode, started again later", stop_fast, start, counts_from_heal=True),
    "failed over": Kind("kill -9 of the server, its synchronous replica is promoted", lambda cluster, _: cluster.fail_over(),
                        prepare=lambda cluster, _: cluster.make_replica()),
    "disk full": Kind("not a byte fits on the disk of the server, with its log; freed later", fill_disk, free_disk, counts_from_heal=True),
    "commit cut before": Kind("the leader's connection ends at the COMMIT of a submission, of which the server never hears", cut_commit("before")),
    "commit cut after": Kind("the same, when the server has done it and nobody knows", cut_commit("after")),
}

if __name__ == "__main__":
    sys.exit(random_faults.main(__doc__, KINDS, SHORT, ServicesAndReplica, OF_DATABASE, "tests/e2e/standbys/postgresql_faults.py"))
