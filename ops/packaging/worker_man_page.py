#!/usr/bin/python3
"""The manual page of holdfast-worker, made of what it says of itself: worker_man_page.py PROGRAM"""
import subprocess
import sys


def said(*arguments):
    return subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, check=True).stdout


def escaped(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line.startswith((".", "'")) else line


print(f'.TH HOLDFAST\\-WORKER 1 "" "{said("--version").split(" (")[0].strip()}" "User Commands"')
print(".SH NAME\nholdfast\\-worker \\- trains for a Holdfast service on this machine's devices\n.SH DESCRIPTION\n.nf")
for each in said("--help").splitlines():
    print(escaped(each) or ".sp")
print(".fi\n.SH SEE ALSO\n.BR holdfast (1)")
