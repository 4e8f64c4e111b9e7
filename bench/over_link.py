"""Shared by the scripts that run workers over shaped links: a cluster whose programs are each on a node of their own."""
import json
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


def main(parser, measure):
    """Measures with the options of `parser`, and of --rate, and prints what was found as one JSON object."""
    parser.add_argument("--rate", default="1gbit", help="of each node's link, as tc writes it")
    options = parser.parse_args()
    run(lambda cluster: print(json.dumps(measure(cluster, options))))


def limit(cluster, names, rate):
    """The links of these workers' nodes are shaped; `rate` as tc writes it."""
    for name in names:
        cluster.node(name).limit(rate, BURST)
