#!/usr/bin/python3
"""Keeps the arrows between the parts: which folder may include which, and which file may know which library.

A folder is a part. FLOORS lists them from the one that includes nothing to the ones that include most, each with the parts that it
may include: they stand before it, so an arrow up cannot be written down. Two parts are smaller than a folder and have their
reason beside them. Tests and benchmarks may include everything; nothing includes them. ARCHITECTURE.md draws the same floors, and
test_architecture.py holds the drawing to this list. To see it fail, put `#include "worker/transport/transport.h"` into a file of
kernels/; the last tests here do that with made-up sources."""
import os
import re
import unittest

import source_tree

FLOORS = {  # part (a folder, or a path prefix) -> the parts whose headers it may include, beside its own
    "kernels": "",
    "storage": "",
    "model": "kernels storage",
    # --- rendezvous/: the service
    "rendezvous/text": "",
    "rendezvous/protocol": "storage rendezvous/text",
    "rendezvous/plan": "model rendezvous/text rendezvous/protocol",
    "rendezvous/profile": "rendezvous/text rendezvous/protocol",
    "rendezvous/client": "storage rendezvous/text rendezvous/protocol",
    "rendezvous/membership": "rendezvous/text rendezvous/protocol",
    "rendezvous/scheduler": "rendezvous/text rendezvous/protocol rendezvous/membership",
    "rendezvous/placement": "rendezvous/text",
    "rendezvous/store": "rendezvous/text rendezvous/protocol rendezvous/membership",
    "rendezvous/store/sql": "rendezvous/text rendezvous/store",
    "rendezvous/store/sqlite": "rendezvous/store rendezvous/store/sql",
    "rendezvous/store/postgresql": "rendezvous/text rendezvous/store rendezvous/store/sql",
    "rendezvous/access": "rendezvous/text rendezvous/store",
    "rendezvous/data_sets": "rendezvous/text rendezvous/protocol",
    "rendezvous/webhooks": "rendezvous/text rendezvous/client rendezvous/store",
    "rendezvous/data_dir": "storage rendezvous/text rendezvous/protocol rendezvous/store rendezvous/data_sets",
    "rendezvous/http": "rendezvous/text rendezvous/protocol",
    "rendezvous/http/files": "rendezvous/http",
    "rendezvous/completions": "model rendezvous/text rendezvous/protocol rendezvous/http",
    "rendezvous/coordinator": "rendezvous/text rendezvous/protocol rendezvous/plan rendezvous/profile rendezvous/membership "
                              "rendezvous/scheduler rendezvous/store",
    "rendezvous/queries": "storage rendezvous/text rendezvous/protocol rendezvous/plan rendezvous/scheduler rendezvous/data_dir "
                          "rendezvous/coordinator",
    "rendezvous/page": "",
    "rendezvous/api/openapi": "",
    "rendezvous/api/answers": "storage rendezvous/text rendezvous/protocol rendezvous/http rendezvous/coordinator "
                              "rendezvous/queries",
    "rendezvous/api/turn": "rendezvous/membership rendezvous/store rendezvous/http rendezvous/coordinator rendezvous/api/answers",
    "rendezvous/api/feeds": "rendezvous/store rendezvous/http rendezvous/api/answers rendezvous/api/turn",
    "rendezvous/api/documents": "rendezvous/store rendezvous/http/files rendezvous/api/openapi rendezvous/api/answers rendezvous/api/turn",
    "rendezvous/api/profiles": "rendezvous/text rendezvous/profile rendezvous/http rendezvous/api/answers rendezvous/api/turn",
    "rendezvous/api/exports": "storage model rendezvous/text rendezvous/protocol rendezvous/data_dir rendezvous/http rendezvous/api/answers "
                              "rendezvous/api/turn",
    "rendezvous/api/data_sets": "rendezvous/text rendezvous/protocol rendezvous/data_sets rendezvous/data_dir "
                                "rendezvous/http rendezvous/api/answers rendezvous/api/turn",
    "rendezvous/api/scaling": "rendezvous/text rendezvous/http rendezvous/coordinator rendezvous/api/turn",
    "rendezvous/api/serving": "model rendezvous/text rendezvous/protocol rendezvous/completions rendezvous/data_dir rendezvous/http "
                              "rendezvous/api/answers rendezvous/api/turn",
    "rendezvous/api": "storage rendezvous/text rendezvous/protocol rendezvous/plan "
                      "rendezvous/scheduler rendezvous/store rendezvous/access rendezvous/webhooks rendezvous/data_sets rendezvous/completions "
                      "rendezvous/data_dir rendezvous/http rendezvous/coordinator rendezvous/queries rendezvous/api/answers rendezvous/api/turn "
                      "rendezvous/api/feeds rendezvous/api/documents rendezvous/api/exports "
                      "rendezvous/api/profiles rendezvous/api/data_sets rendezvous/api/scaling rendezvous/api/serving",
    "rendezvous/standby": "storage rendezvous/text rendezvous/protocol rendezvous/client rendezvous/membership rendezvous/store rendezvous/access "
                          "rendezvous/data_dir rendezvous/http rendezvous/coordinator rendezvous/api/answers rendezvous/api/turn "
                          "rendezvous/api/feeds rendezvous/api/documents rendezvous/api",
    "rendezvous/process": "storage rendezvous/text rendezvous/client rendezvous/store rendezvous/store/sql "
                          "rendezvous/store/sqlite rendezvous/store/postgresql rendezvous/data_dir rendezvous/http rendezvous/completions rendezvous/api/answers rendezvous/api/scaling "
                          "rendezvous/api rendezvous/standby",
    # --- worker/: one training process for each device
    "worker/invariants": "",
    "worker/devices": "kernels rendezvous/text",
    "worker/transport": "rendezvous/text rendezvous/client",
    "worker/drills/fault_points": "rendezvous/text",  # the ring has points, too; the rest of drills/ stands on the ring's transport
    "worker/profile": "kernels storage rendezvous/protocol",
    "worker/collectives": "kernels storage worker/invariants worker/transport worker/drills/fault_points worker/profile",
    "worker/drills": "storage rendezvous/text worker/transport worker/drills/fault_points",
    "worker/link": "rendezvous/protocol rendezvous/client worker/transport",
    "worker/peer_server": "rendezvous/http worker/transport",
    "worker/sharding": "worker/invariants",
    "worker/gradients": "kernels model rendezvous/protocol worker/profile worker/collectives",
    "worker/session": "kernels storage model rendezvous/text rendezvous/protocol rendezvous/plan rendezvous/placement worker/profile worker/collectives "
                      "worker/gradients",
    "worker/data_sets": "model rendezvous/text rendezvous/protocol rendezvous/client rendezvous/http worker/transport worker/peer_server "
                        "worker/profile worker/link worker/session",
    "worker/state": "kernels storage model rendezvous/text rendezvous/protocol rendezvous/placement rendezvous/client worker/transport "
                    "worker/drills/fault_points worker/profile worker/collectives worker/sharding worker/link worker/session",
    "worker/checkpoints": "storage worker/drills/fault_points worker/profile worker/link worker/session",
    "worker/tensorboard": "rendezvous/text rendezvous/protocol rendezvous/client",
    "worker/step": "rendezvous/text rendezvous/protocol worker/invariants worker/transport worker/drills/fault_points "
                   "worker/profile worker/collectives worker/link worker/gradients worker/session worker/state worker/checkpoints "
                   "worker/tensorboard",
    "worker/load": "rendezvous/protocol",
    "worker/serving": "model rendezvous/text rendezvous/client rendezvous/http rendezvous/http/files rendezvous/completions "
                      "worker/peer_server",
    "worker/replica": "storage model rendezvous/protocol rendezvous/plan rendezvous/completions worker/profile worker/link "
                      "worker/session worker/serving",
    "worker/process/lifecycle": "rendezvous/protocol",  # a pure decision, as the membership is
    "worker/process": "kernels storage rendezvous/text rendezvous/protocol rendezvous/client worker/devices worker/transport "
                      "worker/drills/fault_points worker/drills worker/profile worker/link worker/load worker/peer_server worker/session "
                      "worker/data_sets worker/state worker/checkpoints worker/tensorboard worker/replica worker/step worker/process/lifecycle",
    # --- ops/cli/: the program that people type
    "ops/cli/terminal": "rendezvous/text",
    "ops/cli/command": "rendezvous/client ops/cli/terminal",
    "ops/cli/netcheck": "rendezvous/text rendezvous/client ops/cli/terminal ops/cli/command",
    "ops/cli/jobs": "rendezvous/text rendezvous/protocol ops/cli/terminal ops/cli/command",
    "ops/cli/launch": "rendezvous/text rendezvous/client ops/cli/terminal ops/cli/command",
    "ops/cli/chaos": "rendezvous/text ops/cli/terminal ops/cli/command ops/cli/jobs",
    "ops/cli/doctor": "kernels storage model rendezvous/text rendezvous/protocol rendezvous/client rendezvous/store rendezvous/store/postgresql ops/cli/terminal ops/cli/command "
                      "ops/cli/netcheck ops/cli/launch",
    "ops/cli/submit": "model rendezvous/text rendezvous/protocol ops/cli/terminal ops/cli/command ops/cli/jobs ops/cli/launch",
    "ops/cli/plan": "kernels model rendezvous/text rendezvous/protocol rendezvous/plan ops/cli/terminal ops/cli/command "
                    "ops/cli/jobs",
    "ops/cli/help": "rendezvous/text rendezvous/protocol ops/cli/terminal ops/cli/command ops/cli/jobs",
    "ops/cli/data": "model rendezvous/text rendezvous/protocol rendezvous/client ops/cli/terminal ops/cli/command",
    "ops/cli": "kernels storage model rendezvous/text rendezvous/protocol rendezvous/client worker/devices ops/cli/terminal "
               "ops/cli/command ops/cli/jobs ops/cli/chaos ops/cli/help",
    # The program's own three: only these have the service behind them.
    "ops/cli/main": "worker/devices ops/cli",
    "ops/cli/serve": "storage rendezvous/client rendezvous/process ops/cli/command",
    "ops/cli/serve_model": "rendezvous/text rendezvous/http worker/serving ops/cli/terminal ops/cli/command ops/cli",
    "ops/cli/generate": "rendezvous/text worker/serving ops/cli/terminal ops/cli/command ops/cli",
    "ops/cli/backup": "rendezvous/text rendezvous/client rendezvous/process ops/cli/terminal ops/cli/command",
    "ops/cli/store": "rendezvous/text rendezvous/process ops/cli/terminal ops/cli/command",
}
MAY_INCLUDE = {part: set(others.split()) for part, others in FLOORS.items()}
FREE = ("tests/", "bench/")
NARROW = {  # (part, part it includes) -> the only headers it may take from there
    ("worker/transport", "rendezvous/client"): {"rendezvous/client/socket_address.h"},
    ("worker/tensorboard", "rendezvous/client"): {"rendezvous/client/socket_address.h"},
    ("worker/state", "rendezvous/client"): {"rendezvous/client/retry.h"},
    ("rendezvous/protocol", "storage"): {"storage/places/place.h", "storage/json/outside_json.h"},  # targets of their own, without I/O
    ("ops/cli/serve", "storage"): {"storage/places/place.h"},
}
# (state, event, now) -> state': no clock, no I/O, no threads
PURE = {"rendezvous/membership", "rendezvous/scheduler", "rendezvous/placement", "rendezvous/plan", "rendezvous/profile",
        "rendezvous/data_sets", "worker/sharding", "worker/process/lifecycle"}
