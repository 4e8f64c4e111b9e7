"""Nodes with a real sshd each, in network namespaces, for workers that are launched over ssh.

Promises: what NetworkedCluster promises; beside it keys that are made for the test, and processes of a node that end all at once
when it loses power. Nothing of the machine's own sshd, keys and configuration is read or touched."""
import os
import shutil
import signal

from network import namespaces, networked_cluster
from processes import Process, wait_until

SSHD = "/usr/sbin/sshd"
SERVER = """Port 22
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 50
SetEnv {environment}
"""
CLIENT = """Host node*
User root
IdentityFile {folder}/key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
StrictHostKeyChecking yes
"""


def reason_not_to_run():
    """Why this machine cannot do it, or None."""
    if not os.path.exists(SSHD) or shutil.which("ssh") is None:
        return "no sshd or no ssh: ops/setup --clusters installs them"
    if os.geteuid() != 0:
        return "sshd takes root, to become the user who logs in"
    return namespaces.reason_not_to_run()


def children_of(pid, program):
    found = []
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        for child in file.read().split():
            with open(f"/proc/{child}/comm", encoding="utf-8") as name:
                if name.read().strip() == program:
                    found.append(child)
    return found


class SshCluster(networked_cluster.NetworkedCluster):
    """The service on a node of its own; workers on node1, node2, … where sshd runs. People type their commands on the driver's side."""

    def __init__(self, count, worker_environment):
        super().__init__()
        self.ssh = os.path.join(self.folder, "ssh")
        os.mkdir(self.ssh)
        namespaces.run("mount", "-t", "tmpfs", "tmpfs", "/run")  # of the driver's own mounts: sshd wants a folder there
        os.mkdir("/run/sshd")
        for key in ("key", "host_key"):
            namespaces.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.ssh}/{key}")
        self.names = [f"node{number}" for number in range(1, count + 1)]
        self.worker_environment = {"HOLDFAST_E2E_MARK": self.mark, "XDG_STATE_HOME": f"{self.folder}/state", "HOLDFAST_THREADS": "1",
                                   "HOLDFAST_INTERFACE": "eth0", "HOLDFAST_LOCKS": self.folder, **worker_environment}
        self.machines = {}
        for name in self.names:
            self.node(name)
        self._write_client()
        self._name_hosts()
        for name in self.names:
            self.power_on(name)

    def _write_client(self):
        with open(f"{self.ssh}/host_key.pub", encoding="ascii") as file:
            host_key = " ".join(file.read().split()[:2])
        with open(f"{self.ssh}/known_hosts", "w", encoding="ascii") as file:
            file.writelines(f"{name} {host_key}\n" for name in self.names)
        self.client = f"{self.ssh}/client.conf"
        with open(self.client, "w", encoding="ascii") as file:
            file.write(CLIENT.format(folder=self.ssh))

    def _name_hosts(self):
        hosts = os.path.join(self.ssh, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{self.node(name).address} {name}\n" for name in self.names)
        namespaces.run("mount", "--bind", hosts, "/etc/hosts")

    def power_on(self, name):
        """The node's processes end with the first of them."""
        configuration = f"{self.ssh}/{name}.conf"
        with open(configuration, "w", encoding="ascii") as file:
            environment = " ".join(f'"{key}={value}"' for key, value in self.worker_environment.items())
            file.write(SERVER.format(address=self.node(name).address, folder=self.ssh, environment=environment))
        command = self.node(name).command("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--", "sh", "-c",
                                          'hostname "$0"; trap "" CHLD; exec sleep infinity', name)
        self.machines[name] = Process(f"machine-{name}", command, self.environment(), f"{self.folder}/machine-{name}.log")
        self.everything.append(self.machines[name])
        self.start_sshd(name)

    def first_process(self, name):
        return wait_until(lambda: children_of(self.machines[name].pid, "sleep"), 10, f"{name}'s first process")[0]

    def start_sshd(self, name):
        process = Process(f"sshd-{name}", ("nsenter", f"--target={self.first_process(name)}", "--net", "--pid", "--mount", "--uts", "--root", "--",
                                           SSHD, "-D", "-e", "-f", f"{self.ssh}/{name}.conf"), self.environment(), f"{self.folder}/sshd-{name}.log")
        self.everything.append(process)
        wait_until(lambda: "Server listening" in process.log() or not process.running(), 10, f"sshd of {name}")

    def kill_sshd(self, name):
        """The one that listens, and those of the connections."""
        for pid in self.processes_of(name, "sshd"):
            os.kill(int(pid), signal.SIGKILL)

    def processes_of(self, name, program):
        """By their numbers as they are seen from here."""
        own = os.readlink(f"/proc/{self.first_process(name)}/ns/net")
        found = []
        for pid in (entry for entry in os.listdir("/proc") if entry.isdigit()):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if os.readlink(f"/proc/{pid}/ns/net") == own and file.read().strip() == program:
                        found.append(pid)
            except OSError:
                continue
        return found

    def power_off(self, name):
        """Without warning: every process of the node is gone."""
        self.machines[name].kill()

    def close(self, failed):
        for machine in self.machines.values():
            machine.signal(signal.SIGKILL)
        self.kill_everything()
        namespaces.run("umount", "/etc/hosts")
        namespaces.run("umount", "/run")
        super().close(failed)
