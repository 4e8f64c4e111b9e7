"""OpenStack Swift with its S3 interface, from Debian's packages: four processes of an unprivileged user, in a folder of their own, with
one copy of each object. Below it the tests and the driver see one more S3 server."""
import hashlib
import os
import shutil
import subprocess
import time
import urllib.request

import hostile_server
import servers

PARTS = ("object", "container", "account")
PROXY = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
swift_dir = {folder}/rings
user = {user}
workers = 1
log_level = WARNING
[pipeline:main]
pipeline = catch_errors gatekeeper proxy-logging cache listing_formats bulk s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:proxy-logging]
use = egg:swift#proxy_logging
# Nobody listens there: the proxy goes on without memory, and does not without this part.
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
"""
STORAGE = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
swift_dir = {folder}/rings
devices = {folder}/devices
mount_check = false
user = {user}
workers = 1
log_level = WARNING
disable_fallocate = true
[pipeline:main]
pipeline = {part}-server
[app:{part}-server]
use = egg:swift#{part}
"""


class Swift:
    """Its one user, test:tester, with one bucket."""
    KEY, SECRET = "test:tester", "testing"

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.user = "swift" if os.geteuid() == 0 else os.environ.get("USER", "nobody")
        ports = servers.free_ports(4)
        self.port = ports[3]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        for name in ("rings", "devices/d1", "logs"):
            os.makedirs(os.path.join(folder, name))
        for part, port in zip(PARTS, ports):
            builder = os.path.join(folder, "rings", part + ".builder")
            for words in (("create", "4", "1", "1"), ("add", "--region", "1", "--zone", "1", "--ip", "127.0.0.1", "--port", str(port),
                                                        "--device", "d1", "--weight", "1"), ("rebalance",)):
                subprocess.run(["swift-ring-builder", builder, *words], check=True, capture_output=True)
            self.write(part, STORAGE, part=part, port=port)
        self.write("proxy", PROXY, port=self.port)
        if os.geteuid() == 0:
            os.chmod(folder, 0o755)
            for at, folders, files in os.walk(folder):
                for name in folders + files:
                    shutil.chown(os.path.join(at, name), self.user)
            shutil.chown(folder, self.user)
        for part, port in (*zip(PARTS, ports), ("proxy", self.port)):
            self.start(part, port)

    @staticmethod
    def is_installed():
        return all(shutil.which(f"swift-{part}-server") for part in (*PARTS, "proxy")) and os.path.isfile("/etc/swift/swift.conf")

    def write(self, name, text, **words):
        with open(os.path.join(self.folder, name + ".conf"), "w") as out:
            out.write(text.format(folder=self.folder, user=self.user, **words))

    def start(self, part, port):
        log = os.path.join(self.folder, "logs", part)
        with open(log, "a") as out:
            process = subprocess.Popen([f"swift-{part}-server", os.path.join(self.folder, part + ".conf"), "-v"], stdout=out, stderr=out,
                                       start_new_session=True, **servers.as_user(self.user))
        self.processes.append(process)
        servers.wait_for(port, process, log)

    def place(self, prefix=""):
        return f"s3://{servers.BUCKET}{'/' if prefix else ''}{prefix}?endpoint={self.endpoint}"

    def environment(self):
        return servers.environment(self.KEY, self.SECRET)

    def make_bucket(self):
        """By hand: curl takes what is before the first colon for the key."""
        stamp, host = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), f"127.0.0.1:{self.port}"
        empty = hashlib.sha256(b"").hexdigest()
        head = f"host:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n"
        signed, scope = "host;x-amz-content-sha256;x-amz-date", f"{stamp[:8]}/us-east-1/s3/aws4_request"
        canonical = f"PUT\n/{servers.BUCKET}\n\n{head}\n{signed}\n{empty}"
        to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hostile_server.sign(self.SECRET, stamp[:8], "us-east-1", to_sign)
        request = urllib.request.Request(f"{self.endpoint}/{servers.BUCKET}", method="PUT", headers={
            "x-amz-content-sha256": empty, "x-amz-date": stamp,
            "Authorization": f"AWS4-HMAC-SHA256 Credential={self.KEY}/{scope}, SignedHeaders={signed}, Signature={signature}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200, answer.status

    def logs(self):
        return "\n".join(f"{part}: {open(os.path.join(self.folder, 'logs', part)).read()[-2000:]}" for part in (*PARTS, "proxy"))

    def stop(self):
        for process in self.processes:
            os.killpg(process.pid, 9)
            process.wait()
