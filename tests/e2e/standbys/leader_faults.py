#!/usr/bin/python3
"""Random faults of the service that leads, with real processes in network namespaces: two services, one PostgreSQL, four workers that
train one job without a pause, and clients that submit small jobs all the time and follow all events.

    tests/e2e/standbys/leader_faults.py --faults 20 --write bench/FAULTS.md     each kind so often, in any order: three quarters of an hour
    tests/e2e/standbys/leader_faults.py --faults 3 --kinds kill,freeze          some kinds
    tests/e2e/standbys/leader_faults.py --short                                 a few, for every change
    --seed N    the order and all moments; one is chosen and printed where none is given

Exit status: 0 every promise was kept (nothing acknowledged lost or made twice, each event once and in order, every step once, the bits of
a run that nobody disturbed), 1 one was not, 2 bad arguments, 77 this machine has no network namespaces for us. Times are shown, and
judged in the table alone."""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import random_faults  # noqa: E402  (needs the path above)
from leader_report import OF_LEADER  # noqa: E402
from networked_services import NetworkedServices  # noqa: E402
from random_faults import Kind  # noqa: E402

SHORT = ("freeze", "database in", "clients both")


def kill(cluster, name):
    cluster.services[name].kill()


def start_again(cluster, name):
    cluster.start_one(name)


def freeze(cluster, name):
    cluster.services[name].signal(signal.SIGSTOP)


def thaw(cluster, name):
    cluster.services[name].signal(signal.SIGCONT)


def cut(others, way):
    return lambda cluster, name: cluster.cut(name, others(cluster, name), way)


def mend(cluster, _name):
    cluster.mend()


OTHERS = {
    "database": ("the database", lambda _cluster, _name: ["database"]),
    "clients": ("all workers and clients, not from the other service", lambda cluster, _name: cluster.everybody_but("database", *cluster.names)),
    "rest": ("all but the database", lambda cluster, name: cluster.everybody_but("database", name)),
    "all": ("all others", lambda cluster, name: cluster.everybody_but(name)),
}
WAYS = {"both": "nothing passes", "in": "what comes vanishes, what it sends arrives", "out": "what it sends vanishes, what comes arrives"}
KINDS = {
    "kill": Kind("kill -9, started again later", kill, start_again),
    "freeze": Kind("SIGSTOP, SIGCONT later", freeze, thaw),
    **{f"{others} {way}": Kind(f"cut off from {text}: {WAYS[way]}", cut(names, way), mend)
       for others, (text, names) in OTHERS.items() for way in WAYS if others != "rest" or way == "both"},
}


if __name__ == "__main__":
    sys.exit(random_faults.main(__doc__, KINDS, SHORT, NetworkedServices, OF_LEADER, "tests/e2e/standbys/leader_faults.py"))
