"""Finds our commands in a text, and asks the programs' --help whether each command and its flags exist.

A command is found where a shell finds one: at the start of a line, or after ; | && ( and the like, behind assignments, sudo and exec.
Markdown is searched in code blocks and `code spans`, scripts and units also in comments. HOLDFAST_BIN is the programs' folder."""
import functools
import os
import re
import shlex
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("HOLDFAST_BIN", os.path.join(ROOT, "build", "release", "bin"))
PROGRAMS = ("holdfast", "holdfast-worker")
OPERATOR = re.compile(r"^[();<>|&]+$")
ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
DIRECTIVE = re.compile(r"^(ExecStart|ExecStartPost|ExecStop)=[-@:+!]*")
WRAPPERS = {"exec", "nohup", "env", "time", "if", "then", "else", "elif", "do", "while", "until", "!", "$", "{", "#"}
PLACEHOLDER = re.compile(r"^(…|\.\.\.|[A-Z][A-Z0-9_]*|\$.*|<.*|\[.*)$")
HELP_FLAG = re.compile(r"^\s+(-[\w-]+(?:,-[\w-]+)*)", re.MULTILINE)


class Help:
    """The flags and subcommands of one command of a program, from its help text."""

    def __init__(self, text):
        self.flags = {flag for group in HELP_FLAG.findall(text) for flag in group.split(",")}
        lists = text.partition("\nExample")[0].partition("Positionals:")[0] if re.search(r"^Usage:.* SUBCOMMAND", text, re.MULTILINE) else ""
        self.commands = set(re.findall(r"^  (\w[\w-]*)  ", lists, re.MULTILINE))


@functools.lru_cache(maxsize=None)
def help_of(program, *path):
    done = subprocess.run([os.path.join(BIN, program), *path, "--help"], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "HOME": "/nonexistent"})
    if done.returncode != 0:
        raise AssertionError(f"{program} {' '.join(path)} --help: {done.returncode} {done.stderr}")
    return Help(done.stdout)


def every_flag():
    """All flags of all commands of both programs."""
    found, paths = set(help_of("holdfast-worker").flags), [()]
    while paths:
        path = paths.pop()
        here = help_of("holdfast", *path)
        found |= here.flags
        paths += [(*path, command) for command in here.commands]
    return found


def words_of(line):
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # an open quote: the line is prose
        words = line.split()
    return words


def commands_in(line):
    """Our commands in one line of shell, each as a list of words that begins with the program."""
    found, current = [], []
    for word in [*words_of(line), ";"]:
        if not OPERATOR.match(word) and not word.startswith("#"):
            current.append(word)
            continue
        found += ours(current)
        current = []
        if word.startswith("#"):  # the rest is prose
            break
    return found


def ours(words):
    words = [re.sub(r"^\$\(", "", DIRECTIVE.sub("", word)) for word in words]
    nested = [c for option, script in zip(words, words[1:]) if option == "-c" for c in commands_in(script)]
    while words and (ASSIGNMENT.match(words[0]) or words[0] in WRAPPERS or words[0] == "sudo"):
        if words[0] == "sudo" and words[1:2] == ["-u"]:
            words = words[2:]
        words = words[1:]
    if words and os.path.basename(words[0].strip("\"'`")) in PROGRAMS:
        nested.append([os.path.basename(words[0].strip("\"'`")), *(w.strip("[]`\\") for w in words[1:])])
    return nested


def complaint(command):
    """A sentence about the error in a command, or None."""
    program, path, said = command[0], [], " ".join(command)
    descending = program == "holdfast"
    for word in command[1:]:
        here = help_of(program, *path)
        flag = word.partition("=")[0]
        if flag.startswith("--") and len(flag) > 2:
            known = here.flags if program == "holdfast-worker" else here.flags | {f.replace("_", "-") for f in here.flags}
            if flag.rstrip("…") and flag not in known:
                return f"`{said}`: {program} {' '.join(path)} has no {flag}"
        elif flag.startswith("-") and len(flag) == 2 and flag not in here.flags:
            return f"`{said}`: {program} {' '.join(path)} has no {flag}"
        elif descending and not flag.startswith("-"):
            if word in here.commands:
                path.append(word)
            elif here.commands and not PLACEHOLDER.match(word):
                return f"`{said}`: {program} {' '.join(path)} has no command {word}"
            else:
                descending = False
    return None


def joined(lines):
    """The lines; a line that ends in a backslash is joined with the next line."""
    whole = ""
    for line in lines:
        whole += line.rstrip()
        if whole.endswith("\\"):
            whole = whole[:-1] + " "
            continue
        yield whole
        whole = ""
    if whole:
        yield whole


def spans(text):
    return re.findall(r"`([^`\n]+)`", text)


def shell_lines_of_markdown(text):
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```[^\n]*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in joined(block.splitlines())] + spans(" ".join(prose.split("\n")))


def shell_lines_of_script(text):
    """The lines of a script, unit or manifest, with the comments."""
    bare = [re.sub(r"^\s*#+ ?", "", line) for line in text.splitlines()]
    return [*joined(bare), *spans(" ".join(bare))]


def commands_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    lines = shell_lines_of_markdown(text) if path.endswith(".md") else shell_lines_of_script(text)
    return [command for line in lines for command in commands_in(line)]
