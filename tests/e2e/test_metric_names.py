#!/usr/bin/python3
"""Each metric and label that the dashboard and the alerts ask for is one that a service with a running job gives."""
import json
import os
import re

import harness

METRIC = re.compile(r"\bholdfast_\w+")
SELECTOR = re.compile(r"\b(holdfast_\w+)\{([^}]*)\}")
OF_GPUS = {"holdfast_worker_power_watts", "holdfast_worker_temperature_celsius"}  # a worker on the CPU tells neither
OF_OTHERS = OF_GPUS | {"holdfast_pull_checkpoints", "holdfast_pull_fails"}  # standbys/test_beside_the_leader.py asks one that stands by


def asked():
    """The expressions of dashboard and alerts, without their own file's names."""
    ops = os.path.join(harness.ROOT, "ops")
    with open(os.path.join(ops, "dashboard.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    yield from (t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", ()))
    yield from (note["expr"] for note in dashboard["annotations"]["list"])
    yield from (v["definition"] for v in dashboard["templating"]["list"] if "definition" in v)
    with open(os.path.join(ops, "alerts.yml"), encoding="utf-8") as file:
        yield from re.findall(r"^\s+expr: (.*)$", file.read(), re.MULTILINE)


def given(text):
    """{metric: names of its labels} of an answer in Prometheus's text format."""
    metrics = {}
    for line in text.splitlines():
        sample = re.match(r"(\w+)(?:\{(.*)\})? [^ ]+$", line)
        if sample:
            metrics.setdefault(sample.group(1), set()).update(re.findall(r'(\w+)="', sample.group(2) or ""))
    return metrics


class MetricNames(harness.ClusterTest):
    def test_the_service_gives_what_dashboard_and_alerts_ask_for(self):
        cluster = self.cluster
        cluster.start_workers("w1", "w2", slow_ms=50)
        job = cluster.submit(**harness.small_spec(cluster.folder, total_steps=2000, checkpoint_every=5, eval_every=5, nodes=1, max_nodes=1,
                                               checkpoint_store=f"{cluster.folder}/first", checkpoint_copy=f"{cluster.folder}/second"))
        cluster.wait_event(job, "checkpoint_committed")
        cluster.cli("data", "prepare", f"{harness.ROOT}/LICENSE", "--output", f"{cluster.folder}/bytes", "--tokenizer", "bytes")
        serves = cluster.submit(kind="serve", init_from=f"job:{job}", tokenizer=f"{cluster.folder}/bytes", nodes=1)
        wanted = {name for expression in asked() for name in METRIC.findall(expression)} - OF_OTHERS
        self.assertGreater(len(wanted), 20)

        def metrics():
            status, text = cluster.request("GET", "/metrics")
            self.assertEqual(200, status, text)
            found = given(text)
            return found if wanted <= found.keys() else None

        try:
            found = harness.wait_until(metrics, 20, "all metrics that are asked for")
        except AssertionError:
            self.assertEqual(set(), wanted - given(cluster.request("GET", "/metrics")[1]).keys(), "asked for and not given")
            raise
        for expression in asked():
            for metric, selectors in SELECTOR.findall(expression):
                if metric in OF_OTHERS:
                    continue
                for label in re.findall(r"(\w+)\s*[=!]", selectors):
                    self.assertIn(label, found[metric], expression)
        families = cluster.request("GET", "/metrics")[1]
        for metric in OF_GPUS:
            self.assertIn(f"# HELP {metric} ", families)
        kinds = {kind for expression in asked() for kind in re.findall(r'holdfast_events_total\{kind="(\w+)"', expression)}
        self.assertGreater(len(kinds), 0)
        text = cluster.request("GET", "/metrics")[1]
        for kind in kinds:  # from the start, or the first one is no increase
            self.assertIn(f'holdfast_events_total{{kind="{kind}"}}', text)
        self.assertLessEqual({"job", "name"}, found["holdfast_job_step"])
        # The alerts of what trains ask for this: a job that serves makes no step, and its replicas may be idle.
        self.assertIn(f'holdfast_job_total_steps{{job="{job}"', text)
        self.assertNotIn(f'holdfast_job_total_steps{{job="{serves}"', text)
        self.assertIn("state", found["holdfast_workers"])


if __name__ == "__main__":
    harness.main()
