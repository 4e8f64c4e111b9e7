#!/usr/bin/python3
"""Everything that the documents and the files for deployment name exists: commands, flags, events, files."""
import os
import re
import unittest

import command_flags
from command_flags import ROOT, commands_in, commands_of, complaint, shell_lines_of_markdown, spans

RUNBOOK, MANUAL = "ops/RUNBOOK.md", "ops/MANUAL.md"
README_LINES_MAX = 180  # more text belongs in the manual


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def deployed():
    return sorted(os.path.relpath(os.path.join(folder, name), ROOT)
                  for folder, _, names in os.walk(os.path.join(ROOT, "ops", "deploy")) for name in names)


def markdown():
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ("build", "node_modules", ".git")]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names if name.endswith(".md")]
    return sorted(found)


def flags_of_setup():
    return set(re.findall(r"^ +(--\w+)\)", read("ops/setup"), re.MULTILINE))


def sources():
    for top in ("rendezvous", "worker", "storage", "model", "kernels", "ops"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".cpp", ".h", ".hip", ".json", ".yml")):
                    yield read(os.path.relpath(os.path.join(folder, name), ROOT))


def anchors(text):
    """The anchors of a document's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


class Documents(unittest.TestCase):
    def commands_exist(self, path, at_least):
        commands = commands_of(path)
        wrong = [c for c in map(complaint, commands) if c]
        self.assertEqual([], wrong, f"in {path}:\n  " + "\n  ".join(wrong))
        self.assertGreaterEqual(len(commands), at_least, f"{path} has more commands than were found: {commands}")

    def test_each_command_of_the_readme_exists(self):
        self.commands_exist("README.md", 10)

    def test_each_command_of_the_manual_exists(self):
        self.commands_exist(MANUAL, 35)

    def test_the_readme_stays_short(self):
        self.assertLessEqual(read("README.md").count("\n"), README_LINES_MAX, "move what not everybody needs to ops/MANUAL.md")

    def test_each_command_of_the_runbook_exists(self):
        self.commands_exist(RUNBOOK, 40)

    def test_each_command_of_the_files_for_deployment_exists(self):
        found = 0
        for path in deployed():
            with self.subTest(path):
                self.commands_exist(path, 0)
                found += len(commands_of(path))
        self.assertGreaterEqual(found, 10)

    def test_each_flag_that_is_named_alone_exists(self):
        known = command_flags.every_flag() | flags_of_setup()
        for path in ("README.md", MANUAL, RUNBOOK):
            alone = {span.split()[0].partition("=")[0] for span in spans(read(path)) if span.startswith("--")}
            ours = alone - {"--option"}
            self.assertEqual(set(), {flag for flag in ours if flag not in known}, path)

    def test_each_event_and_field_that_the_runbook_names_is_in_the_source(self):
        text = re.sub(r"^```.*?^```", "", read(RUNBOOK), flags=re.MULTILINE | re.DOTALL)
        named = {span for span in spans(text) if re.fullmatch(r"[a-z]+(_[a-z]+)+", span)}
        everything = "\n".join(sources())
        self.assertEqual(set(), {name for name in named if not re.search(rf"\b{name}\b", everything)})
        self.assertGreater(len(named), 8)

    def test_each_link_leads_somewhere(self):
        for path in markdown():
            text = re.sub(r"^```.*?^```", "", read(path), flags=re.MULTILINE | re.DOTALL)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                file, _, anchor = target.partition("#")
                if "://" in target:
                    continue
                full = os.path.normpath(os.path.join(ROOT, os.path.dirname(path), file)) if file else os.path.join(ROOT, path)
                self.assertTrue(os.path.exists(full), f"{path}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(read(os.path.relpath(full, ROOT))), f"{path}: {target}")


class TheTestItself(unittest.TestCase):
    def first(self, line):
        return commands_in(line)[0]

    def test_it_finds_commands_where_a_shell_does(self):
        for line in ("holdfast ls --json", "$ holdfast ls --json", "HOLDFAST_TOKEN=x holdfast ls --json | tail", "true && holdfast ls --json",
                     "sudo -u holdfast holdfast ls --json", "ExecStart=/usr/local/bin/holdfast ls --json", "x=$(holdfast ls --json)",
                     "bash -c 'exec holdfast ls --json'", "holdfast ls --json  # and not: holdfast nonsense"):
            self.assertEqual(["holdfast", "ls", "--json"], self.first(line), line)
            self.assertEqual(1, len(commands_in(line)), line)
        for line in ("the holdfast ls of old", "cat holdfast ls", "journalctl -u holdfast ls"):
            self.assertEqual([], commands_in(line), line)

    def test_it_reads_blocks_and_spans(self):
        text = "Run `holdfast ls`.\n\n```\nholdfast show j1 \\\n    --json\n```\nholdfast is prose.\n"
        self.assertEqual(["holdfast show j1      --json", "holdfast ls"], shell_lines_of_markdown(text))

    def test_it_refuses_what_is_not_there(self):
        for line in ("holdfast shw j1", "holdfast show j1 --jsn", "holdfast ckpt frobnicate j1", "holdfast-worker --nme x", "holdfast logs -z j1"):
            self.assertIsNotNone(complaint(self.first(line)), line)

    def test_it_lets_the_right_ones_through(self):
        for line in ("holdfast submit … --resume_from job:j1@300", "holdfast backup --data-dir /x --output y", "holdfast-worker --name a", "holdfast ckpt verify j1",
                     "holdfast COMMAND", "holdfast logs j1 -f"):
            self.assertIsNone(complaint(self.first(line)), line)


if __name__ == "__main__":
    unittest.main()
