"""The all-reduce of Tiny's gradient with and without TLS on its connections (a job's ring_tls): over loopback, where processors are the
limit, and between two nodes on shaped links, where the network is."""
import subprocess

import shaped_links
import testbed
from cases import allreduce

TITLE = "All-reduce of 30,142,848 elements over sockets, encrypted (beside: plain); MB/s that each rank sends"
NOTE = ("Ratio: the encrypted ring's share of the plain one's rate, measured in turn with it. One thread a rank sends, receives, seals and "
        "opens; over loopback two ranks have a processor each.")
WIRES = ("int32", "int16")


def rates(where, hosts, wire, options):
    """(encrypted, plain), in MB/s, measured in turn."""
    taken = {"--encrypted": [], None: []}
    for _ in range(options.repeat):
        for flag, seconds in taken.items():
            seconds += allreduce.ours(where, hosts, wire, "--flat", *([flag] if flag else []))
    megabytes = testbed.TINY_PARAMETERS * (4 if wire == "int32" else 2) / 1e6  # two ranks: each sends all of it
    return tuple(megabytes / testbed.median(seconds) for seconds in taken.values())


def rows_of(name, where, hosts, options):
    rows = []
    for wire in WIRES:
        encrypted, plain = rates(where, hosts, wire, options)
        rows.append(testbed.row(f"{name}, 2 ranks, {wire}", "MB/s", encrypted, reference=plain, higher_is_better=True, note=NOTE))
    return rows


def measure(options):
    rows = rows_of("loopback", [[], []], ["127.0.0.1", "127.0.0.1"], options)
    try:
        with shaped_links.ShapedLinks(allreduce.RATE, 2) as where:
            rows += rows_of(allreduce.RATE_NAME, where, [shaped_links.address(node) for node in (0, 1)], options)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        rows.append(testbed.row(f"{allreduce.RATE_NAME}, 2 ranks", f"left out: network namespaces take root ({reason})", None, note=NOTE))
    return rows
