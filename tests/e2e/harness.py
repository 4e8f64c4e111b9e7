"""Starts real services and workers on this machine for the end-to-end tests, and ends every one of them.

Promises: each test has its own folder, ports and processes; a process that a test started is gone when the test ends,
killed supervisors' children too (they are found by a mark in their environment); the folder is deleted after success,
kept and named after failure, with the last lines of every log. Waits poll a condition until one deadline: none sleeps
for luck. HOLDFAST_BIN names the folder of the programs."""
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
import uuid

from processes import PATIENCE, Process, free_port, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CRAWL_MS = 500
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))  # no proxy is between these programs
BIN = os.environ.get("HOLDFAST_BIN", os.path.join(ROOT, "build", "release", "bin"))


def protocol_version():
    """For workers that are played: the version that this tree's service takes."""
    with open(os.path.join(ROOT, "rendezvous", "protocol", "messages.h"), encoding="utf-8") as header:
        return int(re.search(r"kProtocolVersion = (\d+);", header.read())[1])


class Cluster:
    """One service with its data directory, and workers."""
    host, interface = "127.0.0.1", "lo"  # the service's address, and the workers' way to it
    service_flags = ()
    worker_program = f"{BIN}/holdfast-worker"
    worker_options = {}  # "device" and "environment" of all workers, beside what a test says

    def __init__(self):
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix="holdfast-e2e-")
        self.data_dir = os.path.join(self.folder, "service")
        self.port = free_port()
        self.url = f"http://{self.host}:{self.port}"
        self.service = None
        self.workers = {}  # name -> Process of the supervisor
        self.everything = []

    @property
    def server(self):
        """What programs are told as the service's address."""
        return self.url

    # --- processes

    def environment(self, extra=None):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HOLDFAST_", "NCCL_"))}
        kept.update(HOLDFAST_E2E_MARK=self.mark, HOME=self.folder, HOLDFAST_DATA_DIR=self.data_dir, HOLDFAST_LOCKS=self.folder)
        kept.update(extra or {})
        return kept

    def placed(self, _name, arguments):
        """The command that runs a program where it belongs."""
        return arguments

    def spawn(self, name, arguments, environment=None):
        process = Process(name, self.placed(name, arguments), self.environment(environment),
                          os.path.join(self.folder, f"{name}.log"))
        self.everything.append(process)
        return process

    def start_service(self, environment=None):
        self.service = self.spawn("service", [f"{BIN}/holdfast", "serve", "--listen", f"{self.host}:{self.port}",
                                              "--data_dir", self.data_dir, *self.service_flags], environment)

        def ready():
            if not self.service.running():
                raise AssertionError("the service ended at once: " + self.service.log()[-1500:])
            try:
                with urllib.request.urlopen(self.url + "/readyz", timeout=2) as reply:
                    return reply.status == 200
            except (urllib.error.URLError, OSError):
                return False

        wait_until(ready, 20, "the service to be ready")
        return self

    def start_worker(self, name, threads=1, slow_ms=0, environment=None, arguments=(), device="cpu"):
        """slow_ms is added to each step, and crawl() slows such workers further; `environment` may hold more HOLDFAST_FAULT rules."""
        device = self.worker_options.get("device", device)
        extra = {**self.worker_options.get("environment", {}), **(environment or {})}
        if slow_ms:
            rules = [r for r in (extra.get("HOLDFAST_FAULT"),) if r]
            extra["HOLDFAST_FAULT"] = ",".join(rules + [f"slow@step:ms={slow_ms}", f"slow@step:ms={CRAWL_MS}:while_file={self.folder}/crawl"])
        self.workers[name] = self.spawn(name, [self.worker_program, "--server", self.server, "--name", name, "--device", device,
                                               "--threads", str(threads), "--interface", self.interface, *arguments], extra)
        return self.workers[name]

    def start_workers(self, *names, **options):
        for name in names:
            self.start_worker(name, **options)
        self.wait_workers(*names)

    def crawl(self):
        """From now on until hurry() steps take so long that nothing that is waited for comes after the end of the job."""
        with open(f"{self.folder}/crawl", "wb"):
            pass

    def hurry(self):
        os.unlink(f"{self.folder}/crawl")

    def wait_workers(self, *names):
        wait_until(lambda: set(names) <= {n["id"] for n in self.nodes() if n["state"] == "alive"}, 20, f"workers {names}")

    def training_pid(self, name):
        return next(n["pid"] for n in self.nodes() if n["id"] == name)

    def kill_worker(self, name):
        """kill -9 of the supervisor and of its training process, as when the node loses power: nobody reports it."""
        training = self.training_pid(name)
        supervisor = self.workers.pop(name)
        supervisor.signal(signal.SIGKILL)
        try:
            os.kill(training, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it saw its supervisor die and was quicker
        supervisor.popen.wait()

    def stop_workers(self):
        """Ends all workers the way an operator does."""
        for worker in self.workers.values():
            worker.signal(signal.SIGTERM)
        for worker in self.workers.values():
            worker.wait_exit()
        self.workers.clear()

    def kill_everything(self):
        """kill -9 of all processes, the service too; nothing is told to anybody."""
        for pid in self.marked_processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.everything:
            process.popen.wait()
        self.workers.clear()
        wait_until(lambda: not self.marked_processes(), 10, "all processes to be gone")

    def marked_processes(self):
        needle = f"HOLDFAST_E2E_MARK={self.mark}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/environ", "rb") as file:
                        marked = needle in file.read()
                    with open(f"/proc/{entry}/stat", "rb") as file:
                        zombie = file.read().rpartition(b")")[2].split()[0] == b"Z"
                except OSError:
                    continue
                if marked and not zombie:
                    found.append(int(entry))
        return found

    # --- the service's API

    def token(self, kind="admin"):
        with open(os.path.join(self.data_dir, f"{kind}.token"), encoding="utf-8") as file:
            return file.read().strip()

    def request(self, method, path, body=None, token=None, headers=None):
        """(status, decoded JSON or text)."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.token() if token is None else token}")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                status, text = reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def get(self, path):
        status, reply = self.request("GET", path)
        if status != 200:
            raise AssertionError(f"GET {path}: {status} {reply}")
        return reply

    def try_get(self, path):
        """None while the service is away."""
        try:
            return self.get(path)
        except (urllib.error.URLError, OSError, AssertionError):
            return None

    def nodes(self):
        return self.get("/v1/nodes")["nodes"]

    def job(self, job):
        return self.get(f"/v1/jobs/{job}")

    def events(self, job):
        return self.get(f"/v1/jobs/{job}/events?limit=1000")["events"]

    def event_kinds(self, job):
        return [e["kind"] for e in self.events(job)]

    def committed_steps(self, job):
        """The steps of its checkpoints that were told to be there, from the oldest."""
        return sorted(int(re.search(r"step (\d+):", e["message"])[1]) for e in self.events(job) if e["kind"] == "checkpoint_committed")

    def wait_event(self, job, kind, timeout_s=90, containing=""):
        return wait_until(lambda: next((e for e in self.events(job) if e["kind"] == kind and containing in e["message"]), None),
                          timeout_s, f"an event {kind} with '{containing}' of {job}")

    def submit(self, **spec):
        status, reply = self.request("POST", "/v1/jobs", spec)
        if status != 201:
            raise AssertionError(f"submit: {status} {reply}")
        return reply["id"]

    def post(self, job, action, body=None):
        status, reply = self.request("POST", f"/v1/jobs/{job}/{action}", body or {})
        if status not in (200, 202):
            raise AssertionError(f"{action} {job}: {status} {reply}")
        return reply

    def wait_step(self, job, step, timeout_s=60):
        def there():
            shown = self.job(job)
            if shown["state"] in ("failed", "cancelled"):
                raise AssertionError(f"{job} is {shown['state']}: {shown['reason']}")
            return shown if shown["step"] >= step else None

        return wait_until(there, timeout_s, f"{job} to reach step {step}")

    def wait_state(self, job, *states, timeout_s=90):
        def there():
            shown = self.job(job)
            if shown["state"] in states:
                return shown
            if shown["state"] in ("failed", "succeeded", "cancelled"):
                raise AssertionError(f"{job} is {shown['state']} ({shown['reason']}), not {states}")
            return None

        return wait_until(there, timeout_s, f"{job} to be {' or '.join(states)}")

    # --- the command line

    def cli(self, *arguments, expect=0, environment=None, timeout_s=60):
        """Runs `holdfast ARGUMENTS`; the exit code must be `expect`. Returns stdout + stderr."""
        extra = {"HOLDFAST_SERVER": self.server}
        extra.update(environment or {})
        done = subprocess.run([f"{BIN}/holdfast", *map(str, arguments)], env=self.environment(extra), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=timeout_s * PATIENCE, check=False, cwd=self.folder)
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"holdfast {' '.join(map(str, arguments))} exited {done.returncode}, not {expect}:\n"
                                 f"{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def cli_json(self, *arguments):
        return json.loads(self.cli(*arguments, "--json"))

    # --- the end

    def close(self, failed):
        self.kill_everything()
        if failed:
            print(f"\nkept for you: {self.folder}", file=sys.stderr)
            for process in {p.log_path: p for p in self.everything}.values():
                with open(process.log_path, encoding="utf-8", errors="replace") as file:
                    tail = file.read()[-3000:]
                print(f"--- end of {process.log_path}:\n{tail}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class ClusterTest(unittest.TestCase):
    """A test case with one service for each test."""
    maxDiff = None

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self._close)
        self.cluster.start_service()

    def _close(self):
        result = self._outcome.result
        failed = any(test is self for test, _ in result.failures + result.errors) or not self._outcome.success
        self.cluster.close(failed)


def write_tokens(path, text):
    """A nanoGPT file: one id a byte, little-endian uint16."""
    with open(path, "wb") as file:
        file.write(b"".join(bytes((byte, 0)) for byte in text))
    return path


def write_training_files(folder):
    """(training file, validation file): the bytes of the licence, some 11,000 tokens of English."""
    with open(os.path.join(ROOT, "LICENSE"), "rb") as file:
        text = file.read()
    return write_tokens(os.path.join(folder, "train.bin"), text[1000:]), write_tokens(os.path.join(folder, "val.bin"), text[:1000])


def small_spec(folder, **changes):
    """A GPT-2 of 120,000 parameters that steps in milliseconds; M = 6 divides over 1, 2 and 3 workers, not over 4."""
    train, valid = write_training_files(folder) if not os.path.exists(f"{folder}/train.bin") else (
        f"{folder}/train.bin", f"{folder}/val.bin")
    spec = dict(train_data_path=train, valid_data_path=valid, n_layer=2, n_embd=64, n_head=2, vocab_size=256, block_size=64,
                batch_size=2, global_batch_size=12, total_steps=60, dtype="float32", learning_rate=3e-3, min_lr=3e-4,
                warmup_steps=10, seed=7, hash_every=5, checkpoint_every=20, collective_timeout_s=10)
    spec.update(changes)
    return spec


class HashTrail:
    """The state hashes a job showed along its way: {step: hash}."""

    def __init__(self):
        self.seen = {}

    def note(self, shown):
        if shown and shown.get("state_hash"):
            step, value = shown["state_hash_step"], shown["state_hash"]
            if self.seen.setdefault(step, value) != value:
                raise AssertionError(f"the job showed two hashes after step {step}: {self.seen[step]} and {value}")

    def follow(self, cluster, job, until, timeout_s, what):
        """Polls the job, noting every hash, until `until(shown)`; the service may be away for a while."""
        def there():
            shown = cluster.try_get(f"/v1/jobs/{job}")
            self.note(shown)
            if shown and shown["state"] == "failed":
                raise AssertionError(f"{job} failed: {shown['reason']}")
            return shown if shown and until(shown) else None

        return wait_until(there, timeout_s, what)

    def to_end(self, cluster, job, timeout_s=90):
        return self.follow(cluster, job, lambda shown: shown["state"] == "succeeded", timeout_s, f"{job} to succeed")

    def to_step(self, cluster, job, step, timeout_s=60):
        return self.follow(cluster, job, lambda shown: shown["step"] >= step, timeout_s, f"{job} to reach step {step}")


def seconds_of(text):
    """Seconds since 1970 of a time that the service tells."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def seconds_of_log(line):
    """Seconds since 1970 of a line of a log, or None."""
    try:
        return datetime.datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S.%f").timestamp()
    except ValueError:
        return None


def need_programs():
    if not os.access(f"{BIN}/holdfast", os.X_OK) or not os.access(f"{BIN}/holdfast-worker", os.X_OK):
        sys.exit(f"holdfast and holdfast-worker are not in {BIN}: run ops/build, or set HOLDFAST_BIN")


def main():
    need_programs()
    unittest.main(verbosity=2)
