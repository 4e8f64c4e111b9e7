#!/usr/bin/python3
"""Stages of .ci/run and .ci/nightly: they run one after the other, report their times, and stop at the first failure."""
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAGES = f"""source {ROOT}/.ci/stages.sh
stage_first() {{ export LEFT=behind; echo "first's own words"; }}
stage_second() {{ [[ -z ${{LEFT:-}} ]]; }}
stage_broken() {{ echo "it broke"; return 7; }}
stage_last() {{ echo "the last ran"; }}
run_stages it "first second broken last" """


class Stages(unittest.TestCase):
    def run_them(self, *stages):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script")
            with open(path, "w", encoding="utf-8") as file:
                file.write(STAGES + '"$@"\n')
            done = subprocess.run(["bash", path, *stages], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_each_stage_is_named_with_its_time_and_leaves_nothing_to_the_next(self):
        status, said = self.run_them("first", "second")
        self.assertEqual(0, status, said)
        for line in ("=== first", "first's own words", "=== second"):
            self.assertIn(line, said)
        for stage in ("first   ", "second  "):  # in whole seconds, of which it may see a new one begin
            self.assertRegex(said, rf"{stage} passed in 0 min \d\d s")

    def test_it_stops_at_the_first_that_fails_and_says_how_to_run_it_alone(self):
        status, said = self.run_them()
        self.assertEqual(1, status)
        self.assertRegex(said, r"broken   FAILED after 0 min \d\d s")
        self.assertNotIn("the last ran", said)
        self.assertIn("to run it alone:  it broken", said)

    def test_a_stage_that_is_none_is_refused_before_any_runs(self):
        status, said = self.run_them("first", "frist")
        self.assertEqual(2, status)
        self.assertEqual("it: there is no stage 'frist': first, second, broken, last\n", said)

    def test_each_script_has_the_stages_that_it_names(self):
        for script in ("run", "nightly"):
            with open(f"{ROOT}/.ci/{script}", encoding="utf-8") as file:
                text = file.read()
            named = re.search(r'^run_stages \.ci/\w+ "([^"]+)"', text, re.MULTILINE).group(1).split()
            self.assertEqual(named, re.findall(r"^stage_(\w+)\(\)", text, re.MULTILINE), script)
            told = subprocess.run([f"{ROOT}/.ci/{script}", "none"], capture_output=True, text=True, check=False)
            self.assertEqual((2, ""), (told.returncode, told.stdout), script)


if __name__ == "__main__":
    unittest.main(verbosity=2)
