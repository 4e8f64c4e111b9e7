"""The ring all-reduce of Tiny's gradient, beside gloo: over loopback and over a shaped link between network namespaces."""
import os
import re
import subprocess

import testbed

TITLE = "All-reduce of 30,142,848 four-byte elements (120.6 MB), two ranks; seconds"
NOTE = ("Floor: the bytes that a ring must send each way, 2 (N-1)/N of the buffer, at the rate of one bare TCP stream measured "
        "between the same two places in this run. Peer: gloo in PyTorch.")
BRIDGE = "hfbench"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class ShapedLink:
    """Two network namespaces on one bridge, each link shaped to `rate` both ways."""

    def __init__(self, rate):
        self.rate = rate

    def __enter__(self):
        self.remove()
        try:
            ip("link", "add", BRIDGE, "type", "bridge")
            ip("link", "set", BRIDGE, "up")
            for i in range(2):
                space, end = f"{BRIDGE}{i}", f"{BRIDGE}v{i}"
                ip("netns", "add", space)
                ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space)
                ip("link", "set", end, "master", BRIDGE, "up")
                ip("-n", space, "addr", "add", f"10.78.0.{i + 1}/24", "dev", "eth0")
                ip("-n", space, "link", "set", "eth0", "up")
                ip("-n", space, "link", "set", "lo", "up")
                shape = ["root", "tbf", "rate", self.rate, "burst", "256kb", "latency", "20ms"]
                subprocess.run(["tc", "qdisc", "add", "dev", end, *shape], check=True, capture_output=True)
                subprocess.run(["tc", "-n", space, "qdisc", "add", "dev", "eth0", *shape], check=True, capture_output=True)
        except (subprocess.CalledProcessError, FileNotFoundError):
            self.remove()
            raise
        return [["ip", "netns", "exec", f"{BRIDGE}{i}"] for i in range(2)]

    def remove(self):
        for i in range(2):
            subprocess.run(["ip", "netns", "del", f"{BRIDGE}{i}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)

    def __exit__(self, *_):
        self.remove()


def ours(where, hosts, dtype):
    addresses = ",".join(f"{host}:{29600 + rank}" for rank, host in enumerate(hosts))
    text = testbed.run_together([[*where[rank], f"{testbed.BIN}/bench_allreduce", "--rank", rank, "--world", 2, "--addresses", addresses,
                                  "--dtype", dtype] for rank in range(2)])
    return [line["seconds"] for line in testbed.json_lines(text)]


def gloo(where, hosts, interface, peers):
    script = os.path.join(peers, "gloo_allreduce.py")
    text = testbed.run_together([[*where[rank], "env", f"GLOO_SOCKET_IFNAME={interface}", testbed.PYTHON, script, rank, 2, hosts[0]]
                                 for rank in range(2)])
    return [float(s) for s in re.findall(r"in ([\d.]+) s", text)]


def measure_place(name, where, hosts, interface, options):
    mine, integers, theirs = [], [], []
    for _ in range(options.repeat):
        mine += ours(where, hosts, "float32")
        integers += ours(where, hosts, "int32")
        if options.peers:
            theirs += gloo(where, hosts, interface, options.peers)
    rate = testbed.plain_tcp_rate(connect_in=where[1], listen_in=where[0], host=hosts[0])
    floor = 4 * testbed.TINY_PARAMETERS / rate
    peer = testbed.median(theirs)
    return [testbed.row(f"{name}, float32", "s", testbed.median(mine), peer, floor, note=NOTE),
            testbed.row(f"{name}, int32 (exact)", "s", testbed.median(integers), peer, floor, note=NOTE)]


def measure(options):
    rows = measure_place("loopback", [[], []], ["127.0.0.1", "127.0.0.1"], "lo", options)
    try:
        with ShapedLink("1gbit") as where:
            rows += measure_place("1 Gbit/s link", where, ["10.78.0.1", "10.78.0.2"], "eth0", options)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        rows.append(testbed.row("1 Gbit/s link", f"left out: network namespaces take root ({reason})", None))
    return rows
