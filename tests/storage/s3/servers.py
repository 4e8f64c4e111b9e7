"""Real S3 servers for tests and measurements, each in a folder of its own and with a port of its own: s3rver, from npm (ops/setup
--page installs it below this folder), and Swift with its S3 interface, from Debian (ops/setup --swift)."""
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUCKET = "checkpoints"
START_S = 60


def environment(key, secret, **more):
    """The environment of a program that asks with these keys, and finds no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_CONFIG_FILE": "/nowhere", **more}


def free_ports(count):
    """Ports that nobody listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(port, process, log):
    """Until somebody listens there; fails with the log of a process that ended."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"a server ended with {process.returncode}:\n{open(log).read()[-3000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"no server listens at port {port} after {START_S} s:\n{open(log).read()[-3000:]}")


class S3rver:
    """s3rver with one bucket. It knows its key and looks at no signature, and keeps objects in files below the folder."""
    KEY = SECRET = "S3RVER"

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.port = free_ports(1)[0]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        os.makedirs(os.path.join(folder, BUCKET), exist_ok=True)
        self.start()

    @staticmethod
    def is_installed():
        return os.path.isdir(os.path.join(HERE, "node_modules/s3rver")) and shutil.which("node") is not None

    def start(self):
        log = self.folder + ".log"
        with open(log, "a") as out:
            # It makes the tokens of its lists by DES, which today's OpenSSL keeps in a room of its own.
            self.process = subprocess.Popen(["node", "--openssl-legacy-provider", os.path.join(HERE, "node_modules/s3rver/bin/s3rver.js"), "--directory", self.folder,
                                             "--address", "127.0.0.1", "--port", str(self.port), "--silent", "--no-vhost-buckets",
                                             "--configure-bucket", BUCKET], stdout=out, stderr=out)
        wait_for(self.port, self.process, log)

    def place(self, prefix=""):
        return f"s3://{BUCKET}{'/' if prefix else ''}{prefix}?endpoint={self.endpoint}"

    def environment(self):
        return environment(self.KEY, self.SECRET)

    def stop(self):
        self.process.kill()
        self.process.wait()


def files_below(folder):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


def skip_without(is_there, what):
    """Ends the test as skipped (77) where a server is not installed."""
    if not is_there:
        print(f"skipped: {what}", file=sys.stderr)
        sys.exit(77)


def as_user(name):
    """For a server that refuses to be root's: what Popen takes to run it as another user."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
