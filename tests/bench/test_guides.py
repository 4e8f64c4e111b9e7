#!/usr/bin/python3
"""bench/GUIDES.md: its counts are those of its rows, and everything in its last column is there: commands, flags, files, figures.

A flag of a guide is looked up as well: where the row says that it works, `holdfast submit` or a program takes it, and where it is done
another way, it is at least answered. HOLDFAST_BIN is the programs' folder."""
import collections
import functools
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ops"))
import command_flags  # noqa: E402  (needs the path above)
from command_flags import BIN, ROOT, commands_in, complaint, spans  # noqa: E402

STATES = ("works", "other way", "recomputed", "partly", "missing", "out of scope")
OPEN_STATES = ("partly", "missing")
HEADING = ["line", "the guide says", "state", "in Holdfast"]
FLAG = re.compile(r"(?<![\w-])--([a-z]\w*)")
OF_THE_TREE = re.compile(r"(?:rendezvous|worker|storage|kernels|model|tests|bench|ops)/[\w./@-]+")
FIGURE = re.compile(r"\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+")  # whole numbers below 1,000 are everywhere
ROWS = 393  # of all guides: a row is changed, and never left out

Row = collections.namedtuple("Row", "guide line says state how")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def cells_of(line):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]


def tables_of(text):
    """Each table of a text, as lists of cells; the first is its heading."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[cells_of(line) for line in block.splitlines() if not line.startswith("| ---")] for block in blocks]


class Guides:
    """The document, read."""

    def __init__(self, text):
        front, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
        self.front = {table[0][0]: table[1:] for table in tables_of(front)}
        self.main_subject, self.rows = {}, []
        for part in parts:
            title = part.partition("\n")[0]
            first, last, whole = re.search(r"Main subject: (?:lines (\d+) to (\d+)|(all lines)|no line)\.", part).groups()
            self.main_subject[title] = range(int(first), int(last) + 1) if first else range(10**9 if whole else 0)
            [table] = [t for t in tables_of(part) if t[0] == HEADING]
            self.rows += [Row(title, int(line), says, state, how) for line, says, state, how in table[1:]]

    def titles(self):
        return list(self.main_subject)

    def of_main_subject(self, row):
        return row.line in self.main_subject[row.guide]


@functools.lru_cache(maxsize=None)
def foreign_names():
    """{name: the field of the job spec that it means, or ""}."""
    said = subprocess.run([os.path.join(BIN, "holdfast"), "help", "torchrun", "--json"], capture_output=True, text=True, check=True).stdout
    entries = [entry for section in json.loads(said)["topic"]["sections"] for entry in section["entries"]]
    return {entry["term"].removeprefix("--"): "".join(re.findall(r"^--(\w+)", entry["facts"])) for entry in entries}


@functools.lru_cache(maxsize=None)
def own_flags():
    return {flag.removeprefix("--") for flag in command_flags.every_flag()}


def place(row):
    return f"{row.guide}, line {row.line}"


def complaints_of_states(guides):
    for row in guides.rows:
        if row.state not in STATES:
            yield f"{place(row)}: there is no state {row.state}"
        if not row.says or not row.how:
            yield f"{place(row)}: an empty cell"


def complaints_of_order(guides):
    for before, row in zip(guides.rows, guides.rows[1:]):
        if before.guide == row.guide and before.line >= row.line:
            yield f"{place(row)} stands behind line {before.line}"


def complaints_of_counts(guides):
    shown = {re.sub(r"^\[(.*)\]\(.*\)$", r"\1", cells[0]): list(map(int, cells[1:])) for cells in guides.front["guide"]}
    for title in [*guides.titles(), "all"]:
        states = [row.state for row in guides.rows if title in (row.guide, "all")]
        counted = [*(states.count(state) for state in STATES), len(states)]
        if shown.get(title) != counted:
            yield f"{title}: the page in front says {shown.get(title)}, the rows {counted}"
    if len(guides.rows) != ROWS:
        yield f"{len(guides.rows)} rows instead of {ROWS}"


def complaints_of_open_rows(guides):
    """A row of the main subject that is not whole names the piece of work that brings the rest, and that piece names the row."""
    coming = collections.defaultdict(list)
    for row in guides.rows:
        name = re.search(r"Comes with: (.*)$", row.how)
        if name:
            coming[name[1]].append(row)
        elif row.state in OPEN_STATES and guides.of_main_subject(row):
            yield f"{place(row)} is {row.state} and names no piece of work that brings it"
    shown = {cells[0]: cells[2] for cells in guides.front["piece of work"]}
    for name in {*shown, *coming}:
        by_guide = [(title, [str(row.line) for row in coming[name] if row.guide == title]) for title in guides.titles()]
        expected = "; ".join(f"{title} {', '.join(lines)}" for title, lines in by_guide if lines)
        if shown.get(name) != expected:
            yield f"piece of work \"{name}\": the page in front says {shown.get(name)}, the rows {expected}"


def complaints_of_commands(guides):
    for row in guides.rows:
        for span in spans(row.how):
            yield from (f"{place(row)}: {wrong}" for wrong in map(complaint, commands_in(span)) if wrong)


def complaints_of_flags(guides):
    """Flags of the last column: of a program, of the job spec, of others as far as they are known, or of a script that it names."""
    for row in guides.rows:
        for span in spans(row.how):
            script = os.path.join(ROOT, span.split()[0])
            known = read(span.split()[0]) if OF_THE_TREE.fullmatch(span.split()[0]) and os.path.isfile(script) else ""
            for flag in FLAG.findall(span):
                if flag not in own_flags() and flag not in foreign_names() and f"--{flag}" not in known:
                    yield f"{place(row)}: nobody knows --{flag}"


def complaints_of_guides_flags(guides):
    """Flags of the guides: taken where the row says so, and never met with "no such option"."""
    for row in guides.rows:
        flags = [flag for span in spans(row.says) for flag in FLAG.findall(span)]
        for flag in flags:
            if flag not in own_flags() and flag not in foreign_names():
                yield f"{place(row)}: nobody knows the guide's --{flag}"
        taken_for = re.search(r"^taken for `(?:--|\")(\w+)|, taken for `\"(\w+)", row.how)
        if taken_for:
            field = taken_for[1] or taken_for[2]
            name = flags[0] if flags else re.findall(r'"(\w+)"', row.says)[0]
            if foreign_names().get(name) != field:
                yield f"{place(row)}: {name} is not taken for {field}"
        elif row.state == "works" and any(flag not in own_flags() for flag in flags[:1]):
            named = {flag for span in spans(row.how) for flag in FLAG.findall(span)}
            if not named & own_flags():
                yield f"{place(row)}: --{flags[0]} is no flag here, and the row names none in its place"


def complaints_of_files(guides):
    for row in guides.rows:
        for span in spans(row.how):
            path = span.split()[0]
            if OF_THE_TREE.fullmatch(path) and not os.path.exists(os.path.join(ROOT, path)):
                yield f"{place(row)}: there is no {path}"


def complaints_of_figures(guides):
    """A recomputed row leads to its place in PLAN.md, and the figures that it repeats stand there."""
    there = set(FIGURE.findall(read("bench/PLAN.md")))
    for row in guides.rows:
        if row.state != "recomputed":
            continue
        if "](PLAN.md#" not in row.how:
            yield f"{place(row)}: recomputed, and no link to where"
        yield from (f"{place(row)}: {figure} is not in PLAN.md" for figure in FIGURE.findall(row.how) if figure not in there)


class TheGuides(unittest.TestCase):
    GUIDES = Guides(read("bench/GUIDES.md"))

    def none(self, complaints):
        found = list(complaints)
        self.assertEqual([], found, "\n  " + "\n  ".join(found))

    def test_each_row_has_a_state_that_the_page_in_front_explains(self):
        self.none(complaints_of_states(self.GUIDES))
        self.assertEqual(list(STATES), [cells[0] for cells in self.GUIDES.front["state"]])

    def test_each_line_stands_once_and_in_order(self):
        self.none(complaints_of_order(self.GUIDES))

    def test_the_counts_in_front_are_those_of_the_rows(self):
        self.none(complaints_of_counts(self.GUIDES))

    def test_open_rows_of_the_main_subject_name_the_work_that_brings_them(self):
        self.none(complaints_of_open_rows(self.GUIDES))

    def test_each_command_exists(self):
        self.none(complaints_of_commands(self.GUIDES))

    def test_each_flag_is_known(self):
        self.none(complaints_of_flags(self.GUIDES))

    def test_each_flag_of_a_guide_is_taken_or_answered(self):
        self.none(complaints_of_guides_flags(self.GUIDES))

    def test_each_file_is_there(self):
        self.none(complaints_of_files(self.GUIDES))

    def test_each_figure_is_computed_somewhere(self):
        self.none(complaints_of_figures(self.GUIDES))


FRONT = """
| state | means |
| --- | --- |
| works | . |

