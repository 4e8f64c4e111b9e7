"""What each fault does, and how it is taken back, so that a job can go on with all that is left.

An injection happens while the worker waits at its fault point: what it does there is done before the worker goes on."""
import os
import signal

from network import corrupting_wire, full_disk

SLOW_RATE = "10mbit"
LARGE_BYTES = 1000  # more than heartbeats and reports of steps have


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # a training process sees its supervisor die and may be quicker


class Fault:
    """One fault on one worker of a cluster. heal_after_s: how long it lasts; None: for good."""
    heal_after_s = None
    workers_of_a_node = 1

    def __init__(self, cluster, moment, victim, successor):
        self.cluster, self.moment, self.victim, self.successor = cluster, moment, victim, successor

    def prepare(self):
        """Before the victim starts."""

    def aim(self):
        """When the victim runs and its moment has not come."""

    def inject(self):
        raise NotImplementedError

    def heal(self):
        pass

    def check(self):
        """At the end: whether it happened at all."""

    @property
    def node(self):
        return self.cluster.node(self.victim)

    def processes(self):
        return [self.cluster.workers[self.victim].pid, self.cluster.training_pid(self.victim)]


class Kill(Fault):
    pids = ()

    def aim(self):
        self.pids = self.processes()

    def inject(self):
        signal_all(self.pids, signal.SIGKILL)


class Stop(Kill):
    heal_after_s = 5

    def inject(self):
        signal_all(self.pids, signal.SIGSTOP)

    def heal(self):
        signal_all(self.pids, signal.SIGCONT)


class OfPair:
    """Two workers on each node."""
    workers_of_a_node = 2


class KillOneOfPair(OfPair, Kill):
    pass


class StopOneOfPair(OfPair, Stop):
    pass


class KillNode(OfPair, Kill):
    def processes(self):
        beside = [name for name in self.cluster.workers if self.cluster.node(name) is self.node]
        return [pid for name in beside for pid in (self.cluster.workers[name].pid, self.cluster.training_pid(name))]


class Reset(Fault):
    def inject(self):
        self.node.reset_connections()


class Cut(Fault):
    heal_after_s = 5

    def inject(self):
        self.node.cut()

    def heal(self):
        self.node.mend()


class CutNode(OfPair, Cut):
    pass


class OneWay(Fault):
    heal_after_s = 5

    def addresses(self):
        return [node.address for node in self.cluster.network.nodes if node is not self.node]

    def inject(self):
        self.node.cut_to(*self.addresses())

    def heal(self):
        self.node.mend_to(*self.addresses())


class OneWayRing(OneWay):
    heal_after_s = 8

    def addresses(self):
        return [self.cluster.node(self.successor).address]


class OneWayRingForGood(OneWayRing):
    heal_after_s = None


class SlowLink(Fault):
    heal_after_s = 3

    def inject(self):
        self.node.limit(SLOW_RATE)

    def heal(self):
        self.node.unlimit()


class Corrupt(Fault):
    wire = None

    def prepare(self):
        self.wire = corrupting_wire.insert(self.node)

    def inject(self):
        if self.moment == "checkpoint_write":
            self.wire.alter_next(self.cluster.port, to_service=True, at_least=LARGE_BYTES)
        else:
            self.wire.alter_next(self.cluster.port)

    def check(self):
        if not self.wire.altered.is_set():
            raise AssertionError("no byte was altered: nothing that fits went over the wire after the fault point")


class FullDisk(Fault):
    heal_after_s = 3

    def folder(self):
        return self.cluster.data_dir

    def inject(self):
        full_disk.fill(self.folder())

    def heal(self):
        full_disk.free(self.folder())

    def check(self):
        if not self.cluster.service.running():
            raise AssertionError("the service ended, instead of waiting for space")


class FullStore(FullDisk):
    def folder(self):
        return os.path.join(self.cluster.folder, "store")

    def prepare(self):
        self.cluster.mount_disk(self.folder())


class Service(Fault):
    heal_after_s = 3

    def inject(self):
        self.cluster.service.kill()

    def heal(self):
        self.cluster.start_service()


KINDS = {"kill": Kill, "stop": Stop, "reset": Reset, "cut": Cut, "one_way": OneWay, "one_way_ring": OneWayRing,
         "rift": OneWayRingForGood, "slow_link": SlowLink, "corrupt": Corrupt, "full_disk": FullDisk, "full_store": FullStore, "service": Service,
         "pair_kill": KillOneOfPair, "pair_stop": StopOneOfPair, "node_kill": KillNode, "node_cut": CutNode}
