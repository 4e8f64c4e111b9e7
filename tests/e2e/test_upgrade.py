#!/usr/bin/python3
"""What every released version left behind still opens: all it said of its jobs is said again, and a job that it did not finish
goes on from its checkpoint with today's worker. The archives are made by tests/rendezvous/upgrade/make."""
import glob
import importlib.machinery
import json
import os
import tarfile
import types

import harness

FOLDER = os.path.join(harness.ROOT, "tests", "rendezvous", "upgrade")
ARCHIVES = sorted(glob.glob(os.path.join(FOLDER, "schema-*.tar.xz")))


def maker():
    loader = importlib.machinery.SourceFileLoader("upgrade_make", os.path.join(FOLDER, "make"))
    module = types.ModuleType("upgrade_make")
    module.__file__ = os.path.join(FOLDER, "make")
    loader.exec_module(module)
    return module


make = maker()
# What a job shows while its service looks for its workers, and what has an age.
OF_THE_MOMENT = ("latest_checkpoint", "reason", "state", "stage", "workers", "world_size", "tokens_per_second", "eta_s",
                 "restarts")


def without(rows, *fields):
    return [{key: value for key, value in row.items() if key not in fields} for row in rows]


class Upgrade(harness.ClusterTest):
    def setUp(self):
        self.cluster = harness.Cluster()
        self.addCleanup(self._close)

    def open(self, archive):
        os.makedirs(self.cluster.data_dir)
        with tarfile.open(archive) as files:
            files.extractall(self.cluster.data_dir)
        with open(os.path.join(self.cluster.data_dir, "said.json"), encoding="utf-8") as file:
            before = json.load(file)
        self.cluster.start_service()
        return before

    def assert_holds(self, before, after, what):
        """Everything that was said then is said now; new fields may have come."""
        if isinstance(before, dict):
            for key, value in before.items():
                self.assertIn(key, after, what)
                self.assert_holds(value, after[key], f"{what}.{key}")
        elif isinstance(before, list):
            self.assertEqual(len(before), len(after), what)
            for number, (one, other) in enumerate(zip(before, after)):
                self.assert_holds(one, other, f"{what}[{number}]")
        else:
            self.assertEqual(before, after, what)

    def check(self, archive):
        before = self.open(archive)
        self.assertEqual(["j1", "j2"], sorted(before))
        now = make.said(self.cluster)
        for job, then in before.items():
            told = now[job]
            for field in OF_THE_MOMENT:
                then["job"].pop(field, None)
            told["events"] = told["events"][:len(then["events"])]  # and its start, now
            self.assertEqual(then["job"]["step"], told["job"]["step"])
            then["logs"], told["logs"] = without(then["logs"], "id"), without(told["logs"], "id")  # numbered in their log since
            self.assertGreater(len(then["events"]), 3)
            self.assertGreater(len(then["checkpoints"]), 0)
            self.assertGreater(len(then["logs"]), 3)
            self.assert_holds(then, told, job)
            self.assertEqual({2}, {point["world_size"] for point in told["metrics"]}, "two workers had every step")
            curve = self.cluster.get(f"/v1/jobs/{job}/metrics?points=10")
            self.assertEqual(len(then["metrics"]), sum(point["steps"] for point in curve["metrics"]))

    def finish(self, archive):
        """The job that was broken off, and a new, exact one from the last checkpoint of the one that had ended."""
        before = self.open(archive)
        cluster = self.cluster
        spec = make.spec_of(cluster.folder)  # the training file is there, too, as it was
        for name in ("w1", "w2"):
            cluster.start_worker(name, arguments=("--data_root", cluster.folder))
        shown = cluster.wait_state("j2", "succeeded")
        self.assertEqual(40, shown["step"])
        newest = max(checkpoint["step"] for checkpoint in before["j2"]["checkpoints"])
        self.assertIn(f"step {newest}", " ".join(e["message"] for e in cluster.events("j2") if e["kind"] == "generation_formed"))
        after = cluster.submit(**{**spec, "name": "after", "total_steps": 20, "resume_from": "job:j1@12"})
        self.assertEqual(20, cluster.wait_state(after, "succeeded")["step"])
        for job in ("j1", "j2", after):
            self.assertIn("ok", cluster.cli("audit", job, "--data", os.path.join(cluster.folder, "train.bin")))
            cluster.cli("ckpt", "verify", job)


def add_tests():
    for archive in ARCHIVES:
        name = os.path.basename(archive).removesuffix(".tar.xz").replace("-", "_")
        setattr(Upgrade, f"test_all_that_{name}_said_is_said_again", lambda self, a=archive: self.check(a))
        setattr(Upgrade, f"test_a_job_of_{name}_goes_on", lambda self, a=archive: self.finish(a))


add_tests()

if __name__ == "__main__":
    if not ARCHIVES:
        raise SystemExit(f"there are no archives in {FOLDER}")
    harness.main()
