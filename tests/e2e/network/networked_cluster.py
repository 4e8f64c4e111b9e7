"""A service and workers in network namespaces: each on a node of its own, as on machines that share a switch.

Promises: what harness.Cluster promises; beside it a node for every program, by its name, and a data directory of the service on
a disk of its own that can be filled."""
import os

import harness
from network import namespaces

DISK_MB = 32


class NetworkedCluster(harness.Cluster):
    interface = "eth0"
    model = {}  # what is other than in harness.small_spec

    def __init__(self):
        self.network = namespaces.Network()
        self.nodes_by_name = {"service": self.network.add_node()}
        self.host = self.node("service").address
        self.service_flags = ("--allow_insecure",)  # the nodes are all on this machine
        super().__init__()
        self.disks = []
        self.mount_disk(self.data_dir)

    def node(self, name):
        if name not in self.nodes_by_name:
            self.nodes_by_name[name] = self.network.add_node()
        return self.nodes_by_name[name]

    def put_together(self, names, of_a_node):
        """So many of these on each node, in their order."""
        for number, name in enumerate(names):
            self.nodes_by_name[name] = self.node(names[number - number % of_a_node])

    def placed(self, name, arguments):
        return self.node(name).command(*arguments)

    # --- disks

    def mount_disk(self, folder):
        """A small disk at `folder`."""
        os.mkdir(folder)
        namespaces.run("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0700", "disk", folder)
        self.disks.append(folder)

    def close(self, failed):
        """The disks go with the driver's namespaces; after a failure what is on them is put beside the logs."""
        self.kill_everything()
        for folder in self.disks:
            if failed:
                namespaces.run("cp", "-r", folder, folder + ".kept")
            namespaces.run("umount", folder)
        super().close(failed)
        self.network.close()
