#!/usr/bin/python3
"""The soak's ledger of lost time, on invented jobs."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "ops"))
import soak_ledger as soak  # noqa: E402  (needs the path above)
import soak_report  # noqa: E402

STEP_S = 0.5


def train(commits, until, generation, step_s=STEP_S):
    while commits[-1]["at"] + step_s <= until + 1e-9:
        commits.append({"at": commits[-1]["at"] + step_s, "step": commits[-1]["step"] + 1, "step_s": step_s, "generation": generation})


def one_freeze():
    """A job with steps until 100.0 and a freeze in the next step; noticed at 103.2, new generation at 103.4, steps from 103.6."""
    commits = [{"at": 90.0, "step": 1, "step_s": STEP_S, "generation": 1}]
    train(commits, 100.0, 1)
    commits.append({"at": 103.8, "step": commits[-1]["step"] + 1, "step_s": 0.2, "generation": 2})
    train(commits, 110.0, 2, step_s=0.6)
    events = [{"at": 103.2, "kind": "worker_lost"}, {"at": 103.3, "kind": "fault_reported"}, {"at": 103.4, "kind": "generation_formed"}]
    return commits, events, [{"at": 100.2, "kind": "freeze", "held_s": 6}]


class SoakLedger(unittest.TestCase):
    def of(self, commits, events, faults, members=None, span=(90.0, 110.0), usual=(STEP_S, 0.0)):
        return soak.ledger(commits, events, faults, members or {1: 4, 2: 3}, 4, usual, span)

    def test_a_freeze_is_split_into_lost_work_detection_forming_and_starting(self):
        causes = self.of(*one_freeze())
        expected = {soak.LOST_WORK: 0.2, soak.DETECTION: 3.0, soak.FORMING: 0.2, soak.STARTING: 0.2, soak.FIRST_STEP: 0.2 - STEP_S,
                    soak.FEWER: 10 * 0.1}
        for cause in soak.CAUSES:
            self.assertAlmostEqual(expected.get(cause, 0), causes[cause], msg=cause)

    def test_the_causes_add_up_to_the_span_less_as_many_undisturbed_steps(self):
        commits, events, faults = one_freeze()
        inside = [c for c in commits if c["at"] <= 110.0]
        lost = inside[-1]["at"] - inside[0]["at"] - (len(inside) - 1) * STEP_S
        self.assertAlmostEqual(lost, sum(self.of(commits, events, faults).values()))

    def test_a_join_is_no_fault(self):
        commits, _, _ = one_freeze()
        causes = self.of(commits, [{"at": 103.0, "kind": "generation_formed"}], [])
        self.assertAlmostEqual(3.6, causes[soak.JOINING])
        self.assertEqual(0, causes[soak.DETECTION])

    def test_steps_that_a_drill_slowed_down_are_its_own(self):
        commits = [{"at": 0.0, "step": 1, "step_s": STEP_S, "generation": 1}]
        train(commits, 5.0, 1)
        train(commits, 11.0, 1, step_s=0.6)
        causes = self.of(commits, [], [{"at": 5.0, "kind": "slow", "held_s": 6}], span=(0.0, 11.0))
        self.assertAlmostEqual(1.0, causes[soak.SLOW])
        self.assertAlmostEqual(1.0, sum(causes.values()))

    def test_what_lies_between_steps_is_counted_against_what_usually_does(self):
        commits = [{"at": float(i), "step": i, "step_s": 0.75, "generation": 1} for i in range(11)]
        self.assertEqual((0.75, 0.25), soak.usual(commits, (0.0, 10.0)))
        later = [{**commit, "at": 1.5 * commit["at"]} for commit in commits]
        causes = self.of(later, [], [], span=(0.0, 15.0), usual=(0.75, 0.25))
        self.assertAlmostEqual(5.0, causes[soak.BETWEEN])
        self.assertAlmostEqual(5.0, sum(causes.values()))

    def test_a_block_with_hardly_a_step_is_no_measure(self):
        with self.assertRaisesRegex(ValueError, "1 steps were committed in 10 s"):
            soak.usual([{"at": 5.0, "step": 1, "step_s": 1, "generation": 1}], (0.0, 10.0))

    def test_steps_that_were_heard_of_together_lose_no_time(self):
        commits = [{"at": 0.0, "step": 1, "step_s": STEP_S, "generation": 1}]
        train(commits, 10.0, 1)
        for commit in commits:
            if 3 < commit["at"] < 7:
                commit["at"] = 7.0
        self.assertAlmostEqual(0, sum(self.of(commits, [], [], span=(0.0, 10.0)).values()))

    def test_workers_that_are_away_are_counted_in_seconds(self):
        commits, _, _ = one_freeze()
        self.assertAlmostEqual(commits[-1]["at"] - 100.0, soak.seconds_away(commits, {1: 4, 2: 3}, 4, (90.0, 110.0)))


def measured():
    """Measurements of an invented soak of twice ten seconds with one kill: two steps per second alone, 19 in 10 s disturbed."""
    def at(second):
        return f"2026-11-20T10:00:{second:06.3f}Z"

    zero = soak_report.seconds_of(at(0))
    alone = [{"time": at(0.5 * i), "step": i, "step_s": 0.5, "generation": 1} for i in range(21)]
    disturbed = [{"time": at(30 + 0.5 * i + (0.5 if i > 8 else 0)), "step": i, "step_s": 0.5, "generation": 1} for i in range(20)]
    drill = {"begin_s": zero + 30, "span": [zero + 30, zero + 40], "steps_lost": 0, "skipped": [],
             "faults": [{"at_s": 4.0, "fault": "kill", "worker": "w1", "held_s": 0, "without_progress_s": 0.4, "slower_s": 0.1}]}
    return {"turns": [{"undisturbed": [zero, zero + 10], "drill": drill}], "metrics": disturbed, "undisturbed_metrics": alone,
            "events": [], "rows": [{"generation": 1, "worker": f"w{i}"} for i in range(4)], "workers": 4, "others": [0.01, 0.02],
            "start_cpu_s": [0.4], "hashes": ["aa", "aa"], "audit": "j1: ok. Steps 1 to 20"}


class SoakReport(unittest.TestCase):
    HEAD = {"command": "ops/soak 1", "date": "2026-11-20", "machine": "2 cores", "seed": 1, "mix": "kill", "hold": "6s", "block": 2.5}

    def test_it_says_what_was_kept_and_what_each_kind_cost(self):
        text = soak_report.markdown(self.HEAD, measured(), 2)
        self.assertIn("| throughput kept | 95.0 % | |", text)
        self.assertIn("(1 starts, 0.40 s) | 96.9 % | 95 %: met |", text, "0.2 of 10 s on two cores are left aside")
        self.assertIn("| kill | 1 | 0.40 s | 0.40 s | +0.10 s |", text)
        self.assertIn("by the ledger of causes, without the machine's noise | 97.0 % | 95 %: met |", text)
        self.assertIn("| by time without progress alone, had all kinds come equally often | 96.0 % | |", text)
        self.assertIn("| state hash at the end | equal (aa) | equal |", text)
        self.assertIn("| 1 | 1 | 2.00 | 1.90 | 95.0 % |", text)

    def test_it_is_sound_only_with_equal_bits_no_lost_step_and_a_whole_ledger(self):
        self.assertTrue(soak_report.is_sound(measured()))
        for hashes in (["aa", "ab"], ["", ""]):
            self.assertFalse(soak_report.is_sound({**measured(), "hashes": hashes}), hashes)
        self.assertFalse(soak_report.is_sound({**measured(), "audit": "j1: step 3: microbatch 2 twice"}))
        spoilt = measured()
        spoilt["turns"][0]["drill"]["steps_lost"] = 1
        self.assertFalse(soak_report.is_sound(spoilt))


if __name__ == "__main__":
    unittest.main()