| guide | works | other way | recomputed | partly | missing | out of scope | rows |
| --- | --- | --- | --- | --- | --- | --- | --- |
| [One](#one) | 1 | 0 | 0 | 0 | 0 | 0 | 1 |
| all | 1 | 0 | 0 | 0 | 0 | 0 | 1 |

| piece of work | brings | rows |
| --- | --- | --- |
"""


class TheTestItself(unittest.TestCase):
    def guides(self, *rows, coming=""):
        lines = "".join(f"| {row} |\n" for row in rows)
        return Guides(f"{FRONT}{coming}\n## One\n\nMain subject: lines 1 to 9.\n\n| {' | '.join(HEADING)} |\n| --- | --- | --- | --- |\n{lines}")

    def finds(self, check, *rows, coming=""):
        return list(check(self.guides(*rows, coming=coming)))

    def test_it_notices_states_order_and_counts(self):
        self.assertTrue(self.finds(complaints_of_states, "1 | a | werks | b"))
        self.assertTrue(self.finds(complaints_of_states, "1 | a | works | "))
        self.assertTrue(self.finds(complaints_of_order, "2 | a | works | b", "2 | a | works | b"))
        self.assertEqual(1, len(self.finds(complaints_of_counts, "1 | a | works | b")), "there are fewer rows than in the guides, and no more is wrong")
        self.assertEqual(3, len(self.finds(complaints_of_counts, "1 | a | missing | b")))

    def test_it_notices_an_open_row_that_nothing_brings(self):
        piece = "| models | . | One 1 |\n"
        self.assertEqual([], self.finds(complaints_of_open_rows, "1 | a | partly | b. Comes with: models", "10 | a | missing | b", coming=piece))
        self.assertTrue(self.finds(complaints_of_open_rows, "1 | a | partly | b"))
        self.assertTrue(self.finds(complaints_of_open_rows, "1 | a | partly | b. Comes with: models"))
        self.assertTrue(self.finds(complaints_of_open_rows, "2 | a | partly | b. Comes with: models", coming=piece))

    def test_it_notices_what_is_not_there(self):
        self.assertTrue(self.finds(complaints_of_commands, "1 | a | works | `holdfast shw j1`"))
        self.assertTrue(self.finds(complaints_of_flags, "1 | a | works | `--no_such_flag`"))
        self.assertTrue(self.finds(complaints_of_flags, "1 | a | works | `ops/demo --no_such_flag`"))
        self.assertEqual([], self.finds(complaints_of_flags, "1 | a | works | `ops/demo --chinese`, `--nodes 2`, `--nnodes`"))
        self.assertTrue(self.finds(complaints_of_files, "1 | a | works | `worker/nowhere.cpp`"))
        self.assertTrue(self.finds(complaints_of_figures, "1 | a | recomputed | 1,953"))
        self.assertTrue(self.finds(complaints_of_figures, "1 | a | recomputed | 1,954 ([x](PLAN.md#x))"))
        self.assertEqual([], self.finds(complaints_of_figures, "1 | a | recomputed | 1,953 ([x](PLAN.md#x))"))

    def test_it_notices_a_flag_of_a_guide_that_is_not_taken(self):
        for row in ("`--no_such_flag` | works | the same", "`--max_length 512` | works | taken for `--nodes 2`", "`--backend` | works | taken for `--nodes`",
                    "`--backend` | works | the same", '`"train_batch_size": 16` | works | in a file, taken for `"batch_size"`'):
            self.assertTrue(self.finds(complaints_of_guides_flags, f"1 | {row}"), row)
        for row in ("`--max_length 512` | works | taken for `--block_size 512`", "`--backend` | other way | refused", "`--nodes 2` | works | the same"):
            self.assertEqual([], self.finds(complaints_of_guides_flags, f"1 | {row}"), row)


if __name__ == "__main__":
    unittest.main()
