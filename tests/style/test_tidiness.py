#!/usr/bin/python3
"""Keeps the tree tidy: length of files, unfinished work, paths of build machines, opening comments, folders, scripts."""
import os
import re
import subprocess
import unittest

import source_tree

CODE = (".h", ".hpp", ".cpp", ".hip", ".cuh", ".py", ".sh", ".js")
CPP = (".h", ".hpp", ".cpp", ".hip", ".cuh")
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", ".ci", ".gitignore", ".clang-format", ".clang-tidy",
             ".editorconfig", ".github", "rendezvous", "worker", "storage", "kernels", "model", "tests", "bench", "ops"}
LINES_MAX = 400
# Written in two halves, so that this file does not contain what it looks for.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK", "not " "implemented")) + r")\b")
MACHINE = re.compile("|".join((r"(?<![\w.])/(?:work|farm)/", r"/tmp/" r"brief", r"https?://(?:deb|registry|security)\.")))


def is_script(path):
    return path.startswith(("ops/", ".ci/", "bench/")) and source_tree.read(path).startswith("#!")


def code():
    return [p for p in source_tree.files() if p.endswith(CODE) or is_script(p)]


class Tidiness(unittest.TestCase):
    def none(self, found, rule):
        self.assertEqual([], found, rule + ":\n  " + "\n  ".join(map(str, found)))

    def lines_matching(self, paths, pattern):
        return [f"{path}:{number}: {line.strip()[:100]}" for path in paths
                for number, line in enumerate(source_tree.read(path).splitlines(), 1) if pattern.search(line)]

    def test_no_file_passes_400_lines(self):
        long = [f"{p}: {n}" for p in code() if (n := source_tree.read(p).count("\n")) > LINES_MAX]
        self.none(long, "look for the second idea in these files and split them")

    def test_no_word_marks_unfinished_work(self):
        self.none(self.lines_matching(code(), UNFINISHED), "finish it or delete it")

    def test_no_path_or_host_of_a_build_machine_is_in_the_tree(self):
        self.none(self.lines_matching(source_tree.files(), MACHINE), "say it without the machine it was made on")

    def test_every_source_opens_with_what_it_promises(self):
        # A .cpp may leave that to the header of its name, and a test's names are sentences.
        told = {os.path.splitext(p)[0] for p in code() if p.endswith((".h", ".hpp"))}
        bare = [p for p in code() if p.endswith(CPP) and not source_tree.read(p).startswith(("//", "/*"))
                and not (p.endswith(".cpp") and os.path.splitext(p)[0] in told) and not p.endswith("_test.cpp")]
        bare += [p for p in code() if p.endswith(".py") and not
                 re.match(r'(#!.*\n)?("""|#)', source_tree.read(p))]
        self.none(bare, "a file opens with a comment that says what it is for")

    def test_headers_guard_themselves(self):
        self.none([p for p in code() if p.endswith((".h", ".hpp")) and "#pragma once" not in source_tree.read(p)],
                  "headers begin with #pragma once after their opening comment")

    def test_a_thing_lives_with_what_it_is_about(self):
        vague = re.compile(r"(^|/)(utils?|common|misc|helpers?)(/|\.[a-z]+$)")
        self.none([p for p in source_tree.files() if vague.search(p)], "name the folder or file after its subject")

    def test_the_top_level_is_the_agreed_one(self):
        self.none(sorted({p.split("/")[0] for p in source_tree.files()} - TOP_LEVEL), "not part of the agreed layout")

    def test_no_line_ends_in_blanks_or_holds_tabs(self):
        self.none(self.lines_matching(code(), re.compile(r"[ \t]+$|^ *\t")), "trailing blanks or tabs")

    def test_scripts_parse_and_can_be_run(self):
        for path in code():
            text = source_tree.read(path)
            full = os.path.join(source_tree.ROOT, path)
            with self.subTest(path):
                if re.match(r"#!.*\bbash\b", text):
                    checked = subprocess.run(["bash", "-n", full], capture_output=True, text=True, check=False)
                    self.assertEqual(0, checked.returncode, checked.stderr)
                elif path.endswith(".py") or re.match(r"#!.*\bpython3\b", text):
                    compile(text, path, "exec")
                if text.startswith("#!"):
                    self.assertTrue(os.access(full, os.X_OK), f"{path} begins with #! and has no run bit")


if __name__ == "__main__":
    unittest.main()
