#!/usr/bin/python3
"""The checker of histories finds each of the things that it is to find, in histories that are forged, and nothing in a good one."""
import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import histories  # noqa: E402  (needs the path above)
from histories import Call  # noqa: E402

SPEC = {"seed": 3, "total_steps": 5}


def a_submission(key, job, began=1.0, spec=None):
    return Call("a", "submit", key, began, began + 0.1, job, dict(spec or SPEC))


def a_job(job, name, state="queued", **spec):
    return {"id": job, "name": name, "state": state, "spec": {**SPEC, "dtype": "float32", **spec}}


class Histories(unittest.TestCase):
    def setUp(self):
        self.calls = [a_submission("a-1", None), a_submission("a-1", "j2", 2.0), a_submission("a-2", "j3", 3.0), a_submission("b-1", None),
                      a_submission("b-2", None), Call("a", "stop", "a-2", 4.0, 4.1, "j3")]
        self.jobs = [a_job("j1", "the long one"), a_job("j2", "a-1"), a_job("j3", "a-2", "cancelled"), a_job("j4", "b-1")]
        self.keys = [("a-1", "j2"), ("a-2", "j3"), ("b-1", "j4"), ("of somebody else", "j1")]
        self.stored = [(number, {"kind": "job_submitted", "job": f"j{number}"}) for number in (1, 2, 3, 4)]
        self.seen = copy.deepcopy(self.stored)

    def complaints(self):
        return histories.check(self.calls, self.jobs, self.keys)

    def finds(self, words, found):
        self.assertTrue(any(words in complaint for complaint in found), found)

    def test_a_good_one_has_no_complaints(self):
        self.assertEqual([], self.complaints())
        self.assertEqual([], histories.check_events(self.seen, self.stored))
        self.assertEqual([], histories.check_submitted_once(self.stored, self.jobs))

    def test_an_acknowledged_submission_that_is_not_there_is_lost(self):
        del self.jobs[1], self.keys[0]
        self.finds("a-1 was acknowledged as j2, and is lost", self.complaints())

    def test_a_submission_that_nobody_was_told_of_may_be_there_or_not(self):
        del self.jobs[3], self.keys[2]
        self.assertEqual([], self.complaints())

    def test_a_key_with_two_jobs_is_found_though_nobody_was_told(self):
        self.jobs.append(a_job("j5", "b-1"))
        self.finds("key b-1 made 2 jobs: j4, j5", self.complaints())

    def test_a_key_of_two_answers_with_two_ids_is_found(self):
        self.calls.append(a_submission("a-1", "j9", 5.0))
        self.finds("a-1 was acknowledged as j9, and is j2", self.complaints())

    def test_an_id_that_was_told_to_two_is_found(self):
        self.calls.append(a_submission("b-2", "j3", 5.0))
        self.finds("j3 was told to those of a-2, b-2", self.complaints())

    def test_an_id_that_the_store_has_twice_is_found(self):
        self.jobs.append(a_job("j4", "something else"))
        self.finds("the store has 2 jobs j4", self.complaints())

    def test_another_spec_is_found(self):
        self.jobs[1]["spec"]["seed"] = 4
        self.finds("a-1 was submitted with", self.complaints())

    def test_a_key_that_the_store_lost_or_gave_to_another_is_found(self):
        self.keys[0] = ("a-1", "j4")
        self.finds("the store's key a-1 is of ['j4']", self.complaints())
        del self.keys[0]
        self.finds("the store's key a-1 is of []", self.complaints())

    def test_a_stop_that_was_undone_is_found(self):
        self.jobs[2]["state"] = "queued"
        self.finds("j3 was acknowledged to be stopped, and is queued", self.complaints())

    def test_events_that_are_missed_doubled_or_out_of_order_are_found(self):
        for forged, words in ((self.seen[:1] + self.seen[2:], "1 of 4 events were missed, the first of them 2"),
                              (self.seen[:3], "1 of 4 events were missed, the first of them 4"),
                              (self.seen[:2] + self.seen[1:], "event 2 came twice"),
                              ([self.seen[1], self.seen[0], *self.seen[2:]], "event 1 came after event 2")):
            self.finds(words, histories.check_events(forged, self.stored))

    def test_events_that_are_not_the_stores_are_found(self):
        self.seen[1] = (2, {"kind": "job_submitted", "job": "j7"})
        self.finds("event 2 was sent as", histories.check_events(self.seen, self.stored))
        del self.stored[2]
        self.finds("event 3 was sent, and the store has none", histories.check_events(self.seen, self.stored))

    def test_events_that_came_after_the_store_was_read_are_none_of_its(self):
        self.seen.append((5, {"kind": "job_submitted", "job": "j5"}))
        self.assertEqual([], histories.check_events(self.seen, self.stored))

    def test_an_id_that_was_given_twice_is_found(self):
        self.stored.append((5, {"kind": "job_submitted", "job": "j2"}))
        self.finds("j2 has 2 events job_submitted", histories.check_submitted_once(self.stored, self.jobs))
        self.finds("j4 has 0 events", histories.check_submitted_once(self.stored[:3], self.jobs))


if __name__ == "__main__":
    unittest.main(verbosity=2)
