"""The command lines in the code blocks of README.md and ops/MANUAL.md."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DOCUMENTS = ("README.md", "ops/MANUAL.md")


def code_blocks(text):
    return re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands_of(block):
    """The command lines of one block: those of a transcript begin with $, and the rest of it is what was printed."""
    lines = re.sub(r" *\\\n\s*", " ", block).splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    elif not re.match(r"(export|holdfast|HOLDFAST_|ops/|curl|source)", lines[0].strip()):
        return []  # a drawing
    return [bare for bare in (re.sub(r"\s+#.*$", "", line).strip() for line in lines) if bare]


def documented_commands():
    found = []
    for document in DOCUMENTS:
        with open(os.path.join(ROOT, document), encoding="utf-8") as file:
            found += [command for block in code_blocks(file.read()) for command in commands_of(block)]
    return found


# What other tests run, or what takes a machine that this one is not.
ELSEWHERE = {
    "ops/demo": "takes six minutes; its parts are those of this test and of e2e_faults",
    "ops/demo --chinese": "as ops/demo, on another text",
    "ops/test": "is what runs this test",
    "ops/test -R e2e": "is what runs this test",
    "ops/package": "takes a build; `ops/try_on bookworm packages` installs and upgrades them",
    "ops/try_on trixie": "makes a whole system, from the network, for half an hour",
    "ops/setup && ops/build": "ops/test did both before it began",
    "ops/soak 30": "takes an hour; tests/ops/test_soak_ledger.py has its parts, bench/SOAK.md its report",
    "ops/run_2nodes 0 192.168.1.100 tiny 5": "test_run_2nodes.py",
    "ops/run_2nodes 1 192.168.1.100": "test_run_2nodes.py",
    **dict.fromkeys((command for command in documented_commands() if "s3://" in command or "AWS_" in command), "s3/test_s3_jobs.py"),
    **dict.fromkeys((command for command in documented_commands() if any(word in command for word in ("serve-model", "serve-stage", ":8000/", "holdfast generate"))), "serving/test_serve_model.py"),
    **dict.fromkeys((command for command in documented_commands() if any(word in command for word in ("--kind serve", "/v1/completions -H"))), "serving/test_replicas.py"),
    **dict.fromkeys(("holdfast ckpt ls job:j1", "holdfast ckpt verify job:j1 --place B", "holdfast ckpt mend job:j1@60"), "s3/test_two_places.py"),
}
