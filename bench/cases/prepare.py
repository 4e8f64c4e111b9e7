"""Text into tokens: how fast, and how much memory, whatever the input."""
import os
import subprocess
import tempfile
import time

import testbed
from cases import memory

TITLE = "holdfast data prepare: a packed input made into tokens (bytes), twice read"
NOTE = ("The input is {gb} GB of .jsonl.zst (random letters: they hardly pack, so its text is a third larger), and a tenth of it; two threads. "
        "Memory: the most that the process took.")
REPEAT = 1


def make(path, packed_bytes):
    """Lines of 6 kB of text, as base64 has it, packed with zstd."""
    text = packed_bytes * 4 // 3
    line = "s/.*/{\\\"text\\\": \\\"&\\\"}/"
    subprocess.run(["bash", "-c", f"set -o pipefail; head -c {text * 3 // 4} /dev/urandom | base64 -w 6000 | sed '{line}' | zstd -q -1 -T2 -o {path}"], check=True)
    return os.path.getsize(path)


def measure(options):
    gb = 1 if options.quick else 10
    rows = []
    for share in (gb / 10, gb):
        with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as folder:
            size = make(os.path.join(folder, "texts.jsonl.zst"), int(share * 1e9))
            start = time.monotonic()
            peak = memory.peak_of_program(f"{testbed.BIN}/holdfast", "data", "prepare", os.path.join(folder, "texts.jsonl.zst"), "--output",
                                          os.path.join(folder, "out"), "--tokenizer", "bytes", "--threads", 2)
            seconds = time.monotonic() - start
            rows.append(testbed.row(f"{size / 1e9:.1f} GB packed: peak memory", "MB", peak, note=NOTE.format(gb=gb)))
            rows.append(testbed.row(f"{size / 1e9:.1f} GB packed: packed bytes a second, both passes", "MB/s", size / seconds / 1e6, higher_is_better=True))
    return rows
