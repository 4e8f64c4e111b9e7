"""Several services, their PostgreSQL, workers and clients, each on a node of its own of a small network, which can be cut.

Promises: what SeveralServices promises; beside it cuts between any of these in one direction or in both, which are all taken back by
mend(). The driver is at the bridge, and may be cut off like a client."""
import os
import signal

import harness
from network import namespaces
from postgresql_server import PostgresqlServer
from several_services import SeveralServices

DRIVER, DRIVERS_ADDRESS = "driver", "10.99.0.254"
WORKERS = ("w1", "w2", "w3", "w4")


class NetworkedServices(SeveralServices):
    interface = "eth0"
    service_flags = ("--allow_insecure",)  # the nodes are all on this machine

    def __init__(self):
        self.network = namespaces.Network()
        self.nodes_by_name = {}
        self.cuts = []  # (from, to) that are in force
        super().__init__(self.make_database("database").start())
        self.database_at(f"{self.node('database').address}:{self.database.port}")
        for name in (*self.names, "clients", *WORKERS):
            self.node(name)

    def make_database(self, name, folder=None):
        """A server on the node of this name."""
        server = PostgresqlServer(name, self.node(name).address, placed=lambda command: self.placed(name, command), folder=folder).make()
        with open(os.path.join(server.data, "pg_hba.conf"), "a", encoding="utf-8") as file:
            file.write("host all all 10.99.0.0/24 trust\n")
        with open(os.path.join(server.data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.write("max_wal_size = 64MB\nmin_wal_size = 32MB\n")  # it may have a small disk
        return server

    def database_at(self, place):
        """Services that start are told this, "ADDRESS:PORT"."""
        self.address = f"postgresql://holdfast@{place}/d1"

    def node(self, name):
        if name not in self.nodes_by_name:
            self.nodes_by_name[name] = self.network.add_node()
        return self.nodes_by_name[name]

    def host_of(self, name):
        return self.node(name).address

    def placed(self, name, arguments):
        return list(self.node(name).command(*arguments))

    # --- cuts

    def address_of(self, name):
        return DRIVERS_ADDRESS if name == DRIVER else self.node(name).address

    def everybody_but(self, *names):
        return [name for name in (DRIVER, *self.nodes_by_name) if name not in names]

    def _way(self, action, sender, receiver):
        address = self.address_of(receiver)
        of_driver = sender == DRIVER
        device = self.network.bridge if of_driver else "eth0"
        words = ["ip", "neighbour", action, address, *(("lladdr", namespaces.NOWHERE) if action == "replace" else ()), "dev", device]
        words += ["nud", "permanent"] if action == "replace" else []
        namespaces.run(*(words if of_driver else self.node(sender).command(*words)))

    def cut(self, name, others, way):
        """`way`, of what `name` has with these: "in" what comes vanishes, "out" what goes, "both"."""
        for other in others:
            for sender, receiver, of in ((name, other, "out"), (other, name, "in")):
                if way in (of, "both"):
                    self._way("replace", sender, receiver)
                    self.cuts.append((sender, receiver))

    def mend(self):
        while self.cuts:
            self._way("del", *self.cuts.pop())

    # --- the state of things

    def metrics_of(self, name):
        try:
            with harness.urllib.request.urlopen(f"{self.url_of(name)}/metrics", timeout=1) as reply:
                return reply.read().decode()
        except OSError:
            return ""

    def wait_settled(self, timeout_s=30):
        """Until one leads, and the others stand by; returns the leader's name."""
        def settled():
            leader = self.find_leader()
            others = [name for name in self.names if self.url_of(name) != leader]
            if leader and all("holdfast_leads 0" in self.metrics_of(name) for name in others):
                return leader
            return None

        self.leader = harness.wait_until(settled, timeout_s, "one service to lead and the other to stand by")
        return self.leader_name()

    def close(self, failed):
        for service in self.services.values():
            service.signal(signal.SIGCONT)
        super().close(failed)
        self.database.close(failed)
        self.network.close()
