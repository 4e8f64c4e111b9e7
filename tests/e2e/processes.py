"""Programs with their output in log files, and waiting for what they do: a condition, polled until one deadline."""
import os
import random
import signal
import socket
import subprocess
import time

# Sanitized programs are slower; ctest says by how much the waits are stretched.
PATIENCE = float(os.environ.get("HOLDFAST_E2E_PATIENCE", "1"))
POLL_S = 0.02

# A shell ignores SIGINT for what it runs in the background, and programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def free_port():
    """A port that nobody has, below those that the system gives to whoever connects: while a service is away, none of its
    clients and of other tests' gets it by chance."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first_given = int(file.read().split()[0])
    while True:
        port = random.randrange(10_000, max(first_given, 20_000))
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(condition, timeout_s, what):
    """The first true value of condition(); an AssertionError that says `what` (a text, or what gives one by then) and the last
    value after timeout_s."""
    deadline = time.monotonic() + timeout_s * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s * PATIENCE:.0f} s for {what() if callable(what) else what}; last seen: {value!r}")
        time.sleep(POLL_S)


def peak_memory_of(pid):
    """The most bytes of memory that a process has held, as the kernel counts it."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmHWM"].split()[0]) * 1024


class Process:
    """A program of ours with its output in a log file."""

    def __init__(self, name, arguments, environment, log_path):
        self.name, self.log_path = name, log_path
        self.log_start = os.path.getsize(log_path) if os.path.exists(log_path) else 0
        with open(log_path, "ab") as log:
            self.popen = subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          start_new_session=True)
        self.pid = self.popen.pid

    def log(self):
        with open(self.log_path, "rb") as file:
            file.seek(self.log_start)
            return file.read().decode(errors="replace")

    def wait_log(self, words, timeout_s=60):
        """The log, once it has the words: a training process writes to its supervisor, which may pass them on later than
        the service shows the event."""
        return wait_until(lambda: words in (log := self.log()) and log, timeout_s, lambda: f"{self.name} to say '{words}' (log: {self.log()[-600:]})")

    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        if self.running():
            self.popen.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def wait_exit(self, timeout_s=20):
        """The exit status, when it ends by itself."""
        wait_until(lambda: not self.running(), timeout_s, lambda: f"{self.name} to end (log: {self.log()[-600:]})")
        return self.popen.returncode
