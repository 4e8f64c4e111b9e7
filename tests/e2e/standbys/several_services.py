"""Several services with one PostgreSQL database, of which one leads, and workers that know all of them."""
import os
import shutil
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
from postgresql_server import PostgresqlServer  # noqa: E402
from processes import free_port, wait_until  # noqa: E402


class SeveralServices(harness.Cluster):
    def __init__(self, database, count=2):
        """`database`: a PostgresqlServer that runs."""
        self.leader = None  # its URL, as it was found last
        super().__init__()
        self.names = [f"s{number}" for number in range(1, count + 1)]
        self.ports = {name: free_port() for name in self.names}
        self.services = {}
        self.shared = os.path.join(self.folder, "shared")
        os.makedirs(self.shared)
        self.database = database
        self.address = database.fresh_address()

    # `url` is the leader's: tests ask it, programs get all addresses.
    @property
    def url(self):
        if self.leader is None:
            self.leader = wait_until(self.find_leader, 20, "a service to lead")
        return self.leader

    @url.setter
    def url(self, _):
        pass

    @property
    def server(self):
        return ",".join(self.url_of(name) for name in self.names)

    def host_of(self, _name):
        return self.host

    def url_of(self, name):
        return f"http://{self.host_of(name)}:{self.ports[name]}"

    def find_leader(self):
        for name in self.names:
            try:
                with urllib.request.urlopen(f"{self.url_of(name)}/readyz", timeout=0.5) as reply:
                    if reply.status == 200:
                        return self.url_of(name)
            except (urllib.error.URLError, OSError):
                continue
        return None

    def leader_name(self):
        return next(name for name in self.names if self.url_of(name) == self.url)

    def standby_names(self):
        return [name for name in self.names if self.url_of(name) != self.url]

    def data_dir_of(self, name):
        return os.path.join(self.folder, name)

    def start_service(self, environment=None):
        for name in self.names:
            self.start_one(name, environment)
            if name == self.names[0]:
                self.leader = wait_until(self.find_leader, 20, "the first service to lead")
                self.data_dir = self.data_dir_of(name)
                for other in self.names[1:]:
                    os.makedirs(self.data_dir_of(other), mode=0o700)
                    for token in ("admin.token", "worker.token"):
                        shutil.copy(os.path.join(self.data_dir, token), self.data_dir_of(other))
        return self

    def start_one(self, name, environment=None):
        self.services[name] = self.spawn(name, [
            f"{harness.BIN}/holdfast", "serve", "--listen", f"{self.host_of(name)}:{self.ports[name]}", "--data_dir", self.data_dir_of(name),
            "--store", self.address, "--shared_dir", self.shared, *self.service_flags], environment)


class SeveralServicesTest(harness.ClusterTest):
    """A test case whose tests have services of their own, and one database server together."""
    kind = SeveralServices

    @classmethod
    def setUpClass(cls):
        cls.database = PostgresqlServer().make().start()

    @classmethod
    def tearDownClass(cls):
        cls.database.close()

    def setUp(self):
        self.cluster = self.kind(self.database)
        self.addCleanup(self._close)
        self.cluster.start_service()
