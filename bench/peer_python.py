"""The Python that the peers run under: Debian's own, another one by its path, or that of a system in a folder (ops/try_on makes one)."""
import os
import shutil

DEBIANS = "/usr/bin/python3"  # sees Debian's PyTorch


class PeerPython:
    """`where`: a Python, or the root folder of a system that has one at /usr/bin/python3 (run by chroot, which takes root)."""

    def __init__(self, where=DEBIANS):
        self.root = where if os.path.isdir(where) else None
        self.python = DEBIANS if self.root else where
        if self.root and not os.path.exists(os.path.join(self.root, self.python.lstrip("/"))):
            raise SystemExit(f"bench/run: --python {where}: there is no {self.python} in it; expected a Python or the root of a system "
                             "that has one, as ops/try_on trixie setup --bench makes it")
        if self.root and os.geteuid() != 0:
            raise SystemExit(f"bench/run: --python {where}: running the Python of another system takes root (chroot)")
        if not self.root and not os.access(where, os.X_OK):
            raise SystemExit(f"bench/run: --python {where}: that is neither a program nor the root folder of a system")

    def command(self, *arguments):
        return [*(["chroot", self.root] if self.root else []), self.python, *map(str, arguments)]

    def script(self, folder, name, *arguments):
        """Runs `name` of the peers' folder; a system in a folder gets a copy of that folder first."""
        if self.root:
            inside = "/root/peers"
            shutil.copytree(folder, self.root + inside, dirs_exist_ok=True)
            folder = inside
        return self.command(os.path.join(folder, name), *arguments)
