"""A small network of its own for the tests: each node in a network namespace, all of them on one bridge.

Promises: the driver moves into namespaces of its own first (network, mounts, processes), so nothing of it is seen from outside, two
runs at a time do not meet, and all of it is gone when the driver is, however it ends. Each node is one end of a pair of
virtual Ethernet devices: `eth0` inside, `linkN` at the bridge. What is done to a link is what a cable, a switch or a neighbour
could do: frames that vanish in both directions or in one, a slow link, reset connections.
Refuses to begin where the machine does not let it (reason_not_to_run), and says why."""
import os
import shutil
import signal
import subprocess
import sys

INSIDE = "HOLDFAST_E2E_INSIDE"  # set for the driver once it is in namespaces of its own
NOWHERE = "02:00:00:00:00:01"  # a hardware address that nobody has
TOOLS = ("unshare", "nsenter", "ip", "bridge", "tc", "ss")


def run(*arguments):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, arguments))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def own_namespaces():
    """The command that starts another in namespaces of its own; without root, as the root of a user namespace."""
    as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *as_root, "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
            "--mount-proc", "--")


def reason_not_to_run():
    """Why this machine cannot do it, or None."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    if missing:
        return f"{', '.join(missing)} not found: install iproute2 and util-linux"
    try:
        run(*own_namespaces(), "sh", "-c", "ip link add probe type bridge && ip link add probe0 type veth peer name probe1")
    except OSError as error:
        return f"no network namespaces with bridges and virtual links here ({error}); root, or unprivileged namespaces, are needed"
    return None


def enter():
    """Starts this program again in namespaces of its own, unless it is there already."""
    if INSIDE not in os.environ:
        os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        os.environ[INSIDE] = "1"
        sys.stdout.flush()
        os.execvp("unshare", [*own_namespaces(), sys.executable, "-B", *sys.argv])
    # The first process of a namespace is not ended by a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    run("ip", "link", "set", "lo", "up")


def entered():
    """Whether this program is in namespaces of its own now; where this machine cannot do it the reason is printed."""
    reason = None if INSIDE in os.environ else reason_not_to_run()
    if reason:
        print(f"skipped: {reason}")
        return False
    enter()
    return True


class Node:
    """One namespace; commands run in it, and its link can be made to fail."""

    def __init__(self, network, number):
        self.address = f"10.99.0.{number}"
        self.link = f"link{number}"
        self.links = [self.link]  # on the driver's side, to be deleted with the node
        # The namespace lives as long as a process in it: this one ends when the driver does, for then its input ends.
        self.holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            self._connect(network)
        except OSError:
            self.close()
            raise

    def _connect(self, network):
        wait_for_namespace(self.holder.pid)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.holder.pid)
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")
        run("ip", "link", "set", self.link, "master", network.bridge, "up")

    def command(self, *arguments):
        return ("nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *arguments)

    def inside(self, *arguments):
        return run(*self.command(*arguments))

    def close(self):
        # The kernel would take the link away with the namespace, but in its own time.
        for link in self.links:
            subprocess.run(["ip", "link", "del", link], stderr=subprocess.DEVNULL, check=False)
        self.holder.stdin.close()
        self.holder.wait()

    # --- what happens to the link

    def cut(self):
        """Frames vanish in both directions; nobody is told, the link stays up."""
        run("bridge", "link", "set", "dev", self.link, "state", "disabled")

    def mend(self):
        run("bridge", "link", "set", "dev", self.link, "state", "forwarding")

    def cut_to(self, *addresses):
        """What this node sends to these vanishes; what they send arrives."""
        for address in addresses:
            self.inside("ip", "neighbour", "replace", address, "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent")

    def mend_to(self, *addresses):
        for address in addresses:
            self.inside("ip", "neighbour", "del", address, "dev", "eth0")

    def limit(self, rate, burst="16kb"):
        """Both directions; e.g. 10mbit. A fast link needs a burst of what it carries between two ticks of the kernel's clock."""
        shape = ("root", "tbf", "rate", rate, "burst", burst, "latency", "100ms")
        run("tc", "qdisc", "replace", "dev", self.link, *shape)
        self.inside("tc", "qdisc", "replace", "dev", "eth0", *shape)

    def unlimit(self):
        run("tc", "qdisc", "del", "dev", self.link, "root")
        self.inside("tc", "qdisc", "del", "dev", "eth0", "root")

    def reset_connections(self):
        """Every TCP connection of the node is aborted with RST, at both ends."""
        if not self.inside("ss", "--kill", "--tcp", "--no-header", "state", "established").strip():
            raise OSError("no connection was reset: has this kernel INET_DIAG_DESTROY?")  # ss says nothing of that


class Network:
    """A bridge with an address for the driver, and nodes."""

    bridge = "bridge0"

    def __init__(self):
        self.nodes = []
        run("ip", "link", "add", self.bridge, "type", "bridge", "forward_delay", "0")
        run("ip", "address", "add", "10.99.0.254/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")

    def add_node(self):
        self.nodes.append(Node(self, len(self.nodes) + 1))
        return self.nodes[-1]

    def close(self):
        for node in self.nodes:
            node.close()
        run("ip", "link", "del", self.bridge)


def wait_for_namespace(pid):
    """Until the process is in another network namespace than this one: it has executed what it was started for."""
    mine = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{pid}/ns/net") == mine:
        os.sched_yield()
