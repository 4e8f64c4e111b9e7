#!/usr/bin/python3
"""Breaks the promises one by one, and requires that the simulator notices: each file below mutations/ replaces one piece of the
real code; the simulator built with it must end with a broken rule, and the one built without must not.

    tests/sim/test_mutations.py BUILD_FOLDER [NAME...] [--count N]

Needs sim_test built in BUILD_FOLDER by ninja: of a mutated program only the one file is compiled, with that build's own
command, and linked to the rest. A mutation whose piece is not in the code (any more), exactly once, is an error."""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FORMAT = re.compile(r"promise: (?P<promise>.*)\nfile: (?P<file>.*)\n----- instead of\n(?P<old>.*?)\n----- it says\n(?P<new>.*)",
                    re.DOTALL)
BROKEN = 1  # the simulator's exit status for a broken rule; a crash or any other end is not what is wanted
PATIENCE_S = 3600  # for 10,000 runs, which take four minutes where the machine does nothing else


class Mutation:
    def __init__(self, path):
        self.name = os.path.basename(path).removesuffix(".mutation")
        with open(path, encoding="utf-8") as file:
            parts = FORMAT.fullmatch(file.read())
        if parts is None:
            raise SystemExit(f"{path} is not written as the others are: promise, file, instead of, it says")
        self.promise, self.file = parts["promise"], parts["file"]
        self.old, self.new = parts["old"].removesuffix("\n"), parts["new"].removesuffix("\n")

    def mutated(self):
        with open(os.path.join(ROOT, self.file), encoding="utf-8") as file:
            text = file.read()
        times = text.count(self.old)
        if times != 1:
            raise ValueError(f"what it replaces is in {self.file} {times} times, not once: write the mutation anew")
        return text.replace(self.old, self.new)


class Build:
    """The commands of a build folder."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        with open(os.path.join(self.folder, "compile_commands.json"), encoding="utf-8") as file:
            self.compile = json.load(file)
        listed = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", "bin/sim_test"], capture_output=True, text=True,
                                check=True)
        self.link = shlex.split(listed.stdout.strip().splitlines()[-1].removeprefix(": && ").removesuffix(" && :"))

    def entry(self, source):
        """Its compile command; of a file that several programs compile, the simulator's."""
        found = [e for e in self.compile if os.path.realpath(e["file"]) == os.path.realpath(os.path.join(ROOT, source))]
        if not found:
            raise ValueError(f"{source} is not compiled in {self.folder}")
        return next((e for e in found if "sim_test.dir" in e["command"]), found[0])

    def make(self, mutation, folder):
        source, program = os.path.join(folder, os.path.basename(mutation.file)), os.path.join(folder, "sim_mutated")
        with open(source, "w", encoding="utf-8") as file:
            file.write(mutation.mutated())
        entry = self.entry(mutation.file)
        command = shlex.split(entry["command"])
        before = os.path.join(entry["directory"], command[command.index("-o") + 1])
        command[command.index("-o") + 1] = source + ".o"
        command[command.index("-c") + 1] = source
        command.append("-w")  # what is left out may leave a name unused
        self.run(command, entry["directory"])
        link = [source + ".o" if os.path.join(self.folder, word) == before else word for word in self.link]
        at = link.index("-o")
        link[at + 1] = program
        if source + ".o" not in link:
            link.insert(at, source + ".o")  # before the library that has the sound one
        self.run(link, self.folder)
        return program

    @staticmethod
    def run(command, folder):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError("it does not compile:\n" + done.stderr[-3000:])


def simulate(program, count):
    return subprocess.run([program, "--seed", "1", "--count", str(count)], capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def judge(build, mutation, count):
    """(whether it was caught, what is to be said)."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = simulate(build.make(mutation, folder), count)
    except ValueError as error:
        return False, f"{mutation.name}: {error}"
    said = done.stdout.strip().splitlines()
    if done.returncode == BROKEN:
        return True, f"caught   {mutation.name}\n         {said[0]}"
    if done.returncode == 0:
        return False, f"MISSED   {mutation.name}: {count} runs saw nothing. It breaks: {mutation.promise}"
    return False, f"CRASHED  {mutation.name} with status {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build_folder")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of mutations; all of them when none is given")
    parser.add_argument("--count", type=int, default=10000, help="seeds that each is tried with")
    arguments = parser.parse_args()
    folder = os.path.join(HERE, "mutations")
    paths = sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    mutations = [Mutation(path) for path in paths if path.endswith(".mutation")]
    chosen = [m for m in mutations if not arguments.names or m.name in arguments.names]
    if not chosen:
        raise SystemExit(f"there is no such mutation; there are {', '.join(m.name for m in mutations)}")
    build = Build(arguments.build_folder)
    sound = simulate(os.path.join(build.folder, "bin", "sim_test"), arguments.count)
    if sound.returncode != 0:
        print(f"without any mutation a rule is broken:\n{sound.stdout}{sound.stderr}")
        return 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda m: judge(build, m, arguments.count), chosen))
    for _, text in results:
        print(text)
    caught = sum(1 for good, _ in results if good)
    print(f"{caught} of {len(chosen)} mutations were caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
