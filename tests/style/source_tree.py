"""The files that belong to the repository, as the style tests see them: what git tracks or would add, or, without git,
everything but build folders."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files():
    """Paths below ROOT, sorted, with '/' between parts; only regular files that are there now."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
                            capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        paths = listed.stdout.decode().split("\0")
    else:
        paths = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [f for f in folders if f not in (".git", "build", "__pycache__", "node_modules")]
            paths += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return sorted(p for p in set(paths) if p and os.path.isfile(os.path.join(ROOT, p)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()