IMPURE_HEADERS = {"atomic", "condition_variable", "ctime", "filesystem", "fstream", "future", "iostream", "mutex", "random",
                  "thread", "unistd.h", "time.h", "rendezvous/text/fault_text.h",
                  "rendezvous/text/random_hex.h"}
CLOCK = re.compile(r"(?:system|steady|high_resolution)_clock::now|\brand\s*\(|random_device")
LIBRARIES = {  # include prefix -> the path prefixes that may know the library
    "boost/": ("rendezvous/http/",),
    "sqlite3.h": ("rendezvous/store/sqlite/",),
    "libpq-fe.h": ("rendezvous/store/postgresql/",),
    "curl/": ("rendezvous/client/http_client", "rendezvous/client/pulse", "rendezvous/client/url", "storage/s3/"),
    "sentencepiece": ("model/data/",),
    "utf8proc.h": ("rendezvous/text/", "model/data/"),
    "archive": ("model/data/text/archive_reader",),
    "expat.h": ("model/data/text/wiki_dump", "storage/s3/answers"),
    "zstd.h": ("storage/", "worker/sharding/differences"),
    "CLI/": ("ops/cli/", "worker/process/"),
    "torch/": (),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[>"]', re.MULTILINE)


def part_of(path):
    """The longest part that the path lies in; FREE for tests and benchmarks; None for a source that belongs nowhere."""
    if path.startswith(FREE):
        return FREE
    stem = os.path.splitext(path)[0]
    parts = [p for p in FLOORS if stem == p or path.startswith(p + "/")]
    return max(parts, key=len) if parts else None


def complaints(path, text):
    """What is wrong with the includes of one source, as sentences."""
    here = part_of(path)
    if here in (None, FREE):
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

    def test_no_arrow_runs_up(self):
        order = list(FLOORS)
        up = [f"{part} -> {other}" for part, others in MAY_INCLUDE.items() for other in others
              if order.index(other) > order.index(part)]
        self.assertEqual([], up, "a part may include only parts that stand before it in FLOORS")

    def test_no_arrow_is_allowed_that_nobody_uses(self):
        used = {(part_of(path), part_of(target)) for path in sources() for quote, target in INCLUDE.findall(source_tree.read(path))
                if quote == '"'}
        idle = [f"{part} -> {other}" for part, others in MAY_INCLUDE.items() for other in others if (part, other) not in used]
        self.assertEqual([], idle, "delete these arrows from FLOORS: nobody includes along them")

    def test_every_source_belongs_to_a_part(self):
        lost = [path for path in sources() if part_of(path) is None]
        self.assertEqual([], lost)

    def test_a_target_is_made_of_its_own_folder(self):
        elsewhere = [f"{path}: {line.strip()}" for path in source_tree.files() if path.endswith("CMakeLists.txt")
                     for line in source_tree.read(path).splitlines() if re.search(r"(\.\./|SOURCE_DIR}/)\S*\.cpp\b", line)]
        self.assertEqual([], elsewhere, "a file is compiled by the CMakeLists.txt of the folder it lies in")

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
        self.refuses("kernels/ops.h", '  #  include "worker/transport/transport.h"')
        self.refuses("model/gpt2.cpp", '#include "rendezvous/protocol/job_spec.h"')
        self.refuses("storage/shards/codec.cpp", '#include "model/gpt2.h"')
        self.refuses("storage/open_store.cpp", '#include "rendezvous/client/http_client.h"')
        self.refuses("rendezvous/text/time_text.cpp", '#include "rendezvous/protocol/messages.h"')
        self.refuses("rendezvous/api/jobs.cpp", '#include "worker/transport/transport.h"')
        self.refuses("rendezvous/http/server.cpp", '#include "rendezvous/api/service.h"')
        self.refuses("rendezvous/coordinator/planning.cpp", '#include "rendezvous/http/server.h"')
        self.refuses("rendezvous/membership/decide.cpp", '#include "rendezvous/store/job_store.h"')
        self.refuses("worker/collectives/ring.cpp", '#include "rendezvous/protocol/messages.h"')
        self.refuses("worker/collectives/ring.cpp", '#include "worker/drills/drills.h"')
        self.refuses("worker/step/train_loop.cpp", '#include "rendezvous/api/service.h"')
        self.refuses("ops/cli/jobs/show.cpp", '#include "rendezvous/process/serve.h"')
        self.refuses("ops/cli/main.cpp", '#include "worker/step/train_loop.h"')

    def test_it_refuses_libraries_outside_their_file(self):
        self.refuses("rendezvous/api/service.cpp", "#include <boost/asio/io_context.hpp>")
        self.refuses("worker/link/outbox.cpp", "#include <curl/curl.h>")

    def test_it_refuses_clocks_and_threads_in_the_pure_parts(self):
        self.refuses("rendezvous/membership/decide.cpp", "#include <thread>")
        self.refuses("rendezvous/scheduler/schedule.cpp", "auto now = std::chrono::steady_clock::now();")
        self.refuses("worker/process/lifecycle.cpp", "#include <mutex>")

    def test_it_lets_the_right_ones_through(self):
        for path, line in (("model/gpt2.cpp", '#include "kernels/ops.h"'),
                           ("ops/cli/serve.cpp", '#include "rendezvous/process/serve.h"'),
                           ("worker/collectives/ring.cpp", '#include "worker/transport/transport.h"'),
                           ("tests/worker/ring_test.cpp", '#include "worker/collectives/communicator.h"')):
            self.assertEqual([], complaints(path, line))


if __name__ == "__main__":
    unittest.main()
