#!/usr/bin/python3
"""The dashboard, the scrape configuration and the alerts are well-formed, and agree with each other and the runbook.

tests/e2e/test_metric_names.py asks a real service whether it has each metric that they name."""
import json
import os
import re
import unittest

import yaml

from command_flags import ROOT
from test_documents import anchors, read

VARIABLES = {"__rate_interval", "__all", "__interval"}
WIDTH = 24


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads(read("ops/dashboard.json"))
        self.panels = self.dashboard["panels"]

    def expressions(self):
        return ([t["expr"] for panel in self.panels for t in panel.get("targets", ())]
                + [note["expr"] for note in self.dashboard["annotations"]["list"]])

    def test_panels_are_told_apart_and_do_not_overlap(self):
        self.assertEqual(len(self.panels), len({panel["id"] for panel in self.panels}))
        taken = {}
        for panel in self.panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], WIDTH, panel["title"])
            for cell in ((x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])):
                self.assertNotIn(cell, taken, f"{panel['title']} and {taken.get(cell)}")
                taken[cell] = panel["title"]

    def test_it_can_be_imported_anywhere(self):
        variables = {v["name"]: v for v in self.dashboard["templating"]["list"]}
        self.assertEqual("datasource", variables["datasource"]["type"])
        asked = [*self.panels, *self.dashboard["annotations"]["list"], variables["job"],
                 *(t for panel in self.panels for t in panel.get("targets", ()))]
        for thing in asked:
            if thing.get("type") != "row":
                self.assertEqual("${datasource}", thing["datasource"]["uid"], thing.get("title"))
        self.assertNotIn("id", self.dashboard, "the number is of the Grafana that it is imported into")

    def test_it_uses_the_variables_that_it_has(self):
        known = VARIABLES | {v["name"] for v in self.dashboard["templating"]["list"]}
        for expression in self.expressions():
            self.assertLessEqual(set(re.findall(r"\$\{?(\w+)", expression)), known, expression)

    def test_expressions_are_balanced_and_ask_for_our_metrics(self):
        for expression in self.expressions():
            self.assertIn("holdfast_", expression)
            bare = re.sub(r'"[^"]*"', "", expression)
            for opening, closing in ("()", "{}", "[]"):
                self.assertEqual(bare.count(opening), bare.count(closing), expression)

    def test_it_shows_what_an_operator_looks_for(self):
        asked = " ".join(self.expressions())
        for metric in ("holdfast_job_loss", "holdfast_job_tokens_per_second", "holdfast_job_world_size", "holdfast_job_communication_seconds",
                       "holdfast_job_step_seconds", "holdfast_job_checkpoint_age_seconds", "holdfast_workers", "holdfast_http_requests_total",
                       "holdfast_database_bytes"):
            self.assertIn(metric, asked)


class Prometheus(unittest.TestCase):
    def setUp(self):
        self.config = yaml.safe_load(read("ops/prometheus.yml"))
        self.rules = [rule for group in yaml.safe_load(read("ops/alerts.yml"))["groups"] for rule in group["rules"]]

    def test_the_scrape_keeps_our_labels_and_sends_a_token(self):
        scrape = self.config["scrape_configs"][0]
        self.assertIs(True, scrape["honor_labels"], "a training job's label is `job`, as Prometheus's own")
        self.assertEqual("Bearer", scrape["authorization"]["type"])
        self.assertIn("credentials_file", scrape["authorization"])

    def test_its_rules_are_beside_it(self):
        for name in self.config["rule_files"]:
            self.assertTrue(os.path.exists(os.path.join(ROOT, "ops", name)), name)

    def test_each_alert_leads_to_a_part_of_the_runbook(self):
        known = anchors(read("ops/RUNBOOK.md"))
        for rule in self.rules:
            file, _, anchor = rule["annotations"]["runbook"].partition("#")
            self.assertEqual("ops/RUNBOOK.md", file)
            self.assertIn(anchor, known, rule["alert"])
            self.assertIn("summary", rule["annotations"])


if __name__ == "__main__":
    unittest.main()
