#!/usr/bin/python3
"""What workers log reaches their job's log: from before they had a job, and to the last words of a process that died."""
import os
import signal

import harness


class Logs(harness.ClusterTest):
    def texts(self, job, query="limit=1000"):
        return [line["text"] for line in self.cluster.get(f"/v1/jobs/{job}/logs?{query}")["logs"]]

    def wait_text(self, job, part, query="limit=1000"):
        return harness.wait_until(lambda: next((t for t in self.texts(job, query) if part in t), None), 20,
                                  f"'{part}' in {job}'s log")

    def test_what_was_logged_before_the_job_is_in_its_log(self):
        cluster = self.cluster
        cluster.start_workers("w1")
        job = cluster.submit(**harness.small_spec(cluster.folder, nodes=1, total_steps=12))
        cluster.wait_state(job, "succeeded")
        self.wait_text(job, "registered with")
        self.wait_text(job, "joining generation 1")
        texts = self.texts(job)
        self.assertLess(next(i for i, t in enumerate(texts) if "registered with" in t),
                        next(i for i, t in enumerate(texts) if "joining generation 1" in t))
        self.assertEqual(1, sum("registered with" in t for t in texts))

    def test_the_last_words_of_a_process_that_died_are_in_the_log(self):
        cluster = self.cluster
        cluster.start_workers("w1", "w2", slow_ms=20)
        job = cluster.submit(**harness.small_spec(cluster.folder, nodes=2, total_steps=100))
        cluster.wait_step(job, 3)
        pid = cluster.training_pid("w2")
        with open(f"/proc/{pid}/fd/2", "wb", buffering=0) as stderr:
            stderr.write(b"terminate called after throwing an instance of 'std::bad_alloc'\nhalf a line")
        os.kill(pid, signal.SIGABRT)
        self.wait_text(job, "terminate called after", "worker=w2&level=error&limit=1000")
        self.wait_text(job, "half a line", "worker=w2&level=error&limit=1000")
        cluster.workers["w2"].wait_log("terminate called after")  # its supervisor passes it on
        cluster.wait_state(job, "succeeded")
        shipped = [t for t in self.texts(job, "worker=w2&limit=1000") if "joining generation 1 " in t]
        self.assertEqual(1, len(shipped), "what was shipped is not repeated")

    def test_the_newest_lines_and_one_workers(self):
        cluster = self.cluster
        cluster.start_workers("w1", "w2")
        job = cluster.submit(**harness.small_spec(cluster.folder, nodes=2, total_steps=12))
        cluster.wait_state(job, "succeeded")

        def lines():
            return cluster.get(f"/v1/jobs/{job}/logs?limit=1000")["logs"]

        harness.wait_until(lambda: {"w1", "w2"} <= {line["worker"] for line in lines()}, 20, "lines of both")
        everything = lines()
        newest = cluster.get(f"/v1/jobs/{job}/logs?tail=3")["logs"]
        self.assertEqual(3, len(newest))
        self.assertGreaterEqual(newest[0]["id"], everything[-3]["id"])
        self.assertEqual({"w1"}, {line["worker"] for line in cluster.get(f"/v1/jobs/{job}/logs?worker=w1&limit=1000")["logs"]})


if __name__ == "__main__":
    harness.main()
