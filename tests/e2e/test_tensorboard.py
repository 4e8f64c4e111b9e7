#!/usr/bin/python3
"""Event files for TensorBoard: what is in them is the run's curve, through kills, new generations and steps taken back."""
import math
import os

import harness
from tensorboard import reader

TAGS = {"loss", "validation_loss", "learning_rate", "gradient_norm", "tokens_per_second", "step_s", "communication_s",
        "world_size"}
OF_A_CLOCK = {"tokens_per_second", "step_s", "communication_s"}


class TensorBoard(harness.ClusterTest):
    def setUp(self):
        super().setUp()
        self.root = os.path.join(self.cluster.folder, "curves")
        self.protos = reader.compiled(self.cluster.folder)

    def start(self, *names, **options):
        for name in names:
            self.cluster.start_worker(name, arguments=("--tensorboard_dir", self.root), **options)
        self.cluster.wait_workers(*names)

    def assert_is_the_curve(self, job, steps):
        found = reader.scalars(self.protos, os.path.join(self.root, job))
        self.assertEqual(TAGS, set(found))
        points = {p["step"]: p for p in self.cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]}
        self.assertEqual(set(range(1, steps + 1)), set(points))
        last = max(point["generation"] for point in points.values())
        for tag in TAGS - {"validation_loss"}:
            # Whoever takes over from a rank 0 that died does not know of how many its last steps were.
            steps_of_tag = set(found[tag]) if tag == "world_size" else set(points)
            self.assertEqual(steps_of_tag, set(found[tag]), tag)
            differs = [step for step in steps_of_tag if not math.isclose(points[step][tag], found[tag][step], rel_tol=1e-6)]
            # A rank 0 that takes over writes again, by its own clock, those of the steps before it of which it has not heard that
            # the service has them; at the fastest these are all.
            wrong = [step for step in differs if tag not in OF_A_CLOCK or points[step]["generation"] == last]
            self.assertEqual([], wrong, tag)
            self.assertLessEqual({step for step, point in points.items() if point["generation"] == last}, steps_of_tag, tag)
        validated = {step: p["validation_loss"] for step, p in points.items() if p["validation_loss"] is not None}
        self.assertEqual(set(validated), set(found["validation_loss"]))
        return found

    def test_a_run_through_a_kill_of_rank_0(self):
        cluster = self.cluster
        self.start("w1", "w2", slow_ms=40)
        job = cluster.submit(**harness.small_spec(cluster.folder, nodes=2, total_steps=50, eval_every=10))
        cluster.wait_step(job, 12)
        cluster.crawl()
        first = next(w["id"] for w in cluster.job(job)["workers"] if w["rank"] == 0)
        cluster.kill_worker(first)
        cluster.hurry()
        cluster.wait_state(job, "succeeded")
        cluster.stop_workers()
        found = self.assert_is_the_curve(job, 50)
        self.assertEqual({1.0, 2.0}, set(found["world_size"].values()))
        self.assertGreaterEqual(len(os.listdir(os.path.join(self.root, job))), 2)

    def test_steps_that_were_taken_back_are_not_in_the_curve(self):
        cluster = self.cluster
        self.start("w1", slow_ms=40)
        job = cluster.submit(**harness.small_spec(cluster.folder, nodes=1, total_steps=40, checkpoint_every=10, eval_every=10))
        cluster.wait_event(job, "checkpoint_committed", containing="step 10:")
        cluster.crawl()
        cluster.wait_step(job, 12)
        cluster.kill_worker("w1")
        cluster.hurry()
        self.start("w2")
        cluster.wait_state(job, "succeeded")
        cluster.stop_workers()
        self.assertIn("steps_voided", cluster.event_kinds(job))
        self.assert_is_the_curve(job, 40)

    def test_a_folder_that_cannot_be_written_is_told_and_training_goes_on(self):
        cluster = self.cluster
        os.makedirs(self.root)
        self.start("w1")
        with open(os.path.join(self.root, "j1"), "wb"):
            pass  # where the job's folder should be
        job = cluster.submit(**harness.small_spec(cluster.folder, nodes=1, total_steps=12))
        cluster.wait_event(job, "tensorboard_failed", containing="Training goes on")
        cluster.wait_state(job, "succeeded")
        self.assertEqual(1, cluster.event_kinds(job).count("tensorboard_failed"))


if __name__ == "__main__":
    harness.main()
