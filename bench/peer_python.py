"""PyTorch, the peer, in its two set-ups: as Debian installs it, and at its best. In both its products have as many threads as it is
to have (OMP_NUM_THREADS, as torchrun sets it): OpenBLAS's own would take all cores beside a PyTorch that was told to use one.

At its best is what PyTorch's own tuning guide asks for: one thread pool (OpenBLAS built on OpenMP, for its own threads fight
PyTorch's over the cores) and an allocator that keeps large blocks (by itself glibc gives each step's tensors back to the kernel
and faults them in again): tcmalloc, or glibc told to keep them, to ask for huge pages and to have one heap for all threads,
whichever makes a step quicker here; and OpenBLAS's quickest loops, for a release takes processors that came after it for very old
ones. Of GPT-2's vocabulary of 50,257 it has 50,304 rows, as nanoGPT pads it: whole tiles for its products. Its OpenMP
settings (OMP_PROC_BIND, GOMP_CPU_AFFINITY, Intel's library) and jemalloc made no step quicker (NOTES.md). A
ratio that anybody is told is the one to the peer at its best."""
import functools
import glob
import json
import os
import shutil
import statistics
import subprocess

DEBIANS = "/usr/bin/python3"  # sees Debian's PyTorch
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")

AS_INSTALLED, AT_BEST = SETUPS = ("as installed", "at its best")
BLAS = "/usr/lib/*/openblas-openmp/libblas.so.3"
TCMALLOC = "/usr/lib/*/libtcmalloc_minimal.so.4"
# glibc's own, from 2.35 on: huge pages, nothing given back, one heap.
GLIBC = "GLIBC_TUNABLES=" + ":".join(f"glibc.malloc.{name}={value}" for name, value in (
    ("hugetlb", 1), ("mmap_threshold", 1 << 32), ("trim_threshold", 1 << 35), ("top_pad", 1 << 26), ("arena_max", 1)))
PADDED = ("--vocabulary", 50304)  # of train.py
CORE = "OPENBLAS_CORETYPE"  # OpenBLAS's own variable: the processor whose loops it uses
CORES = {"Haswell": {"avx2", "fma"}, "Zen": {"avx2", "fma"}, "SkylakeX": {"avx512f", "avx512bw", "avx512vl", "avx512dq"}}  # and what their loops take

# Of Python code under PyTorch.
PRELUDE = "import json, os, sys, time, torch\ntorch.set_num_threads({threads})\n"
# The rate is 0 where oneDNN has no product ("primitive") in the type: with AVX2 alone none in bfloat16.
PRODUCT_RATE = """
a, b = (torch.randn(int(sys.argv[2]), int(sys.argv[2])).to(getattr(torch, sys.argv[1])) for _ in range(2))
best, begun = 0, time.perf_counter()
for _ in range(12):
    start = time.perf_counter()
    try: a @ b
    except RuntimeError as refused:
        if "primitive" not in str(refused): raise
        break
    best = max(best, 2 * len(a) ** 3 / (time.perf_counter() - start))
    if start - begun > 5: break
print(json.dumps({"rate": best}))
"""


def processor_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return set(next((line for line in file if line.startswith("flags")), "").split())


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

    @functools.cached_property
    def version(self):
        """PyTorch's, and '' where there is none. Its libraries may print lines before it."""
        done = subprocess.run(self.command("-c", "import torch; print(torch.__version__)"), capture_output=True, text=True, check=False)
        return done.stdout.strip().rpartition("\n")[2] if done.returncode == 0 else ""

    @functools.cached_property
    def missing(self):
        """'' when both set-ups can run, else why not and what to do."""
        where = " in it" if self.root else ""
        if not self.version:
            return f"{self.root or self.python} has no PyTorch: run ops/setup --bench{where}"
        for pattern in (BLAS, TCMALLOC):
            if not self.find(pattern):
                return f"the peer cannot be set up at its best, {self.root or ''}{pattern} is missing: run ops/setup --bench{where}"
        return ""

    @property
    def setups(self):
        """Those that can run: none without PyTorch, both when nothing is missing."""
        return SETUPS if not self.missing else (AS_INSTALLED,) if self.version else ()

    @functools.cached_property
    def core(self):
        """The value of CORE with which a product in float32 is quickest; '' for OpenBLAS's own choice."""
        flags = processor_flags()
        return self.quickest_of(["", *(core for core, needed in CORES.items() if needed <= flags)])

    def quickest_of(self, cores):
        return max(cores, key=self.product_rate)

    def product_rate(self, core):
        """Operations a second."""
        command = self.command("-c", PRELUDE.format(threads=1) + PRODUCT_RATE, "float32", 1024, setup=AT_BEST, environment={CORE: core}, allocator=GLIBC)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **({CORE: core} if core else {})})
        return json.loads(done.stdout.strip().rpartition("\n")[2])["rate"] if done.returncode == 0 else 0.0

    @functools.cache
    def allocator(self, dtype):
        """The variable that sets the one with which a step of Tiny in this type is quickest."""
        return max((f"LD_PRELOAD={self.find(TCMALLOC)}", GLIBC), key=lambda each: self.step_rate(dtype, each))

    def step_rate(self, dtype, allocator):
        """Tokens a second, the median of the second half of twelve steps."""
        threads = min(2, os.cpu_count())
        command = self.script("train.py", "--steps", 12, "--threads", threads, "--dtype", dtype, setup=AT_BEST, threads=threads, allocator=allocator)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return statistics.median(json.loads(line)["tokens_per_s"] for line in done.stdout.splitlines()[6:])

    def find(self, pattern):
        """The first file that matches, as the Python sees it; '' when there is none."""
        found = sorted(glob.glob((self.root or "") + pattern))
        return found[0][len(self.root or ""):] if found else ""

    def command(self, *arguments, setup=AS_INSTALLED, threads=1, environment=None, allocator=None):
        """`environment`: variables with which it will be run, which go before those that are set here."""
        ours = ["env", f"OMP_NUM_THREADS={threads}"]
        if setup == AT_BEST:
            ours += [allocator or self.allocator("float32"), f"LD_LIBRARY_PATH={os.path.dirname(self.find(BLAS))}"]
            if CORE not in (environment or {}) and self.core:
                ours.append(f"{CORE}={self.core}")
        return [*(["chroot", self.root] if self.root else []), *ours, self.python, "-B", *map(str, arguments)]

    def script(self, name, *arguments, setup=AS_INSTALLED, threads=1, environment=None, allocator=None):
        """Runs `name` of bench/peers; a system in a folder gets a copy of those first."""
        folder = SCRIPTS
        if self.root:
            folder = "/root/peers"
            shutil.copytree(SCRIPTS, self.root + folder, dirs_exist_ok=True)
        padded = PADDED if name == "train.py" and setup == AT_BEST else ()
        if setup == AT_BEST and not allocator and "--dtype" in arguments:
            allocator = self.allocator(arguments[arguments.index("--dtype") + 1])
        return self.command(os.path.join(folder, name), *arguments, *padded, setup=setup, threads=threads, environment=environment, allocator=allocator)
