#!/usr/bin/python3
"""The tests of encrypted rings on a kernel that has TLS (kTLS) and seals what is sent: Linux in user mode, which is a process of this
machine and has the machine's files, read-only.

usage: kernel_tls.py PROGRAM [GTEST_FILTER]; PROGRAM is collectives_test. Exit status 77: there is no such kernel here."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

KERNEL, SECONDS = "/usr/bin/linux.uml", 900
SUITES = "OverAWire.*:EncryptedConnection.*:EncryptedRing.*:World/Collectives.*/2:HarmfulNetwork.*:Forming.*:Timeout.*"
INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOLDFAST_TEST_ENCRYPTED=1
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /tmp; mkdir -p /tmp/lib/modules
mount --bind /usr/lib/uml/modules /tmp/lib/modules
ip link set lo up
modprobe -d /tmp -a tls gcm ghash-generic ctr seqiv
{program} --gtest_color=no '--gtest_filter={suites}' 2>&1
cat /proc/net/tls_stat
echo o > /proc/sysrq-trigger
sleep 60
"""


def reason_not_to_run():
    missing = [path for path in (KERNEL, "/usr/lib/uml/modules/*/kernel/net/tls/tls.ko") if not glob.glob(path)]
    missing += [tool for tool in ("modprobe", "ip") if shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin") is None]
    return f"{', '.join(missing)} not found: ops/setup --kernel_tls installs them" if missing else None


def said_by_the_kernel(program, suites):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # its own /tmp hides the machine's
        init = os.path.join(folder, "init")
        with open(init, "w", encoding="utf-8") as file:
            file.write(INIT.format(program=os.path.abspath(program), suites=suites))
        os.chmod(init, 0o755)
        command = [KERNEL, "mem=700M", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "con=null", "con0=null,fd:1", "con1=null"]
        done = subprocess.run(command, env={**os.environ, "HOME": folder}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        return done.stdout.decode(errors="replace").replace("\r", "")


def main():
    reason = reason_not_to_run()
    if reason:
        print(f"skipped: {reason}")
        return 77
    program, suites = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else SUITES
    said = said_by_the_kernel(program, suites)
    sealed = re.search(r"^TlsTxSw\s+(\d+)", said, re.MULTILINE)
    passed = re.search(r"^\[  PASSED  \] (\d+) tests\.", said, re.MULTILINE)
    if not sealed or not passed or "[  FAILED  ]" in said or int(sealed[1]) == 0:
        print(said[-20000:])
        print("the tests did not pass, or the kernel sealed nothing")
        return 1
    print(f"{passed[1]} tests passed, and the kernel sealed what was sent on {sealed[1]} connections")
    return 0


if __name__ == "__main__":
    sys.exit(main())
