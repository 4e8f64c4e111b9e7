"""A Slurm cluster of Debian's slurmctld, slurmd and munge: a controller, and nodes that are network namespaces.

Promises: every node has a host name, an address, a link and processes of its own, and one file system is shared by all, as on
clusters whose home folders are; nothing of the machine's own Slurm is read or touched; all of it is gone when the driver's
namespaces are (network/namespaces.py), however they end. A node that loses power loses every process at once; one that is cut off
keeps them. Without cgroups and accounting, which Holdfast does not ask for.
Refuses to begin where the machine does not let it (reason_not_to_run), and says why."""
import os
import re
import shutil
import signal
import subprocess

import harness
from network import namespaces
from processes import Process, wait_until

CONTROLLER = "controller"
PORT = 6817
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")
# Times are short: a node that is silent for SlurmdTimeout is down, and a job that is told to end has KillWait seconds for it.
CONFIGURATION = """ClusterName=holdfast
SlurmctldHost={controller}({address})
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,sched_min_interval=0,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=6
SlurmctldTimeout=6
BatchStartTimeout=20
KillWait=20
MinJobAge=600
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=node[1-{count}] NodeAddr=10.99.0.[1-{count}] CPUs=4 RealMemory=4000
PartitionName=usual Nodes=ALL Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=15
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
"""


def reason_not_to_run():
    """Why this machine cannot do it, or None."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [program for program in DAEMONS if shutil.which(program, path=path) is None]
    if missing:
        return f"{', '.join(missing)} not found: ops/setup --clusters installs Slurm"
    if os.geteuid() != 0:
        return "slurmd starts tasks as their user, which takes root"
    return namespaces.reason_not_to_run()


class SlurmCluster(harness.Cluster):
    """Nodes node1, node2, … with a slurmd each. Its own service is not started unless a test does: the script brings one."""
    interface = "eth0"

    def __init__(self, count):
        self.network = namespaces.Network()
        self.nodes_by_name = {f"node{number}": self.network.add_node() for number in range(1, count + 1)}
        self.host = "10.99.0.254"
        super().__init__()
        self.slurm = os.path.join(self.folder, "slurm")
        os.makedirs(os.path.join(self.slurm, "state"))
        self.daemons = {}
        self._name_hosts()
        self._configure(count)
        self._start_munge()
        self.start_controller()
        for name in self.nodes_by_name:
            self.power_on(name)
        self.wait_nodes("idle", *self.nodes_by_name)

    def _name_hosts(self):
        hosts = os.path.join(self.slurm, "hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            file.write(f"127.0.0.1 localhost\n{self.host} {CONTROLLER}\n")
            file.writelines(f"{node.address} {name}\n" for name, node in self.nodes_by_name.items())
        namespaces.run("mount", "--bind", hosts, "/etc/hosts")

    def _configure(self, count):
        self.configuration = os.path.join(self.slurm, "slurm.conf")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(controller=CONTROLLER, address=self.host, port=PORT, folder=self.slurm, count=count))
        version = namespaces.run("slurmctld", "-V").split()[-1]
        if tuple(map(int, version.split(".")[:2])) >= (23, 11):  # before, no cgroup is looked for where no plugin needs one
            with open(os.path.join(self.slurm, "cgroup.conf"), "w", encoding="utf-8") as file:
                file.write("CgroupPlugin=disabled\n")

    def _start_munge(self):
        key = os.path.join(self.slurm, "munge.key")
        with open(key, "wb") as file:
            file.write(os.urandom(128))
        os.chmod(key, 0o400)
        # --force: the folder is below /tmp, which others may write to.
        self.daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.slurm}/munge.socket",
                    f"--pid-file={self.slurm}/munged.pid", f"--seed-file={self.slurm}/munge.seed", f"--log-file={self.slurm}/munge.log")
        wait_until(lambda: os.path.exists(f"{self.slurm}/munge.socket"), 10, "munge")

    def environment(self, extra=None):
        kept = {k: v for k, v in super().environment().items() if not k.startswith(("SLURM", "SBATCH"))}
        return {**kept, "SLURM_CONF": self.configuration, **(extra or {})}

    def daemon(self, name, *arguments):
        self.daemons[name] = Process(name, arguments, self.environment(), os.path.join(self.folder, f"{name}.log"))
        self.everything.append(self.daemons[name])

    def start_controller(self):
        self.daemon("slurmctld", "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', CONTROLLER, "slurmctld", "-D", "-i")

    # --- nodes

    def placed(self, name, arguments):
        node = self.nodes_by_name.get(name)
        return arguments if node is None else self.on_node(name, *arguments)

    def on_node(self, name, *arguments):
        return self.nodes_by_name[name].command("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name, *arguments)

    def power_on(self, name):
        """Its own processes, so that one signal ends all of them."""
        self.daemon(name, *self.nodes_by_name[name].command(
            "unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--",
            "sh", "-c", 'hostname "$0" && "$@" & trap "" CHLD; exec sleep infinity', name, "slurmd", "-D"))

    def power_off(self, name):
        """Without warning: every process of the node is gone."""
        self.daemons[name].kill()

    def slurmd_pid(self, name):
        """As it is seen from here; its own file has the number that it has on its node."""
        (first,) = namespaces.run("pgrep", "-P", self.daemons[name].pid).split()
        return int(namespaces.run("pgrep", "-P", first, "-x", "slurmd").split()[0])

    def node_states(self):
        rows = self.control("sinfo", "--Node", "--noheader", "--Format=NodeHost,StateLong").split("\n")
        return {row.split()[0]: row.split()[1] for row in rows if row.split()}

    def wait_nodes(self, state, *names, timeout_s=60):
        wait_until(lambda: all(self.node_states().get(name, "").rstrip("*~#%$@+^-") == state for name in names), timeout_s,
                   f"{', '.join(names)} to be {state}")

    # --- jobs

    def control(self, *arguments, expect=0):
        done = subprocess.run(list(map(str, arguments)), env=self.environment(), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False, timeout=60, cwd=self.folder)
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"{' '.join(map(str, arguments))} exited {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def batch(self, *arguments, environment=None):
        """Its number, as a text."""
        done = subprocess.run(["sbatch", "--parsable", *map(str, arguments)], env=self.environment(environment), capture_output=True,
                              text=True, check=False, timeout=60, cwd=self.folder)
        if done.returncode != 0:
            raise AssertionError(f"sbatch {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def batch_job(self, number):
        """The fields that scontrol shows of it."""
        return dict(re.findall(r"(\S+?)=(\S*)", self.control("scontrol", "show", "job", number)))

    def wait_batch(self, number, *states, timeout_s=120):
        return wait_until(lambda: (job := self.batch_job(number))["JobState"] in states and job, timeout_s,
                          f"Slurm's job {number} to be {' or '.join(states)}")

    def run_again(self, number):
        """Slurm lets a job that was put into the queue again wait for two minutes; this one begins at once."""
        wait_until(lambda: (job := self.batch_job(number))["Restarts"] == "1" and job["JobState"] == "PENDING", 90, f"the requeue of {number}")
        self.control("scontrol", "update", f"jobid={number}", "starttime=now")

    def close(self, failed):
        for name in list(self.daemons):
            if name != "munged":
                self.daemons[name].signal(signal.SIGKILL)
        self.kill_everything()
        namespaces.run("umount", "/etc/hosts")
        super().close(failed)
        self.network.close()
