#!/usr/bin/python3
"""The files of ops/deploy agree with each other and with the programs; tools that read them accept them, if installed here."""
import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import unittest

from command_flags import BIN, ROOT, complaint

DEPLOY = os.path.join(ROOT, "ops", "deploy")
STOP_S_MIN = 60  # for a worker to finish its step


def path(*parts):
    return os.path.join(DEPLOY, *parts)


def read(*parts):
    with open(path(*parts), encoding="utf-8") as file:
        return file.read()


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


def every_file():
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(DEPLOY) for name in names)


class Listener:
    """A service that refuses every request and keeps its Authorization header."""

    def __enter__(self):
        listener = self
        self.authorization = None

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                listener.authorization = self.headers["Authorization"]
                self.send_response(401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class EveryFile(unittest.TestCase):
    def test_says_how_to_use_it_and_what_to_change(self):
        for file in every_file():
            with open(file, encoding="utf-8") as opened:
                head = re.match(r"(#.*\n)+", opened.read())
            self.assertTrue(head, f"{file} opens with a comment")
        told = {os.path.dirname(f) for f in every_file() if re.search(r"^# To be changed", open(f, encoding="utf-8").read(), re.M)}
        self.assertEqual({os.path.dirname(f) for f in every_file()}, told, "folders where something says what to change")


class Systemd(unittest.TestCase):
    def units(self):
        return sorted(os.listdir(path("systemd")))

    def setting(self, unit, name):
        return re.findall(rf"^{name}=(.*)$", read("systemd", unit), re.MULTILINE)

    def test_systemd_itself_finds_nothing_wrong(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze on this machine (Debian's package systemd)")
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for unit in self.units():
                name = unit.replace("@.", "@0.")  # a template is verified as one of its instances
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(read("systemd", unit).replace("/usr/local/bin", BIN))
                names.append(name)
            done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *names, cwd=folder)
            if "Failed to initialize manager" in done.stderr:
                self.skipTest(f"systemd-analyze cannot work here: {done.stderr.strip()}")
            about_ours = [line for line in done.stderr.splitlines() if "holdfast" in line]
            self.assertEqual(([], 0), (about_ours, done.returncode), done.stderr)

    def test_a_worker_has_time_to_finish_its_step_and_is_told_alone(self):
        unit = "holdfast-worker@.service"
        self.assertEqual(["SIGTERM"], self.setting(unit, "KillSignal"))
        self.assertEqual(["mixed"], self.setting(unit, "KillMode"), "the supervisor passes it on; a second one would kill")
        self.assertGreaterEqual(int(self.setting(unit, "TimeoutStopSec")[0].rstrip("s")), STOP_S_MIN)
        self.assertEqual(["on-failure"], self.setting(unit, "Restart"), "one that was drained stays away")

    def test_data_sets_are_in_a_folder_that_it_may_write_to(self):
        unit = "holdfast-worker@.service"
        self.assertEqual(["holdfast-worker"], self.setting(unit, "CacheDirectory"))
        self.assertIn("HOLDFAST_DATA_CACHE=%C/holdfast-worker", self.setting(unit, "Environment"))

    def test_no_token_is_in_an_environment_or_a_command(self):
        for unit in self.units():
            code = re.sub(r"^#.*$", "", read("systemd", unit), flags=re.MULTILINE)
            self.assertNotIn("HOLDFAST_TOKEN", code)
            self.assertNotIn("--token", code)

    def test_the_worker_finds_its_token_among_its_credentials(self):
        name = self.setting("holdfast-worker@.service", "LoadCredential")[0].partition(":")[0]
        self.assertIn("HOLDFAST_DATA_DIR=%d", self.setting("holdfast-worker@.service", "Environment"))
        token = "a" * 64
        with tempfile.TemporaryDirectory() as folder, Listener() as service:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:  # as systemd does
                file.write(token + "\n")
            environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
            done = run(os.path.join(BIN, "holdfast-worker"), "--server", service.url, "--device", "cpu", "--threads", "1",
                       env={**environment, "HOLDFAST_DATA_DIR": folder})
        self.assertEqual(f"Bearer {token}", service.authorization, done.stderr)
        self.assertEqual(2, done.returncode, "a token that is refused is nothing to be tried again: RestartPreventExitStatus")
        self.assertEqual(["2"], self.setting("holdfast-worker@.service", "RestartPreventExitStatus"))

    def test_the_prune_takes_the_timers_own_copies_and_what_they_left(self):
        with tempfile.TemporaryDirectory() as folder:
            ours = [f"202601{day:02}T033000Z.sqlite" for day in range(1, 18)]
            others = ["before.sqlite", "before-upgrade.sqlite", "20260101T033000Z.sqlite.txt"]
            stale = ["20260102T033000Z.sqlite.partial-77"]
            for name in ours + others + stale:
                with open(os.path.join(folder, name), "w", encoding="utf-8"):
                    pass
            os.utime(os.path.join(folder, stale[0]), (0, 0))
            for line in self.setting("holdfast-backup.service", "ExecStartPost"):
                done = run(*shlex.split(line.replace("/var/backups/holdfast", folder)))
                self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(sorted(ours[-14:] + others), sorted(os.listdir(folder)))

    def test_what_the_user_of_the_units_reads_is_in_a_folder_that_it_may_enter(self):
        for unit in ("holdfast.service", "holdfast-worker@.service"):
            text = read("systemd", unit)
            self.assertNotRegex(text, r"-m 700 /etc/holdfast", unit)
            self.assertRegex(text, r"install -d -m 755 /etc/holdfast", unit)
        self.assertIn("LoadCredential=tls.crt:", read("systemd", "holdfast.service"))
        self.assertIn("EnvironmentFile=-/etc/holdfast/worker-%i.env", read("systemd", "holdfast-worker@.service"))

    def test_the_timer_starts_what_is_there(self):
        self.assertIn("holdfast-backup.service", self.units())
        self.assertIn("holdfast-backup.timer", self.units())


class Container(unittest.TestCase):
    def instructions(self):
        text = re.sub(r"^#.*\n", "", read("container", "Containerfile"), flags=re.MULTILINE)
        return [tuple(line.split(None, 1)) for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip()]

    def only(self, name):
        found = [rest for instruction, rest in self.instructions() if instruction == name]
        self.assertEqual(1, len(found), name)
        return found[0]

    def test_what_it_runs_exists(self):
        command = json.loads(self.only("ENTRYPOINT")) + json.loads(self.only("CMD"))
        self.assertIsNone(complaint(command))
        self.assertIn("/readyz", self.only("HEALTHCHECK") + " ".join(rest for name, rest in self.instructions() if name == "ENV"))

    def test_data_sets_are_on_a_volume_here_and_in_kubernetes(self):
        folder = next(re.search(r"HOLDFAST_DATA_CACHE=(\S+)", rest)[1] for name, rest in self.instructions() if name == "ENV" and "DATA_CACHE" in rest)
        self.assertIn(folder, self.only("VOLUME").split())
        made = next(rest for name, rest in self.instructions() if name == "RUN" and "install -d -o holdfast" in rest)
        self.assertIn(folder, made)
        workers = read("kubernetes", "base", "workers.yaml")
        mount = re.search(rf"- name: (\S+).*\n\s+mountPath: {folder}\n(?!\s+readOnly)", workers)
        self.assertTrue(mount, "it is mounted, to be written to")
        self.assertRegex(workers, rf"- name: {mount[1]}\n\s+emptyDir")

    def test_it_does_not_run_as_root(self):
        self.assertRegex(self.only("USER"), r"^[1-9]\d*:[1-9]\d*$")

    def test_all_that_the_build_reads_is_copied(self):
        copied = {rest.split()[0] for instruction, rest in self.instructions() if instruction == "COPY" and "--from" not in rest}
        for file in copied | {word for i, rest in self.instructions() if i == "COPY" and "--from" not in rest for word in rest.split()[:-1]}:
            self.assertTrue(os.path.exists(os.path.join(ROOT, file)), file)
        cmake = open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8").read()
        always = re.findall(r"^add_subdirectory\((\w+)\)", cmake, re.MULTILINE)
        self.assertEqual(set(), set(always) - copied, "folders that CMake takes without an option")

    def test_the_packages_of_the_programs_are_found(self):
        if not shutil.which("dpkg"):
            self.skipTest("this is no Debian system: there is no dpkg")
        step = next(rest for instruction, rest in self.instructions() if instruction == "RUN" and "ldd" in rest)
        programs = f"{BIN}/holdfast {BIN}/holdfast-worker"
        done = run("bash", "-c", step.replace("/out/*", programs).replace(">/out/packages", ""))
        packages = set(done.stdout.split())
        self.assertLessEqual({"libc6", "libsqlite3-0", "libstdc++6"}, packages)
        for package in packages:
            self.assertEqual(0, run("dpkg", "-s", package).returncode, package)
        needed = set(re.findall(r"=> (\S+)", run("ldd", *programs.split()).stdout))
        here = "\n".join(run("dpkg", "-L", package).stdout for package in packages)
        missing = [library for library in needed if library not in here and f"/usr{library}" not in here]
        self.assertEqual([], missing)


class Slurm(unittest.TestCase):
    def test_the_shell_reads_it(self):
        done = run("bash", "-n", path("slurm", "holdfast.sbatch"))
        self.assertEqual(0, done.returncode, done.stderr)

    def test_shellcheck_finds_nothing(self):
        if not shutil.which("shellcheck"):
            self.skipTest("there is no shellcheck on this machine")
        done = run("shellcheck", "--shell=bash", path("slurm", "holdfast.sbatch"))
        self.assertEqual(0, done.returncode, done.stdout)

    def test_the_directives_come_before_the_first_command(self):
        lines = read("slurm", "holdfast.sbatch").splitlines()
        directives = [i for i, line in enumerate(lines) if line.startswith("#SBATCH ")]
        first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
        self.assertGreaterEqual(len(directives), 5)
        self.assertLess(max(directives), first, "Slurm stops reading them at the first command")


if __name__ == "__main__":
    unittest.main()
