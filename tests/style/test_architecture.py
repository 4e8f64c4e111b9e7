#!/usr/bin/python3
"""Holds ARCHITECTURE.md to the source, so that it cannot go stale: its drawing and its table of parts say what FLOORS of
test_include_direction.py says, its tables of threads name every file that makes a thread, and every path in it is there."""
import os
import re
import unittest

import source_tree
import test_include_direction as rules

DOCUMENT = "ARCHITECTURE.md"
TOPS = ("rendezvous", "worker", "ops/cli")  # names are relative to these
THREAD = re.compile(r"\bstd::(?:jthread|thread(?!::)|async)\b|\bpthread_create\b")
NO_THREADS_HERE = ("ops/", "tests/", "bench/")  # the tables are of the service and of the worker


def top_of(part):
    return next((top for top in TOPS if part == top or part.startswith(top + "/")), "")


def full_name(name, top):
    """The part of FLOORS that a name stands for, in the row or column of `top`; the name itself where there is none."""
    below = f"{top}/{name}"
    return below if top and below in rules.FLOORS else name


def rows_of_parts(text):
    """{part: what it may include} of the table."""
    found = {}
    for part, others in re.findall(r"^\| `([^`]+)` \| [^|]* \| ([^|]*) \|$", text, re.MULTILINE):
        if part in rules.FLOORS:
            found[part] = {full_name(name, top_of(part)) for name in others.split() if name != "–"}
    return found


def floors_of_drawing(text):
    """[(part, floor)] of the drawing: a line a floor, a column a top."""
    block = re.search(r"^```\nfloor │(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    head, *lines = block.splitlines()
    tops = [next((top for top in TOPS if cell.strip().startswith(top + "/ ")), "") for cell in head.split("│")]
    return [(full_name(name, top), int(line.split("│")[0])) for line in lines
            for top, cell in zip(tops, line.split("│")[1:]) for name in cell.split()]


def row_as_it_should_be(part):
    names = [other.removeprefix(top_of(part) + "/") if top_of(part) else other for other in rules.FLOORS[part].split()]
    return f"| `{part}` | … | {' '.join(names) or '–'} |"


class Architecture(unittest.TestCase):
    def setUp(self):
        self.text = source_tree.read(DOCUMENT)

    def test_the_table_has_every_part_and_its_arrows(self):
        table = rows_of_parts(self.text)
        wrong = [row_as_it_should_be(part) for part, others in rules.MAY_INCLUDE.items() if table.get(part) != others]
        self.assertEqual([], wrong, f"these rows of {DOCUMENT} differ from FLOORS; as they should be:\n" + "\n".join(wrong))

    def test_the_drawing_has_every_part_once(self):
        drawn = [part for part, _ in floors_of_drawing(self.text)]
        self.assertEqual(sorted(rules.FLOORS), sorted(drawn))

    def test_arrows_lead_to_lower_floors_of_the_drawing(self):
        floor = dict(floors_of_drawing(self.text))
        up = [f"{part} (floor {floor[part]}) -> {other} (floor {floor[other]})" for part, others in rules.MAY_INCLUDE.items()
              for other in others if floor[other] >= floor[part]]
        self.assertEqual([], up, f"move these parts in the drawing of {DOCUMENT}")

    def test_every_file_that_makes_a_thread_is_in_the_tables(self):
        named = set(re.findall(r"`([\w/]+\.(?:cpp|h))`", self.text))
        named |= {os.path.splitext(path)[0] + ".h" for path in named}  # a header that only holds it
        lost = [path for path in rules.sources() if not path.startswith(NO_THREADS_HERE)
                and THREAD.search(re.sub(r"//.*", "", source_tree.read(path))) and path not in named]
        self.assertEqual([], lost, f"say in {DOCUMENT} who starts these threads and what they may touch")

    def test_every_path_is_there(self):
        """Links are held by tests/ops/test_documents.py; these may leave out the folders in front."""
        known = ["/" + path for path in source_tree.files()]
        paths = re.findall(r"`([\w./]+\.(?:cpp|h|py|js|json|md))`", self.text)
        self.assertGreater(len(paths), 40)
        self.assertEqual([], [path for path in paths if not any(other.endswith("/" + path) for other in known)])


class TheTestItself(unittest.TestCase):
    def test_it_reads_rows_and_columns(self):
        text = ("```\nfloor │ rendezvous/  the service │ worker/  w │ below all\n  1   │ protocol │ link │ model\n  0   │ text  page │ │ kernels\n```\n"
                "| `rendezvous/protocol` | words | text |\n| `worker/link` | words | rendezvous/protocol transport |\n| `kernels` | ops | – |\n")
        self.assertEqual([("rendezvous/protocol", 1), ("worker/link", 1), ("model", 1), ("rendezvous/text", 0), ("rendezvous/page", 0),
                          ("kernels", 0)], floors_of_drawing(text))
        self.assertEqual({"rendezvous/protocol": {"rendezvous/text"}, "worker/link": {"rendezvous/protocol", "worker/transport"},
                          "kernels": set()}, rows_of_parts(text))


if __name__ == "__main__":
    unittest.main()
