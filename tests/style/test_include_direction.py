#!/usr/bin/python3
"""Keeps the arrows between the parts: which folder may include which, and which file may know which library.

A part is the longest prefix in PARTS that a path starts with. Tests and benchmarks may include everything; nothing
includes them. To see it fail, put `#include "worker/transport.h"` into a file of kernels/; the last tests here do that
with made-up sources."""
import re
import unittest

import source_tree

PARTS = {  # path prefix -> part
    "kernels/": "kernels",
    "model/": "model",
    "storage/": "storage",
    "rendezvous/protocol/": "protocol",
    "rendezvous/http_": "http_server",
    "rendezvous/membership": "membership",
    "rendezvous/scheduler": "scheduler",
    "rendezvous/flapping": "scheduler",
    "rendezvous/serve": "serve",
    "rendezvous/backup": "serve",
    "rendezvous/": "service",
    "worker/transport.h": "transport",
    "worker/tcp": "tcp",
    "worker/fault_points": "fault_points",
    "worker/collectives/": "collectives",
    "worker/lifecycle": "lifecycle",
    "worker/": "worker",
    "ops/cli/main": "cli_serve",
    "ops/cli/serve": "cli_serve",
    "ops/cli/backup": "cli_serve",
    "ops/cli/": "cli",
    "tests/": "tests",
    "bench/": "bench",
}
CLIENT = {"cli", "protocol", "model", "kernels", "storage"}
MAY_INCLUDE = {  # part -> the parts whose headers it may include, beside its own
    "kernels": set(),
    "model": {"kernels"},
    "protocol": set(),
    "storage": {"protocol"},
    "http_server": {"protocol"},
    "membership": {"protocol"},
    "scheduler": {"protocol", "membership"},
    "serve": {"service", "http_server", "membership", "scheduler", "protocol", "storage"},
    "service": {"http_server", "membership", "scheduler", "serve", "protocol", "storage"},
    "transport": set(),
    "tcp": {"transport", "protocol"},
    "fault_points": set(),
    "collectives": {"transport", "fault_points"},
    "lifecycle": {"protocol"},
    "worker": {"transport", "tcp", "fault_points", "collectives", "lifecycle", "model", "kernels", "storage", "protocol"},
    "cli": CLIENT,
    "cli_serve": CLIENT | {"serve"},
}
MAY_INCLUDE["membership"].add("scheduler")  # the two decide together; neither may know anything else
NARROW = {  # (part, part it includes) -> the only headers it may take from there
    ("storage", "protocol"): {"rendezvous/protocol/http_client.h"},
    ("tcp", "protocol"): {"rendezvous/protocol/ring_address.h"},
}
PURE = {"membership", "scheduler", "lifecycle"}  # (state, event, now) -> state': no clock, no I/O, no threads
IMPURE_HEADERS = {"atomic", "condition_variable", "ctime", "filesystem", "fstream", "future", "iostream", "mutex", "random",
                  "thread", "unistd.h", "time.h"}
