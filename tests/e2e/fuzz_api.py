#!/usr/bin/python3
"""Hostile input for as long as one likes: requests made from openapi.json, right and wrong in every way, and bytes that are no request.

usage: tests/e2e/fuzz_api.py [--minutes 0.2] [--seed N]      HOLDFAST_BIN names the programs, sanitized ones for instance

Holds: no answer of 500, every refusal a problem as described, the service answers all the while, its memory stays bounded, and it
ends with status 0 (a sanitizer that found something, or a leak, ends it with another)."""
import argparse
import hashlib
import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback

import harness
from api_description import Description

TEXTS = ["", "x", "j1", "0", "-1", "1e309", "null", "../../../etc/passwd", "%00", "a" * 5000, "\u202e\U0001f525", "'; DROP TABLE jobs; --",
         "${jndi:ldap://x}", "<script>alert(1)</script>", "\x7f", "2026-01-01T00:00:00Z", "\ud800"]
NUMBERS = [0, 1, -1, 2**31, 2**63 - 1, 2**63, -2**63, 1e308, -1e308, 0.1, 5e-324, 1000]
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X" * 100]
CHUNKS = [b"one", b"two"]
NAMES = [hashlib.sha256(chunk).hexdigest() for chunk in CHUNKS]
MANIFEST = {"chunk_bytes": 4 << 20, "files": [{"bytes": 3, "chunks": [name], "name": f"{name[:4]}.bin"} for name in sorted(NAMES)], "format": 1}
DIGEST = hashlib.sha256(json.dumps(MANIFEST, separators=(",", ":")).encode()).hexdigest()
RIGHT = {"chunk": NAMES, "name": ["wiki", DIGEST]}  # for paths; jobs are named in the others
BOUND_MB = 1500  # sanitizers multiply what a service needs
ANSWER_S = 60  # as long as nothing takes


class Maker:
    """Values for a schema: mostly of it, often not."""

    def __init__(self, chance, document):
        self.chance, self.document = chance, document

    def anything(self, depth=0):
        kind = self.chance.randrange(8 if depth < 4 else 5)
        if kind < 2:
            return self.chance.choice(TEXTS)
        if kind < 4:
            return self.chance.choice(NUMBERS)
        if kind == 4:
            return self.chance.choice([None, True, False])
        if kind == 5:
            return [self.anything(depth + 1) for _ in range(self.chance.randrange(4))]
        return {self.chance.choice(TEXTS): self.anything(depth + 1) for _ in range(self.chance.randrange(4))}

    def value(self, schema, depth=0):
        if self.chance.random() < 0.08 or depth > 6:
            return self.anything(depth)
        if "$ref" in schema:
            return self.value(self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth + 1)
        if "enum" in schema:
            return self.chance.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "integer":
            return self.chance.choice([schema.get("minimum", 0), schema.get("maximum", 10), 1, *NUMBERS])
        if kind == "number":
            return self.chance.choice(NUMBERS)
        if kind == "array":
            return [self.value(schema["items"], depth + 1) for _ in range(self.chance.randrange(4))]
        if kind == "object":
            return {name: self.value(each, depth + 1) for name, each in schema.get("properties", {}).items() if self.chance.random() < 0.8}
        return self.chance.choice(TEXTS + ["w1", "read", "http://127.0.0.1:1/"])


NESTED = "a value that is nested deeply"


