"""The all-reduce of Tiny's gradient in each wire type, beside gloo: of one node, in memory and over loopback, between 2 and 4 nodes on shaped links, and between
2 nodes of 2 ranks, which share memory."""
import os
import subprocess

import peer_python
import shaped_links
import testbed
import wires

TITLE = "All-reduce of 30,142,848 elements (120.6 MB in four bytes); seconds"
NOTE = ("Floor: the bytes that the ring must send each way in this wire type (bench/wires.py: 2 (N-1)/N of the buffer, and more for int8 "
        "from 3 ranks on) at the rate of one bare TCP stream measured between two of the same places in this run. Two ranks of one node share memory, which has no floor here, and gloo's use loopback, as ours do in the rows of that name. Peer: gloo in PyTorch, "
        "float32 in one piece; at its best in pieces of 25 MB, as DDP's buckets are, or of 6, that are under way together, beside types of two bytes and one in float16, too, "
        "as DDP's fp16_compress_hook sends it, whichever is quickest. Rounding to floats of two bytes or one and back counts on both sides; of integers both are the "
        "all-reduce alone: a job's gradient becomes integers where it is added up, and one in float16 beside int16 is float16 before and after.")
PIECES = tuple(megabytes * 2**20 // 4 for megabytes in (6, 25))  # elements
FULL, HALF, HALF_ALONE = "float32", "float16", "float16_alone"  # of the peer
RATE, RATE_NAME = "1gbit", "1 Gbit/s links"
WIRES = {2: ("float32", "int32", "int16", "bfloat16", "int8"), 4: ("float32", "int32", "int16")}


def ours(where, hosts, wire, *flags):
    addresses = ",".join(f"{host}:{testbed.harness.free_port()}" for host in hosts)
    text = testbed.run_together([[*place, f"{testbed.BIN}/bench_allreduce", "--rank", rank, "--world", len(where), "--addresses",
                                  addresses, "--dtype", wire, *flags] for rank, place in enumerate(where)])
    return [line["seconds"] for line in testbed.json_lines(text)]


def ways_of(setup):
    """(type, flags) of gloo in this set-up."""
    if setup == peer_python.AS_INSTALLED:
        return [(FULL, ())]
    return [(wire, ("--wire", wire, "--piece", piece)) for wire in (FULL, HALF, HALF_ALONE) for piece in PIECES]


def gloo(where, hosts, interface, setup, flags):
    master = f"{hosts[0]}:{testbed.harness.free_port()}"
    text = testbed.run_together([[*place, "env", f"GLOO_SOCKET_IFNAME={interface}",
                                  *testbed.PEER.script("all_reduce.py", "--rank", rank, "--world", len(where), "--master", master,
                                                       *flags, setup=setup)] for rank, place in enumerate(where)])
    return [line["seconds"] for line in testbed.json_lines(text)]


def quickest_beside(wire, theirs):
    """{set-up: seconds}, of gloo in as many bytes an element as ours or, where ours has fewer, in the quicker of its types."""
    medians, half = {}, HALF_ALONE if wires.reduction_of(wire) == "exact" else HALF
    for (setup, kind, _), seconds in theirs.items():
        if kind == FULL or (kind == half and wires.ELEMENT_BYTES[wire] < wires.ELEMENT_BYTES[FULL]):
            medians.setdefault(setup, []).append(testbed.median(seconds))
    return {setup: min(each) for setup, each in medians.items()}


def measure_place(name, where, hosts, interface, options, nodes_of_ring=None, flags=()):
    """nodes_of_ring: where it is not one for each rank; one alone has no ring. flags: of bench_allreduce."""
    world = len(where)
    taken, theirs = {wire: [] for wire in WIRES[world]}, {(setup, *way): [] for setup in testbed.PEER.setups for way in ways_of(setup)}
    for _ in range(options.repeat):  # in turn, so that a busy minute falls on all
        for wire, seconds in taken.items():
            seconds += ours(where, hosts, wire, *flags)
        for (setup, _, more), seconds in theirs.items():
            seconds += gloo(where, hosts, interface, setup, more)
    rate = testbed.plain_tcp_rate(connect_in=where[-1], listen_in=where[0], host=hosts[0])
    rows, nodes = [], nodes_of_ring or world
    for wire, seconds in taken.items():
        exact = " (exact)" if wires.reduction_of(wire) == "exact" else ""
        rows.append(testbed.row(f"{name}, {world} ranks, {wire}{exact}", "s", testbed.median(seconds), quickest_beside(wire, theirs),
                                floor=wires.bytes_each_way(wire, testbed.TINY_PARAMETERS, nodes) / rate if nodes > 1 else None))
    return rows


def sent_bytes(nodes):
    return sum(int(testbed.output_of([*node, "cat", "/sys/class/net/eth0/statistics/tx_bytes"])) for node in nodes)


def measure_pairs(options):
    """Two nodes of two ranks: the time beside gloo's, and the bytes between the nodes beside those of one ring of all ranks."""
    with shaped_links.ShapedLinks(RATE, 2) as nodes:
        where = [nodes[0], nodes[0], nodes[1], nodes[1]]
        hosts = [shaped_links.address(node) for node in (0, 0, 1, 1)]
        rows = measure_place(f"{RATE_NAME}, 2 nodes of 2", where, hosts, "eth0", options, nodes_of_ring=2)
        sent = {}
        for flags in ((), ("--flat",)):
            before = sent_bytes(nodes)
            ours(where, hosts, "int32", "--iterations", 3, *flags)
            sent[flags] = (sent_bytes(nodes) - before) / 3e6
    rows.append(testbed.row(f"{RATE_NAME}, 2 nodes of 2 ranks, int32: sent between the nodes (beside: one ring of all ranks)", "MB", sent[()],
                            reference=sent[("--flat",)]))
    return rows


def measure(options):
    rows = [row for name, nodes, flags in (("one node, in memory", 1, ()), ("loopback", 2, ("--flat",)))
            for row in measure_place(name, [[], []], ["127.0.0.1", "127.0.0.1"], "lo", options, nodes_of_ring=nodes, flags=flags)]
    for world in sorted(WIRES):
        try:
            with shaped_links.ShapedLinks(RATE, world) as where:
                hosts = [shaped_links.address(node) for node in range(world)]
                rows += measure_place(RATE_NAME, where, hosts, "eth0", options)
            if world == 4:
                rows += measure_pairs(options)
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip()
            rows.append(testbed.row(f"{RATE_NAME}, {world} ranks", f"left out: network namespaces take root ({reason})", None))
    shares = "; ".join(f"{each['case']} {100 * each['floor'] / each['ours']:.0f} %" for each in rows if each["floor"])
    for each in rows:
        each["note"] = f"{NOTE} Of plain TCP's rate ours has: {shares}."
    return rows
