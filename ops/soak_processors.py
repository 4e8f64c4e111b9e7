"""Users of the processors during a soak: workers that start, and everybody else on the machine."""
import os
import resource
import threading

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def stat_fields(pid):
    """The fields of /proc/PID/stat after the name, or nothing when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def cpu_seconds(pid, with_children=False):
    fields = stat_fields(pid)
    return fields and sum(int(ticks) for ticks in fields[11:15 if with_children else 13]) * TICK_S


def busy_seconds():
    """Of all processors since the machine started; what a hypervisor took away counts as busy."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(ticks) for ticks in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK_S


class Share:
    """How much of the machine others than the cluster use, from its making until used_by_others()."""

    def __init__(self, cluster, now_s):
        self.cluster = cluster
        self.begin = (now_s, busy_seconds(), self.ours())

    def ours(self):
        living = sum(cpu_seconds(pid, with_children=True) or 0 for pid in self.cluster.marked_processes())
        dead = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = resource.getrusage(resource.RUSAGE_SELF)
        return living + dead.ru_utime + dead.ru_stime + own.ru_utime + own.ru_stime

    def used_by_others(self, now_s):
        """A part of all processors' time, 0 to 1."""
        then_s, busy, ours = self.begin
        others = (busy_seconds() - busy) - (self.ours() - ours)
        return max(0.0, others) / (now_s - then_s) / os.cpu_count()


class StartWatch(threading.Thread):
    """The processor seconds that each restarted worker used before it took part."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.ending, self.cpu_s = cluster, threading.Event(), []
        self.known = {node["incarnation"] for node in cluster.nodes()}

    def run(self):
        while not self.ending.wait(0.25):
            for node in (self.cluster.try_get("/v1/nodes") or {"nodes": []})["nodes"]:
                if node["incarnation"] not in self.known and node["phase"] == "active":
                    self.known.add(node["incarnation"])
                    self.cpu_s.append(cpu_seconds(node["pid"]) or 0.0)

    def stop(self):
        self.ending.set()
        self.join()
        return self.cpu_s