CLOCK = re.compile(r"(?:system|steady|high_resolution)_clock::now|\brand\s*\(|random_device")
LIBRARIES = {  # include prefix -> the path prefixes that may know the library
    "boost/": ("rendezvous/http_",),
    "sqlite3.h": ("rendezvous/sqlite",),
    "curl/": ("rendezvous/protocol/http_client",),
    "sentencepiece": ("model/data/",),
    "zstd.h": ("storage/",),
    "CLI/": ("ops/cli/", "worker/"),
    "torch/": (),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[>"]', re.MULTILINE)


def part_of(path):
    prefixes = [p for p in PARTS if path.startswith(p)]
    return PARTS[max(prefixes, key=len)] if prefixes else None


def complaints(path, text):
    """What is wrong with the includes of one source, as sentences."""
    here = part_of(path)
    if here in (None, "tests", "bench"):
        return []
    found = []
    for quote, target in INCLUDE.findall(text):
        there = part_of(target) if quote == '"' else None
        if there and there != here:
            if there not in MAY_INCLUDE[here]:
                found.append(f'{path} ({here}) must not include "{target}" ({there})')
            elif (here, there) in NARROW and target not in NARROW[here, there]:
                found.append(f'{path} ({here}) may take only {sorted(NARROW[here, there])} from {there}, not "{target}"')
        for library, places in LIBRARIES.items():
            if target.startswith(library) and not path.startswith(places or ("\0",)):
                found.append(f"{path} must not know {target}: only {places or 'nobody'} may")
        if here in PURE and target in IMPURE_HEADERS:
            found.append(f"{path} ({here}) is pure: it must not include <{target}>")
    if here in PURE and CLOCK.search(text):
        found.append(f"{path} ({here}) is pure: time and randomness come in as arguments")
    return found


def sources():
    return [p for p in source_tree.files() if p.endswith((".h", ".hpp", ".cpp", ".cuh", ".hip"))]


class IncludeDirection(unittest.TestCase):
    def test_every_include_follows_the_arrows(self):
        found = [c for path in sources() for c in complaints(path, source_tree.read(path))]
        self.assertEqual([], found, "\n" + "\n".join(found))

    def test_every_source_belongs_to_a_part(self):
        lost = [path for path in sources() if part_of(path) is None]
        self.assertEqual([], lost)

    def test_own_headers_are_included_by_their_path_from_the_top(self):
        known = set(source_tree.files())
        wrong = [f'{path}: "{target}"' for path in sources() for quote, target in INCLUDE.findall(source_tree.read(path))
                 if quote == '"' and target not in known]
        self.assertEqual([], wrong)

    def test_includes_make_no_circle(self):
        graph = {p: [t for q, t in INCLUDE.findall(source_tree.read(p)) if q == '"'] for p in sources() if p.endswith(".h")}
        done = set()

        def visit(path, trail):
            self.assertNotIn(path, trail, "headers include each other: " + " -> ".join(trail + [path]))
            if path not in done:
                for target in graph.get(path, ()):
                    visit(target, trail + [path])
                done.add(path)

        for path in graph:
            visit(path, [])


class TheTestItself(unittest.TestCase):
    def refuses(self, path, line):
        self.assertTrue(complaints(path, line), f"{path} with {line} was let through")

    def test_it_refuses_includes_against_the_arrows(self):
        self.refuses("kernels/cpu/gelu.cpp", '#include "model/gpt2.h"')
        self.refuses("kernels/ops.h", '  #  include "worker/transport.h"')
        self.refuses("model/gpt2.cpp", '#include "storage/checkpoint.h"')
        self.refuses("storage/codec.cpp", '#include "model/gpt2.h"')
        self.refuses("storage/service_store.cpp", '#include "rendezvous/protocol/messages.h"')
        self.refuses("rendezvous/service.cpp", '#include "worker/transport.h"')
        self.refuses("rendezvous/http_server.cpp", '#include "rendezvous/service.h"')
        self.refuses("rendezvous/membership.cpp", '#include "rendezvous/job_store.h"')
        self.refuses("worker/collectives/ring.cpp", '#include "rendezvous/protocol/messages.h"')
        self.refuses("worker/train_loop.cpp", '#include "rendezvous/service.h"')
        self.refuses("ops/cli/show.cpp", '#include "rendezvous/serve.h"')
        self.refuses("ops/cli/main.cpp", '#include "worker/train_loop.h"')

    def test_it_refuses_libraries_outside_their_file(self):
        self.refuses("rendezvous/service.cpp", "#include <boost/asio/io_context.hpp>")
        self.refuses("worker/client.cpp", "#include <curl/curl.h>")

    def test_it_refuses_clocks_and_threads_in_the_pure_parts(self):
        self.refuses("rendezvous/membership.cpp", "#include <thread>")
        self.refuses("rendezvous/scheduler.cpp", "auto now = std::chrono::steady_clock::now();")
        self.refuses("worker/lifecycle.cpp", "#include <mutex>")

    def test_it_lets_the_right_ones_through(self):
        for path, line in (("model/gpt2.cpp", '#include "kernels/ops.h"'),
                           ("ops/cli/main.cpp", '#include "rendezvous/serve.h"'),
                           ("worker/collectives/ring.cpp", '#include "worker/transport.h"'),
                           ("tests/worker/ring_test.cpp", '#include "worker/collectives/communicator.h"')):
            self.assertEqual([], complaints(path, line))


if __name__ == "__main__":
    unittest.main()
