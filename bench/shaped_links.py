"""Nodes on one switch: network namespaces on a bridge, each link shaped to a rate both ways. Needs root."""
import subprocess

BRIDGE = "hfbench"
NODES_MAX = 8


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def address(node):
    return f"10.78.0.{node + 1}"


class ShapedLinks:
    """`with ShapedLinks("1gbit", 4) as where:` the commands that run another in each node."""

    def __init__(self, rate, nodes):
        self.rate, self.nodes = rate, nodes

    def __enter__(self):
        self.remove()
        try:
            ip("link", "add", BRIDGE, "type", "bridge")
            ip("link", "set", BRIDGE, "up")
            for node in range(self.nodes):
                self.add(node)
        except (subprocess.CalledProcessError, FileNotFoundError):
            self.remove()
            raise
        return [["ip", "netns", "exec", f"{BRIDGE}{node}"] for node in range(self.nodes)]

    def add(self, node):
        space, end = f"{BRIDGE}{node}", f"{BRIDGE}v{node}"
        ip("netns", "add", space)
        ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("link", "set", end, "master", BRIDGE, "up")
        ip("-n", space, "addr", "add", f"{address(node)}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", space, "link", "set", "lo", "up")
        shape = ["root", "tbf", "rate", self.rate, "burst", "256kb", "latency", "20ms"]
        subprocess.run(["tc", "qdisc", "add", "dev", end, *shape], check=True, capture_output=True)
        subprocess.run(["tc", "-n", space, "qdisc", "add", "dev", "eth0", *shape], check=True, capture_output=True)

    def remove(self):
        for node in range(NODES_MAX):  # those of an earlier run with more nodes, too
            # The kernel would take a link away with its namespace, but in its own time.
            subprocess.run(["ip", "link", "del", f"{BRIDGE}v{node}"], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "del", f"{BRIDGE}{node}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)

    def __exit__(self, *_):
        self.remove()
