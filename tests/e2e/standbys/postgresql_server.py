"""A PostgreSQL server of Debian's in a folder of its own, run by nobody, as PostgreSQL refuses root."""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

from processes import Process, wait_until


def programs():
    """The folder of the newest PostgreSQL that Debian has here."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if not found:
        raise AssertionError("there is no PostgreSQL server below /usr/lib/postgresql: ops/setup installs it")
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4])))


class PostgresqlServer:
    """Reached by a socket in its folder; over TCP, too, where `listen` names an address."""

    def __init__(self, name="postgresql", listen="", port=5432, placed=lambda arguments: arguments, environment=None,
                 folder=None):
        self.name, self.listen, self.port, self.placed, self.environment = name, listen, port, placed, environment
        self.folder = folder or tempfile.mkdtemp(prefix="holdfast-pg-")  # with its data and its log
        self.data = os.path.join(self.folder, "data")
        self.user = None
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.user = nobody.pw_uid
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self.process = None
        self.databases = 0

    def fresh_address(self):
        """Of a new database."""
        self.databases += 1
        self.query(f"CREATE DATABASE d{self.databases}")
        return f"postgresql://holdfast@/d{self.databases}?host={self.folder}&port={self.port}"

    def run(self, program, *arguments):
        done = subprocess.run([os.path.join(programs(), program), *arguments], user=self.user, capture_output=True, text=True,
                              check=False, cwd=self.folder)
        if done.returncode != 0:
            raise AssertionError(f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def make(self):
        self.run("initdb", "--pgdata", self.data, "--auth=trust", "--username=holdfast", "--encoding=UTF8", "--locale=C", "--no-instructions")
        return self

    def start(self, *settings):
        options = [word for setting in (f"listen_addresses={self.listen}", f"port={self.port}", "max_connections=40",
                                        "shared_buffers=32MB", *settings) for word in ("-c", setting)]
        command = [os.path.join(programs(), "postgres"), "-D", self.data, "-k", self.folder, *options]
        if self.user is not None:
            command = ["setpriv", f"--reuid={self.user}", "--clear-groups", *command]
        self.process = Process(self.name, self.placed(command), dict(os.environ, **(self.environment or {})),
                               os.path.join(self.folder, "log"))
        wait_until(lambda: self.is_ready() or not self.process.running(), 30, f"{self.name} to be ready")
        if not self.process.running():
            raise AssertionError(f"{self.name} ended at once: {self.process.log()[-1500:]}")
        return self

    def follow(self, primary, name):
        """Instead of make() and start(): a copy of another server that goes on to follow it."""
        self.run("pg_basebackup", "-h", primary.folder, "-p", str(primary.port), "-U", "holdfast", "-D", self.data, "-c", "fast", "-R")
        with open(os.path.join(self.data, "postgresql.auto.conf"), "a", encoding="utf-8") as file:
            file.write(f"primary_conninfo = 'host={primary.folder} port={primary.port} user=holdfast application_name={name}'\n"
                       "wal_retrieve_retry_interval = '200ms'\n")  # as ops/MANUAL.md has it: half of all promotions wait so long
        return self.start()

    def promote(self):
        self.run("pg_ctl", "promote", "-D", self.data)

    def is_ready(self):
        ready = subprocess.run([os.path.join(programs(), "pg_isready"), "-q", "-h", self.folder, "-p", str(self.port)], check=False)
        return ready.returncode == 0

    def query(self, sql, database="postgres"):
        return self.run("psql", "-h", self.folder, "-p", str(self.port), "-U", "holdfast", "-d", database, "-AtqX", "-c", sql).strip()

    def kill(self):
        """kill -9 of all its processes, as when the machine loses power but for its disk's cache."""
        if self.process is None:
            return
        self.process.kill()
        # Its other processes end by themselves when they notice, and the next start waits for that.

    def close(self, failed=False):
        if self.process is not None and self.process.running():
            self.process.signal(signal.SIGINT)
            try:
                self.process.popen.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if not failed:
            shutil.rmtree(self.folder, ignore_errors=True)
