"""Many followers of one log, some of them slow, while lines come: what each saw, and what the service needed.

A worker that is played registers and ships lines, at a steady rate. Every follower checks that line numbers come without a gap
and in order, and that each text is the one that was sent; a slow one reads so little at a time that the service cuts it off,
comes back with Last-Event-ID, and has missed nothing at the end. Beside them somebody asks for the job, and times it."""
import asyncio
import json
import time
import urllib.parse

import harness

LINE_BYTES = 150
SLOW_READ_BYTES, SLOW_PAUSE_S = 4096, 0.5  # 8 kB/s


def resident_mb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1e3


def text_of(number):
    return f"line {number} ".ljust(LINE_BYTES, "-")


class Follower:
    """One reader; comes back as often as it is cut off."""

    def __init__(self, load, slow):
        self.load, self.slow, self.seen, self.cuts, self.late_s = load, slow, 0, 0, []

    async def run(self):
        while self.seen < self.load.first + self.load.sent - 1 or not self.load.done:
            try:
                await self.read_once()
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                self.cuts += 1

    async def read_once(self):
        reader, writer = await asyncio.open_connection(self.load.host, self.load.port, limit=1 << 22)
        try:
            writer.write((f"GET /v1/jobs/{self.load.job}/logs?follow=1 HTTP/1.1\r\nHost: {self.load.host}\r\n"
                          f"Authorization: Bearer {self.load.token}\r\nLast-Event-ID: {self.seen}\r\n\r\n").encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.split(b"\r\n", 1)[0]:
                raise AssertionError(f"a follower was answered {head[:200]}")
            rest = b""
            while self.seen < self.load.first + self.load.sent - 1 or not self.load.done:
                slow = self.slow and not self.load.done  # at the end it catches up
                if slow:
                    await asyncio.sleep(SLOW_PAUSE_S)
                try:
                    size = int(await asyncio.wait_for(reader.readuntil(b"\r\n"), 1), 16)
                except asyncio.TimeoutError:
                    continue  # nothing new; the last line may have been seen
                if size == 0:
                    raise ConnectionError("the stream ended")
                rest += (await reader.readexactly(size + 2))[:-2]
                *events, rest = rest.split(b"\n\n")
                for event in events:
                    self.take(event)
        finally:
            writer.close()

    def take(self, event):
        if not event.startswith(b"id: "):
            return  # a comment that keeps the connection alive
        number = int(event[4:event.index(b"\n")])
        if number != self.seen + 1:
            raise AssertionError(f"line {number} came after line {self.seen}")
        self.seen = number
        if number >= self.load.first:
            line = json.loads(event[event.index(b"data: ") + 6:])
            if line["text"] != text_of(number):
                raise AssertionError(f"line {number} is {line['text'][:60]}")
            if not self.slow:
                self.late_s.append(time.time() - self.load.sent_at[number])


class Load:
    def __init__(self, url, token, job, worker, pid):
        address = urllib.parse.urlparse(url)
        self.host, self.port, self.token = address.hostname, address.port, token
        self.job, self.worker, self.pid = job, worker, pid
        self.sent, self.done, self.sent_at, self.first = 0, False, {}, 1
        self.asked_s, self.memory = [], []

    async def ask(self, method, path, body=None):
        """(status, decoded body), by a connection of its own."""
        data = json.dumps(body).encode() if body is not None else b""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\n"
                     f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = await reader.read()
        writer.close()
        head, _, text = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), json.loads(text) if text else None

    async def ship(self, lines_per_s, seconds):
        """Lines in batches, ten batches a second; numbered from the log's next one on."""
        status, newest = await self.ask("GET", f"/v1/jobs/{self.job}/logs?tail=1")
        self.first = (newest["logs"][-1]["id"] if newest["logs"] else 0) + 1
        start = time.monotonic()
        for batch in range(int(seconds * 10)):
            await asyncio.sleep(max(0, start + batch / 10 - time.monotonic()))
            number = self.first + self.sent
            lines = [{"time_ms": int(time.time() * 1000), "level": "info", "text": text_of(number + i)}
                     for i in range(lines_per_s // 10)]
            for i in range(len(lines)):
                self.sent_at[number + i] = time.time()
            batch_of_lines = {"incarnation": f"{self.worker}-1", "job": self.job, "lines": lines}
            status, answer = await self.ask("POST", f"/v1/workers/{self.worker}/logs", batch_of_lines)
            if status != 204:
                raise AssertionError(f"lines were answered {status} {answer}")
            self.sent += len(lines)
        self.done = True

    async def look(self):
        """Asks for the job five times a second, and notes the service's memory."""
        while not self.done:
            start = time.monotonic()
            status, _ = await self.ask("GET", f"/v1/jobs/{self.job}")
            self.asked_s.append(time.monotonic() - start)
            if status != 200:
                raise AssertionError(f"the job was answered {status}")
            self.memory.append(resident_mb(self.pid))
            await asyncio.sleep(0.2)


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))] if values else 0.0


def register(cluster, worker):
    request = {"protocol_version": harness.protocol_version(), "name": worker, "incarnation": f"{worker}-1"}
    status, answer = cluster.request("POST", "/v1/workers", request)
    if status != 200:
        raise AssertionError(f"the worker was answered {status} {answer}")


async def run_load(load, followers, slow, lines_per_s, seconds):
    readers = [Follower(load, slow=i < slow) for i in range(followers)]
    everybody = asyncio.gather(load.ship(lines_per_s, seconds), load.look(), *(r.run() for r in readers))
    await asyncio.wait_for(everybody, seconds * 2 + 120)
    late = [s for r in readers for s in r.late_s]
    third = max(1, len(load.memory) // 3)
    return {"followers": followers, "slow": slow, "seconds": seconds, "lines": load.sent,
            "last_line_seen_by_all": all(r.seen == load.first + load.sent - 1 for r in readers),
            "slow_were_cut_off": sum(r.cuts for r in readers if r.slow),
            "others_were_cut_off": sum(r.cuts for r in readers if not r.slow),
            "line_p50_ms": percentile(late, 50) * 1e3, "line_p99_ms": percentile(late, 99) * 1e3,
            "ask_p50_ms": percentile(load.asked_s, 50) * 1e3, "ask_p99_ms": percentile(load.asked_s, 99) * 1e3,
            "memory_first_third_mb": max(load.memory[:third]), "memory_last_third_mb": max(load.memory[-third:])}


def follow(cluster, job, followers=64, slow=8, lines_per_s=500, seconds=8):
    register(cluster, "shipper")
    load = Load(cluster.url, cluster.token(), job, "shipper", cluster.service.pid)
    return asyncio.run(run_load(load, followers, slow, lines_per_s, seconds))