class Fuzzer:
    def __init__(self, cluster, seed, description, spec_fields):
        self.cluster, self.chance = cluster, random.Random(seed)
        self.description, self.fields = description, spec_fields
        self.maker = Maker(self.chance, description.document)
        self.statuses, self.findings = {}, []

    def token(self):
        kind = self.chance.random()
        return self.cluster.token() if kind < 0.7 else self.cluster.token("worker") if kind < 0.9 else self.chance.choice(TEXTS)

    def job_spec(self):
        """Most fields right, so that some get far."""
        spec = harness.small_spec(self.cluster.folder)
        if self.chance.random() < 0.2:
            spec["train_data_path"] = self.chance.choice(["data:wiki", f"data:wiki@{DIGEST}/{NAMES[0][:4]}.bin", "wiki:0.5,data:wiki/x:1"])
        for field in self.chance.sample(self.fields, self.chance.randrange(4)):
            good = [field.get("min"), field.get("max"), *field.get("choices", [])]
            spec[field["name"]] = self.chance.choice([each for each in good if each is not None] + [self.maker.anything()])
        return spec

    def body(self, name, operation):
        if self.chance.random() < 0.1:
            return self.chance.randbytes(self.chance.randrange(200))
        if name == "putChunk":
            return self.chance.choice(CHUNKS)
        if name == "submitJob":
            value = self.job_spec()
        elif name == "putDataSet" and self.chance.random() < 0.5:
            value = MANIFEST
        else:
            media = operation.get("requestBody", {}).get("content", {}).get("application/json")
            value = self.maker.value(media["schema"]) if media else self.maker.anything()
        if isinstance(value, dict) and value and self.chance.random() < 0.05:
            value[self.chance.choice(list(value))] = NESTED
        text = json.dumps(value).encode("utf-8", "surrogatepass")
        depth = self.chance.choice((60, 70, 200_000))
        text = text.replace(json.dumps(NESTED).encode(), b"[" * depth + b"]" * depth)
        return text[:self.chance.randrange(len(text))] if self.chance.random() < 0.05 else text

    @staticmethod
    def header_text(text):
        return "".join(c for c in str(text) if 0x20 <= ord(c) < 0x7f)

    @staticmethod
    def encoded(text):
        return "".join(f"%{byte:02x}" for byte in str(text).encode("utf-8", "surrogatepass"))

    def request(self, connection):
        name, (method, path, operation) = self.chance.choice(list(self.description.operations.items()))
        if self.chance.random() < 0.05:
            method = self.chance.choice(METHODS)
        for parameter in self.description.parameters(name, "path"):
            value = self.chance.choice(RIGHT.get(parameter["name"], ["j1", "j2", "j3"]) if self.chance.random() < 0.7 else TEXTS)
            path = path.replace("{" + parameter["name"] + "}", value if value.isalnum() else self.encoded(value))
        query = [(each["name"], self.maker.value(each["schema"])) for each in self.description.parameters(name, "query") if self.chance.random() < 0.4]
        query = [(key, value) for key, value in query if not (key == "follow" and value in ("1", "true")) and key != "wait_ms"]
        if query:
            path += "?" + "&".join(f"{key}={self.encoded(value)}" for key, value in query)
        headers = {"Authorization": "Bearer " + self.header_text(self.token())}
        for each in self.description.parameters(name, "header"):
            if self.chance.random() < 0.5:
                headers[each["name"]] = self.header_text(self.maker.value(each["schema"]))
        if self.chance.random() < 0.05:
            headers.update({f"X-{number}": "y" * self.chance.randrange(500) for number in range(self.chance.randrange(80))})
        body = self.body(name, operation) if method in ("POST", "PUT") else None
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        if reply.headers.get("Content-Type") == "text/event-stream":  # it may never end: left at once, as people do
            text = ""
            reply.close()
            connection.close()
        else:
            text = reply.read().decode(errors="replace")
        self.look_at(name, method, path, body, reply, text)

    def look_at(self, name, method, path, body, reply, text):
        self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
        known = self.description.operations[name][0] == method
        wrong = ["an internal error"] if reply.status == 500 else []
        if known:
            wrong += self.description.complaints(name, reply.status, reply.headers.get("Content-Type", ""), text)
        if wrong:
            self.findings.append(f"{method} {path} {body!r:.500} -> {reply.status} {text[:200]}: {wrong}")

    def bytes_that_are_no_request(self):
        with socket.create_connection(("127.0.0.1", self.cluster.port), timeout=10) as client:
            good = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
            data = bytearray(self.chance.choice([good, self.chance.randbytes(self.chance.randrange(2000)), good * 5]))
            for _ in range(self.chance.randrange(6)):
                if data:
                    data[self.chance.randrange(len(data))] = self.chance.randrange(256)
            try:
                client.sendall(bytes(data))
                if self.chance.random() < 0.5:
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(65536):
                        pass
            except OSError:
                pass  # it was refused

    def run(self, seconds):
        try:
            self.ask(seconds)
        except BaseException:  # a thread that ends without a word would pass for one that found nothing
            self.findings.append(traceback.format_exc())

    def ask(self, seconds):
        deadline, connection = time.monotonic() + seconds, None
        while time.monotonic() < deadline and not self.findings:
            try:
                if self.chance.random() < 0.05:
                    self.bytes_that_are_no_request()
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=ANSWER_S)
                self.request(connection)
            except (http.client.HTTPException, OSError) as error:
                if connection:
                    connection.close()
                connection = None
                if isinstance(error, ConnectionRefusedError):
                    self.findings.append("the service is not there")
                if isinstance(error, TimeoutError):
                    self.findings.append(f"no answer for {ANSWER_S} s")


def resident_mb(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    harness.need_programs()
    print(f"seed {options.seed}", flush=True)
    cluster, failed = harness.Cluster(), True
    cluster.service_flags = ("--requests_per_s", "0")
    try:
        cluster.start_service()
        description = Description(cluster.get("/openapi.json"))
        fields = cluster.get("/v1/job_spec")["fields"]
        fuzzers = [Fuzzer(cluster, options.seed + number, description, fields) for number in range(3)]
        threads = [threading.Thread(target=each.run, args=(60 * options.minutes,)) for each in fuzzers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        findings = [finding for each in fuzzers for finding in each.findings]
        if resident_mb(cluster.service.pid) > BOUND_MB:
            findings.append(f"the service holds {resident_mb(cluster.service.pid):.0f} MB")
        cluster.service.signal(signal.SIGTERM)
        status = cluster.service.wait_exit(60)
        if status != 0:
            findings.append(f"the service ended with status {status}: {cluster.service.log()[-3000:]}")
        statuses = {}
        for each in fuzzers:
            for code, count in each.statuses.items():
                statuses[code] = statuses.get(code, 0) + count
        print(f"{sum(statuses.values())} requests, by status: {dict(sorted(statuses.items()))}")
        if sum(statuses.values()) < 60 * options.minutes or not any(200 <= code < 300 for code in statuses):
            findings.append("next to nothing was answered")
        for finding in findings[:10]:
            print("FOUND:", finding)
        failed = bool(findings)
    finally:
        cluster.close(failed)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
