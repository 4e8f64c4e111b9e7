"""Shared by the scripts that run workers over shaped links: a cluster whose programs are each on a node of their own."""
import os
import sys

import testbed  # the first: it says where the end-to-end tests' modules are
from network import namespaces
from network import networked_cluster

BURST = "256kb"
NEVER = 1_000_000  # steps: the job is still under way when everything is ended
STEP_TIMEOUT_S = 900


def run(measure, *, program=None):
    """Calls measure(cluster) in network namespaces of this machine (root, or unprivileged namespaces). `program`: instead of
    holdfast-worker."""
    reason = namespaces.reason_not_to_run()
    if reason:
        raise SystemExit(f"bench/{os.path.basename(sys.argv[0])}: {reason}")
    namespaces.enter()
    cluster = networked_cluster.NetworkedCluster()
    if program:
        cluster.worker_program = os.path.abspath(program)
    failed = True
    try:
        measure(cluster)
        failed = False
    finally:
        cluster.close(failed)


def limit(cluster, names, rate):
    """The links of these workers' nodes are shaped; `rate` as tc writes it."""
    for name in names:
        cluster.node(name).limit(rate, BURST)
