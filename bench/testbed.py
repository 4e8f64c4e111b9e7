"""Shared by the benchmark cases: where things are, rows, medians, one cluster of real processes, the floor of a link."""
import concurrent.futures
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import harness  # noqa: E402  (the end-to-end tests' way to start services and workers)

import peer_python  # noqa: E402

BIN = harness.BIN
PYTHON = "/usr/bin/python3"
PEER = peer_python.PeerPython()  # what PyTorch runs under; bench/run --python replaces it
TINY_PARAMETERS = 30142848


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = file.read().splitlines()
    model = next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown CPU")
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    isa = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f in flags]
    return f"{os.cpu_count()} cores of {model} ({' '.join(isa)})"


def row(case, unit, ours, peer=None, reference=None, floor=None, higher_is_better=False, note="", is_alike=True):
    """A row of a table. `peer`: a program's figures by set-up (peer_python.SETUPS); `reference`: what a row without such a program is
    set beside. `ratio` above 1 means that Holdfast does better, whichever way the unit counts. It is the ratio to the better of
    both set-ups, and there is none unless the peer ran at its best; nor where what is measured is not the same on both sides."""
    peer = peer or {}
    installed, best = (peer.get(setup) for setup in peer_python.SETUPS)
    if best is not None and installed is not None:
        best = max(best, installed) if higher_is_better else min(best, installed)
    beside = reference if best is None else best
    ratio = None if not beside or not ours or not is_alike else ours / beside if higher_is_better else beside / ours
    return {"case": case, "unit": unit, "ours": ours, "peer": installed, "best": best, "reference": reference, "ratio": ratio,
            "floor": floor, "note": note}


def by_setup(measured):
    """The median of each set-up's figures, {set-up: [number]}."""
    return {setup: median(values) for setup, values in measured.items()}


def plot_path(case):
    return os.path.join(ROOT, "bench", f"{case}.svg")


def median(values):
    return statistics.median(values) if values else None


def output_of(arguments, environment=None, timeout_s=900, cwd=None):
    try:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, check=False, timeout=timeout_s, cwd=cwd,
                              env={**os.environ, **(environment or {})})
    except FileNotFoundError as missing:
        raise SystemExit(f"bench/run: there is no {missing.filename}: run ops/build") from None
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def torch(code, *arguments, setup, threads=1, environment=None):
    """Runs Python code under PyTorch; it prints one JSON object."""
    code = peer_python.PRELUDE.format(threads=threads) + code
    return json_lines(output_of(PEER.command("-c", code, *arguments, setup=setup, threads=threads, environment=environment), environment))[-1]


def peer_script(name, *arguments, setup, threads=1, environment=None):
    """Runs a script of bench/peers to its end; its JSON objects."""
    return json_lines(output_of(PEER.script(name, *arguments, setup=setup, threads=threads, environment=environment), environment))


def end_as_on_interrupt():
    """When this program is told to end it takes down what it has begun, as on Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


class Testbed:
    """A cluster of the end-to-end harness that is closed at the end, when told to end, too; `with Testbed() as cluster:`."""

    def __init__(self, *service_flags):
        self.service_flags = service_flags

    def __enter__(self):
        end_as_on_interrupt()
        self.cluster = harness.Cluster()
        self.cluster.service_flags += self.service_flags
        try:
            return self.cluster.start_service()
        except FileNotFoundError as missing:
            self.cluster.close(True)
            raise SystemExit(f"bench/run: there is no {missing.filename}: run ops/build") from None
        except BaseException:
            self.cluster.close(True)
            raise

    def __exit__(self, kind, *_):
        self.cluster.close(kind is not None)


def tiny_spec(folder, **changes):
    """GPT-2 Tiny over random tokens: what is measured does not depend on what the text says."""
    path = os.path.join(folder, "tiny.bin")
    if not os.path.exists(path):
        with open(path, "wb") as file:
            for block in range(64):
                file.write(b"".join(((i * 40503 + block * 977) % 50257).to_bytes(2, "little") for i in range(8192)))
    return {"train_data_path": path, "model": "tiny", "batch_size": 4, "dtype": "bfloat16", "checkpoint_every": 0, **changes}


def plain_tcp_rate(connect_in=(), listen_in=(), host="127.0.0.1", megabytes=256):
    """Bytes a second of one bare TCP stream between two processes (each may run in a network namespace)."""
    port = harness.free_port()
    receiver = ("import socket, sys, time\n"
                f"l = socket.create_server(('{host}', {port})); print('ready', flush=True); c, _ = l.accept()\n"
                "buffer = bytearray(1 << 20); got = c.recv_into(buffer); start = time.perf_counter(); total = 0\n"
                "while (got := c.recv_into(buffer)): total += got\n"
                "print(total / (time.perf_counter() - start))")
    sender = ("import socket\n"
              f"c = socket.create_connection(('{host}', {port})); block = bytes(1 << 20)\n"
              f"for _ in range({megabytes}): c.sendall(block)")
    with subprocess.Popen([*listen_in, PYTHON, "-c", receiver], stdout=subprocess.PIPE, text=True) as listener:
        listener.stdout.readline()
        subprocess.run([*connect_in, PYTHON, "-c", sender], check=True)
        return float(listener.stdout.readline())


def run_together(commands, timeout_s=300):
    """Starts all commands; the first one's output."""
    processes = [subprocess.Popen([str(a) for a in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for command in commands]

    timed_out = []

    def end():
        for process in processes:
            process.kill()

    timer = threading.Timer(timeout_s, lambda: (timed_out.append(timeout_s), end()))
    timer.start()
    try:
        outputs = [process.communicate()[0] for process in processes]
    finally:
        timer.cancel()
        end()
    if any(process.returncode != 0 for process in processes):
        ends = ", ".join(str(process.returncode) for process in processes)
        how = f"they took more than {timeout_s} s" if timed_out else f"exit statuses {ends}; -9 may be for want of memory"
        raise SystemExit(f"a rank failed ({how}):\n" + "\n".join(outputs)[-3000:])
    return outputs[0]


def beside_each_other(*calls):
    """Each call, a function and its arguments, in a thread of its own; their results. When one fails, so does this, once all have ended."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(*call) for call in calls]]


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
