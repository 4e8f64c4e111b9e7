#!/usr/bin/python3
"""Completion in real shells: the test types at a prompt and presses TAB. Shells that are not installed are skipped."""
import os
import shutil
import subprocess
import tempfile
import unittest

from scripted_service import ScriptedService, a_job
from terminal_session import TerminalSession

BIN = os.environ["HOLDFAST_BIN"]
HOLDFAST = os.path.join(BIN, "holdfast")


class Shell:
    """The tests for every shell. The classes below say how each shell is started and asked."""

    def setUp(self):
        if not shutil.which(self.shell):
            self.skipTest(f"{self.shell} is not installed: ops/setup installs it")
        self.service = ScriptedService()
        self.addCleanup(self.service.stop)
        self.service.jobs = [a_job(12, name="ablation"), a_job(11)]
        self.service.nodes = [{"id": "node7", "state": "alive", "device": "cpu"}]
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name in ("job.json", "tokens one.bin"):
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8"):
                pass

    def environment(self, **more):
        return {"HOLDFAST_SERVER": self.service.url, "HOLDFAST_TOKEN": "t", "HOME": self.folder.name,
                "PATH": f"{BIN}:{os.environ['PATH']}", "LANG": "C.UTF-8", **more}

    def test_commands_flags_and_choices(self):
        self.completes("holdfast subm", "holdfast submit ")
        self.completes("holdfast ckpt ver", "holdfast ckpt verify ")
        self.completes("holdfast submit --dty", "holdfast submit --dtype ")
        self.completes("holdfast submit --dtype bf", "holdfast submit --dtype bfloat16 ")
        self.completes("holdfast submit --dtype=bf", "holdfast submit --dtype=bfloat16 ")
        self.completes("holdfast submit --reduction e", "holdfast submit --reduction exact ")

    def test_jobs_and_workers_of_the_service(self):
        self.completes("holdfast show abl", "holdfast show ablation ")
        self.completes("holdfast stop j12", "holdfast stop j12 ")
        self.completes("holdfast drain n", "holdfast drain node7 ")
        self.completes("holdfast submit --resume_from job:abl", "holdfast submit --resume_from job:ablation ")
        self.completes("holdfast submit --resume_from=job:abl", "holdfast submit --resume_from=job:ablation ")

    def test_files(self):
        self.completes("holdfast submit --config jo", "holdfast submit --config job.json ")
        self.completes("holdfast submit --config=jo", "holdfast submit --config=job.json ")
        self.completes("holdfast data info tok", "holdfast data info tokens\\ one.bin ")

    def test_nothing_when_there_is_no_service(self):
        self.service.stop()
        self.completes("holdfast show abl", "holdfast show abl")
        self.service.start()


class AtAPrompt(Shell):
    """A shell on a terminal: TAB is pressed, and the line is read from the screen after the shell has answered."""

    def setUp(self):
        super().setUp()
        self.session = TerminalSession([shutil.which(self.shell), *self.arguments], columns=160,
                                       environment={**self.environment(), "PS1": "> "})
        self.addCleanup(self.session.__exit__)
        self.marks = 0
        self.run_line(f"cd '{self.folder.name}'")
        for line in self.preparation:
            self.run_line(line)

    def run_line(self, line):
        """Runs a command and waits for the next prompt. Before the prompt the terminal itself would echo input, and TAB as spaces."""
        self.marks += 1
        self.session.type(f"{line}; echo ready-$(({self.marks}+0))-\n")
        self.session.wait_until(lambda: self.session.text().endswith(f"ready-{self.marks}-\n>"), f"the prompt after {line}")

    def completes(self, typed, expected):
        """Types `typed` and TAB, and expects `expected` as the line on the screen, which is the line that a person then has."""
        self.marks += 1
        self.run_line("clear")
        self.session.type(typed + "\t")
        # The mark is typed after TAB, so it stands directly behind the line that the shell has made.
        mark = f"#{self.marks}#"
        self.session.type(mark)
        self.session.wait_until(lambda: mark in self.session.text().replace("\n", ""), f"{mark} behind {typed}")
        line = next(row for row in reversed(self.session.rows()) if mark in row)
        self.session.type("\x15")  # removes the line
        self.assertEqual(expected, line[line.index("holdfast"):line.index(mark)])


class Bash(AtAPrompt, unittest.TestCase):
    shell = "bash"
    arguments = ("--norc", "--noprofile", "-i")
    preparation = ("source <(holdfast completion bash)",)

    def test_several_candidates_are_listed(self):
        self.session.type("holdfast show \t\t")
        self.session.wait_for("j12", "j11", "ablation")


class Zsh(AtAPrompt, unittest.TestCase):
    shell = "zsh"
    arguments = ("-f", "-i")
    preparation = ("PS1='> '; unsetopt prompt_sp; autoload -U compinit; compinit -u -D", "source <(holdfast completion zsh)")

    def test_several_candidates_are_listed_with_what_they_are(self):
        self.session.type("holdfast show \t\t")
        self.session.wait_for("j12", "ablation, running, step 40/60")

    def test_as_a_file_in_fpath(self):
        os.mkdir(os.path.join(self.folder.name, "functions"))
        with open(os.path.join(self.folder.name, "functions", "_holdfast"), "w", encoding="utf-8") as file:
            subprocess.run([HOLDFAST, "completion", "zsh"], stdout=file, check=True)
        self.run_line("compdef -d holdfast; unfunction _holdfast; fpath=($PWD/functions $fpath); compinit -u -D")
        self.completes("holdfast subm", "holdfast submit ")


class Fish(Shell, unittest.TestCase):
    """Fish itself can list the words that it would offer."""
    shell = "fish"

    def offered(self, typed):
        script = "holdfast completion fish | source; cd $argv[1]; complete -C $argv[2]"
        done = subprocess.run(["fish", "--no-config", "-c", script, self.folder.name, typed], env=self.environment(), text=True,
                              capture_output=True, timeout=30, check=True)
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    def completes(self, typed, expected):
        last = expected.rstrip().split("holdfast ")[1].replace("\\ ", "\0").split(" ")[-1].replace("\0", " ")
        if expected == typed:
            self.assertEqual([], self.offered(typed))
        else:
            self.assertIn(last, self.offered(typed), typed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
