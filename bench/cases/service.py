"""Many workers on one service: how long a heartbeat waits, when a directive is there, and what the service needs for it."""
import os
import socket
import subprocess
import time

import testbed

TITLE = "One service with many workers: heartbeats, directives, memory, CPU"
NOTE = ("Ours: bench_service_load, one process that is all workers, on the same machine as the service: each holds a long-poll open and "
        "reports once a second, spread evenly. Quiet: nothing else happens. Pushed: a job for all workers is submitted and stopped, "
        "three times, and every worker answers each directive at once. Floor: a heartbeat's bytes there and back between two bare "
        "processes. Memory is of the service's process: VmHWM its peak, RSS at the end; CPU seconds a second are over the whole run.")
COUNTS = (100, 1000)
SECONDS = 20
# As many bytes as a heartbeat and its answer have, headers and all.
REQUEST_BYTES, ANSWER_BYTES, EXCHANGES = 420, 160, 2000


def usage(pid):
    """Of a process: CPU seconds so far, peak and present memory in MB."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        kilobytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in file) if name in ("VmHWM", "VmRSS")}
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return {"cpu_s": cpu_s, "peak_mb": kilobytes["VmHWM"] / 1e3, "rss_mb": kilobytes["VmRSS"] / 1e3}


def loaded(workers):
    """The program's figures of one run, with the service's memory and CPU."""
    with testbed.Testbed() as cluster:
        pid = cluster.service.pid
        before, began = usage(pid), time.monotonic()
        said = testbed.json_lines(testbed.output_of(
            [f"{testbed.BIN}/bench_service_load", "--server", cluster.url, "--token", cluster.token("admin"), "--workers", workers,
             "--seconds", SECONDS]))[-1]
        after, wall = usage(pid), time.monotonic() - began
        if said["errors"]:
            raise SystemExit(f"{said['errors']} requests of {workers} workers failed, the first: {said['first_error']}")
        return {**said, **after, "cpu": (after["cpu_s"] - before["cpu_s"]) / wall}


def bare_exchange_ms():
    """The 99th percentile of sending a heartbeat's bytes and receiving its answer's, with nothing done in between."""
    answerer = ("import socket\n"
                "l = socket.create_server(('127.0.0.1', 0)); print(l.getsockname()[1], flush=True); c, _ = l.accept()\n"
                "c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
                f"while len(c.recv({REQUEST_BYTES}, socket.MSG_WAITALL)) == {REQUEST_BYTES}: c.sendall(bytes({ANSWER_BYTES}))")
    with subprocess.Popen([testbed.PYTHON, "-c", answerer], stdout=subprocess.PIPE, text=True) as process:
        taken = []
        with socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(EXCHANGES):
                start = time.perf_counter()
                connection.sendall(bytes(REQUEST_BYTES))
                connection.recv(ANSWER_BYTES, socket.MSG_WAITALL)
                taken.append((time.perf_counter() - start) * 1000)
    return sorted(taken)[EXCHANGES * 99 // 100 - 1]


def measure(options):
    runs = {workers: [] for workers in COUNTS}
    floors = []
    for _ in range(options.repeat):  # in turn, so that a busy minute falls on all
        floors.append(bare_exchange_ms())
        for workers, of_count in runs.items():
            of_count.append(loaded(workers))
    rows = []
    for workers, of_count in runs.items():
        def row(what, unit, key, floor=None):
            value = testbed.median([run[key] for run in of_count])
            rows.append(testbed.row(f"{workers} workers: {what}", unit, value, floor=floor, note=NOTE))

        floor = testbed.median(floors)
        row("heartbeat, quiet, p50", "ms", "heartbeat_p50_ms")
        row("heartbeat, quiet, p99", "ms", "heartbeat_p99_ms", floor)
        row("heartbeat, pushed, p99", "ms", "busy_heartbeat_p99_ms", floor)
        row("directive to all, p50", "ms", "push_p50_ms")
        row("directive to all, p99", "ms", "push_p99_ms")
        row("release of all, p99", "ms", "release_p99_ms")
        row("heartbeats missed", "count", "missed")
        row("VmHWM of the service", "MB", "peak_mb")
        row("RSS of the service", "MB", "rss_mb")
        row("CPU of the service", "s/s", "cpu")
    return rows
