#!/usr/bin/python3
"""The manual page as man programs read it, and the help topics compared with the sources that they describe."""
import os
import re
import shutil
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOLDFAST = os.path.join(os.environ["HOLDFAST_BIN"], "holdfast")
READ_FROM_ENVIRONMENT = re.compile(r'\b(?:environment|getenv|envname)\("([A-Z_]+)"\)')
NOT_FOR_PEOPLE = {"HOME"}


def holdfast(*arguments):
    return subprocess.run([HOLDFAST, *arguments], capture_output=True, text=True, check=True, timeout=30).stdout


class ManualPage(unittest.TestCase):
    def test_groff_has_nothing_to_complain_of(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed: ops/setup installs it")
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-c"], input=holdfast("help", "--man"), capture_output=True,
                              text=True, check=True, timeout=60)
        self.assertEqual("", done.stderr)
        page = re.sub(".\b", "", done.stdout)
        for part in ("HOLDFAST(1)", "holdfast submit", "--train_data_path", "JOB SPEC", "gradient_accumulation_steps",
                     "ENVIRONMENT", "HOLDFAST_TOKEN", "EXIT CODES", "holdfast jobs diff"):
            self.assertIn(part, page.replace("−", "-").replace("‐", "-"))

    def test_mandoc_has_nothing_to_complain_of(self):
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=holdfast("help", "--man"), capture_output=True,
                              text=True, check=False, timeout=60)
        self.assertEqual("", done.stdout)


class Commands(unittest.TestCase):
    def test_each_command_of_the_program_has_an_example_in_its_help(self):
        commands = re.findall(r"^  ([a-z][a-z_-]+)\b", holdfast("--help").partition("\n\n")[2], re.MULTILINE)
        self.assertGreater(len(commands), 25, "those of the whole program")
        self.assertIn("serve-stage", commands)
        for command in commands:
            self.assertRegex(holdfast(command, "--help"), r"Examples?:?\n", command)


class Topics(unittest.TestCase):
    def test_the_environment_has_every_variable_that_the_programs_read(self):
        told = holdfast("help", "environment")
        missing = []
        for folder in ("ops/cli", "rendezvous", "worker", "kernels", "storage", "model"):
            for path, _, names in os.walk(os.path.join(ROOT, folder)):
                for name in names:
                    if name.endswith((".cpp", ".h")):
                        with open(os.path.join(path, name), encoding="utf-8") as file:
                            missing += [f"{name}: {variable}" for variable in READ_FROM_ENVIRONMENT.findall(file.read())
                                        if variable not in NOT_FOR_PEOPLE and not re.search(rf"\b{variable}\b", told)]
        self.assertEqual([], missing, "tell of these in ops/cli/help/topics.cpp")

    def test_help_is_as_wide_as_a_page_where_there_is_no_terminal(self):
        for topic in ("job_spec", "environment", "exit_codes", "files"):
            for line in holdfast("help", topic).splitlines():
                self.assertLessEqual(len(line), 80, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
