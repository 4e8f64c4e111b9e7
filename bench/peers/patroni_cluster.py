"""Two PostgreSQL servers under Patroni, and one etcd, all on this machine and run by nobody.

Settings are those of its documentation: the defaults, and the least that it takes; an asynchronous replica, no watchdog. `node` is
everything of one server: Patroni and PostgreSQL."""
import glob
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

DEFAULTS = {"ttl": 30, "loop_wait": 10, "retry_timeout": 10}
LEAST = {"ttl": 20, "loop_wait": 1, "retry_timeout": 3}
START_PATIENCE_S = 120


def missing():
    """The programs that are not here."""
    return [name for name in ("patroni", "etcd") if shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin") is None]


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def children(pid):
    """All processes that come of this one."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path, encoding="ascii") as file:
            for child in file.read().split():
                found += [int(child), *children(child)]
    return found


class PatroniCluster:
    def __init__(self, settings):
        self.settings = settings
        self.folder = tempfile.mkdtemp(prefix="holdfast-patroni-")
        os.chmod(self.folder, 0o755)
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.programs = os.path.dirname(max(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4])))
        self.processes, self.frozen = {}, []
        client, peer, *ports = free_ports(6)
        self.etcd = f"127.0.0.1:{client}"
        self.ports = {"one": ports[0], "two": ports[1]}
        self.apis = {"one": ports[2], "two": ports[3]}
        self.start("etcd", "etcd", "--data-dir", self.place("etcd"), "--listen-client-urls", f"http://{self.etcd}", "--advertise-client-urls",
                   f"http://{self.etcd}", "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                   "--initial-cluster", f"default=http://127.0.0.1:{peer}")

    def place(self, name):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        if self.user is not None:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        return folder

    def start(self, name, *command):
        with open(os.path.join(self.folder, f"{name}.log"), "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
                                                    user=self.user.pw_uid if self.user else None, env={**os.environ, "HOME": self.folder, "LC_ALL": "C.UTF-8"})

    def configuration(self, name):
        """Patroni takes YAML, of which JSON is a part."""
        data = os.path.join(self.place(name), "data")
        return {"scope": "measured", "name": name, "etcd3": {"host": self.etcd},
                "restapi": {"listen": f"127.0.0.1:{self.apis[name]}", "connect_address": f"127.0.0.1:{self.apis[name]}"},
                "bootstrap": {"dcs": self.settings, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}], "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust",
                                                                                            "host replication all 127.0.0.1/32 trust"]},
                "postgresql": {"listen": f"127.0.0.1:{self.ports[name]}", "connect_address": f"127.0.0.1:{self.ports[name]}", "data_dir": data,
                               "bin_dir": self.programs, "pgpass": os.path.join(self.place(name), "pgpass"),
                               "authentication": {"superuser": {"username": "postgres", "password": "x"}, "replication": {"username": "replicator", "password": "x"}},
                               "parameters": {"unix_socket_directories": self.place(name), "shared_buffers": "32MB"}}}

    def start_node(self, name):
        path = os.path.join(self.place(name), "patroni.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.configuration(name), file)
        self.start(name, "patroni", path)

    def role(self, name):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.apis[name]}/patroni", timeout=1) as reply:
                said = json.load(reply)
        except (OSError, ValueError):
            return ""
        return said.get("role", "") if said.get("state") == "running" else ""

    def wait(self, what, condition):
        deadline = time.monotonic() + START_PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                with open(os.path.join(self.folder, "one.log"), encoding="utf-8", errors="replace") as log:
                    raise SystemExit(f"bench/run failover: waited {START_PATIENCE_S} s for {what}; Patroni says: {log.read()[-1500:]}")
            time.sleep(0.2)

    def begin(self):
        """A primary, and a replica that streams."""
        self.start_node("one")
        self.wait("Patroni's primary", lambda: self.role("one") in ("master", "primary"))
        self.start_node("two")
        self.wait("Patroni's replica", lambda: self.role("two") == "replica" and self.ask("one", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1")
        self.ask("one", "CREATE TABLE written (at double precision)")
        return self

    def psql(self, address, sql, patience_s=5):
        try:
            done = subprocess.run(["psql", address, "-AtqX", "-c", sql], capture_output=True, text=True, timeout=patience_s, check=False,
                                  env={**os.environ, "PGCONNECT_TIMEOUT": "2"})
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def ask(self, name, sql):
        return self.psql(f"postgresql://postgres:x@127.0.0.1:{self.ports[name]}/postgres", sql)

    def write(self):
        """A row, at whichever of the two takes it; False where none does."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        return self.psql(f"postgresql://postgres:x@{hosts}/postgres?target_session_attrs=read-write", f"INSERT INTO written VALUES ({time.time()})") is not None

    def node(self, name):
        """All processes; PostgreSQL's are not below Patroni, which leaves it running where it ends itself."""
        pids = [self.processes[name].pid]
        try:
            with open(os.path.join(self.folder, name, "data", "postmaster.pid"), encoding="utf-8") as file:
                pids.append(int(file.readline()))
        except OSError:
            pass  # etcd has none, and a server that ended
        return [one for pid in pids for one in (pid, *children(pid))]

    def kill(self, name):
        for pid in self.node(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it saw another of them end

    def freeze(self, name):
        self.frozen = self.node(name)
        for pid in self.frozen:
            os.kill(pid, signal.SIGSTOP)

    def close(self):
        everything = {pid for name in self.processes for pid in self.node(name)} | set(self.frozen)
        for pid in everything:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # as above
        for process in self.processes.values():
            process.wait()
        time.sleep(0.5)  # the kernel takes the rest of their files
        shutil.rmtree(self.folder, ignore_errors=True)
