#!/usr/bin/python3
"""Keeps the tree tidy: length of files, unfinished work, paths of build machines, opening comments, folders, scripts."""
import collections
import os
import re
import subprocess
import unittest

import class_size
import source_tree

CODE = (".h", ".hpp", ".cpp", ".hip", ".cuh", ".py", ".sh", ".js")
CPP = (".h", ".hpp", ".cpp", ".hip", ".cuh")
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE", ".ci", ".gitignore", ".clang-format", ".clang-tidy",
             ".editorconfig", ".github", "rendezvous", "worker", "storage", "kernels", "model", "tests", "bench", "ops"}
LINES_MAX = 400
FILES_MAX = 30  # directly in one folder; the page is modules for a browser, without a bundler
FLAT_BY_NATURE = {"rendezvous/page"}
MEMBER_FUNCTIONS_MAX = 40
LARGE_CLASSES = {
    "kernels/ops.h DeviceOps",  # stays: a table of operations, each for itself
}
# A comment begins with the thing that it is about: these words stand for a noun that the reader has to find.
NOUNLESS = re.compile(r"(?:^|[.!?] )(?:What|Whose|Whom|Whoever|Who|Those|One (?:that|which|who|whose|of which|of whom))\b"
                      r"|^(?:what|whose|whom|whoever|who|those|one (?:that|which|who|whose|of which|of whom))\b")
# Relative clauses that end in the air: "the step that they are of.", "those of any".
IN_THE_AIR = re.compile(r"\b(?:is|are|was|were) of[.,;:)]|\b[Tt]hose of any\b")
# Written in two halves, so that this file does not contain what it looks for.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK", "not " "implemented")) + r")\b")
MACHINE = re.compile("|".join((r"(?<![\w.])/(?:work|farm)/", r"/tmp/" r"brief", r"https?://(?:deb|registry|security)\.")))


def is_script(path):
    return path.startswith(("ops/", ".ci/", "bench/")) and source_tree.read(path).startswith("#!")


def code():
    return [p for p in source_tree.files() if p.endswith(CODE) or is_script(p)]


def comments(text):
    """Each `//` comment of a C++ source, whole lines that follow each other as one, with the number of its first line."""
    found, goes_on = [], False
    for number, line in enumerate(text.splitlines(), 1):
        whole = re.match(r"\s*// ?(.*)", line)
        trailing = re.search(r"[;{},)]\s+// (.*)", line)
        if whole and goes_on and whole[1]:
            found[-1] = (found[-1][0], f"{found[-1][1]} {whole[1]}")
        elif whole or trailing:
            found.append((number, (whole or trailing)[1]))
        goes_on = bool(whole and whole[1])
    return found


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

    def test_a_comment_begins_with_the_thing_that_it_is_about(self):
        paths = [p for p in code() if p.endswith(CPP)]
        found = [f"{path}:{number}: {comment[:100]}" for path in paths for number, comment in comments(source_tree.read(path))
                 if NOUNLESS.search(comment) or IN_THE_AIR.search(comment)]
        self.none(found, "name the thing first: subject, verb, outcome")

    def test_a_comment_without_its_noun_is_noticed(self):
        for text in ("// What a rank brought.", "int a;  // whose it is", "// Late. One that is.", "// The point\n// that they are of.",
                     "f();  // those of any"):
            self.assertTrue([c for _, c in comments(text) if NOUNLESS.search(c) or IN_THE_AIR.search(c)], text)
        self.assertEqual([(1, "The rank that sends. It knows what follows."), (4, "of no use")],
                         comments("// The rank that sends.\n// It knows what follows.\n\nint a;  // of no use\n"))

    def test_headers_guard_themselves(self):
        self.none([p for p in code() if p.endswith((".h", ".hpp")) and "#pragma once" not in source_tree.read(p)],
                  "headers begin with #pragma once after their opening comment")

    def test_a_thing_lives_with_what_it_is_about(self):
        vague = re.compile(r"(^|/)(utils?|common|misc|helpers?)(/|\.[a-z]+$)")
        self.none([p for p in source_tree.files() if vague.search(p)], "name the folder or file after its subject")

    def test_no_folder_is_crowded(self):
        count = collections.Counter(os.path.dirname(p) for p in source_tree.files())
        self.none([f"{folder}: {files} files" for folder, files in count.items() if files > FILES_MAX and folder not in FLAT_BY_NATURE],
                  "prefixes of file names are rooms already: make folders of them")

    def test_no_class_has_more_than_40_member_functions(self):
        large = {f"{path} {name}": count for path in code() if path.endswith(CPP)
                 for name, count in class_size.member_functions(source_tree.read(path)) if count > MEMBER_FUNCTIONS_MAX}
        self.none([f"{name}: {count}" for name, count in large.items() if name not in LARGE_CLASSES],
                  "look for the fields that belong together, and give them a class of their own")
        self.none(sorted(LARGE_CLASSES - set(large)), "these are no longer large: delete them from LARGE_CLASSES")

    def test_a_program_is_compiled_at_one_speed(self):
        # The linker takes one copy of each inline function for the whole program: with the command line at -O0 the service
        # parsed its JSON at -O0, and took 4 s to start on records that it reads in 0.6 s.
        slow = [p for p in source_tree.files() if p.endswith("CMakeLists.txt") and not p.startswith("tests/")]
        self.none(self.lines_matching(slow, re.compile(r"^(?!.*HOLDFAST_SANITIZE).*-O[01g]\b")),
                  "only a test's own code, and sanitized code, may be compiled at less than full speed")

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


class TheCountOfMemberFunctions(unittest.TestCase):
    def counts(self, expected, body, head="class Thing"):
        self.assertEqual([("Thing", expected)], class_size.member_functions(f"{head} {{\n{body}\n}};\n"), body)

    def test_it_counts_what_is_declared_and_what_is_defined_in_place(self):
        self.counts(1, "void f();")
        self.counts(1, "[[nodiscard]] virtual std::map<int, std::function<void(int)>> f(int a = {}) const = 0;")
        self.counts(2, "int f() const { if (x_) { return g(1); } return 2; }\n  int g(int) noexcept;")
        self.counts(2, "explicit Thing(int a) : a_{a}, b_(f(a)) {}\n  ~Thing();")
        self.counts(2, "template <typename T>\n  T f(T a) { return a; }\n  bool operator()(int a) const;", "struct Thing : Base<int>")
        self.counts(1, "int a_ = 0;\n\n private:\n  void f();")
        self.counts(41, "\n".join(f"  void f{i}();" for i in range(41)), "class Thing final : public Base")

    def test_it_counts_nothing_else(self):
        self.counts(0, "int a_ = f(1), b_{2};\n  std::function<void(int)> done_ = {};\n  void (*handler)(int, int);")
        self.counts(0, "Thing() = default;\n  Thing(const Thing&) = delete;\n  int f() const override { return 1; }")
        self.counts(0, "// void f();\n  using F = void(int);\n  friend void f(Thing&);\n  std::string a_ = \"void f();\";")
        self.assertEqual([], class_size.member_functions("class Thing;\nenum class Kind { kA, kB };\nvoid f() { g(); }\n"))

    def test_it_counts_nested_classes_by_themselves(self):
        text = "class Outer {\n  struct Inner {\n    int f() { return 1; }\n  } inner_;\n  void g();\n  void h();\n};\n"
        self.assertEqual([("Outer", 2), ("Inner", 1)], class_size.member_functions(text))


if __name__ == "__main__":
    unittest.main()
