#!/usr/bin/python3
"""The command line on a real terminal (a pseudo-terminal, read by a terminal emulator): progress that is drawn in place, lists
that fit, colours, Ctrl-C; and the plain output without a terminal."""
import os
import signal
import subprocess
import threading
import time
import unittest

from scripted_service import ScriptedService, a_job
from terminal_session import DEADLINE_S, TerminalSession

HOLDFAST = os.path.join(os.environ["HOLDFAST_BIN"], "holdfast")
ESCAPE = "\x1b"


class OnATerminal(unittest.TestCase):
    def setUp(self):
        self.service = ScriptedService()
        self.addCleanup(self.service.stop)
        self.service.jobs = [a_job(2, "queued", name="消融实验", reason="waits for 2 workers, of which 1 is here"),
                             a_job(1, name="baseline")]

    def environment(self, **more):
        return {"HOLDFAST_SERVER": self.service.url, "HOLDFAST_TOKEN": "t", **more}

    def session(self, *arguments, environment=None, **size):
        session = TerminalSession([HOLDFAST, *arguments], environment={**self.environment(), **(environment or {})}, **size)
        self.addCleanup(session.__exit__)
        return session

    def piped(self, *arguments, **environment):
        done = subprocess.run([HOLDFAST, *arguments], env={"PATH": os.environ["PATH"], **self.environment(**environment)},
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False, stdin=subprocess.DEVNULL)
        return done.stdout

    def bars(self, session):
        return [row for row in session.rows() if "█" in row]


class Watching(OnATerminal):
    def test_progress_is_drawn_in_place_below_the_events(self):
        session = self.session("show", "j1", "--watch")
        session.wait_for("█", "66%", "step 40/60", "ETA 2m 14s", "loss 3.4123", "10,240 tokens/s", "2 workers",
                         "checkpoint 20 (14s ago)")
        self.service.change("j1", step=50, loss=2.5, world_size=1)
        self.service.add("j1/events", kind="worker_lost", message="w2 was killed")
        session.wait_for("step 50/60", "loss 2.5000", "1 worker ", "worker_lost")
        self.assertEqual(1, len(self.bars(session)), session.text())
        rows = session.rows()
        event = next(i for i, row in enumerate(rows) if "worker_lost" in row)
        bar = next(i for i, row in enumerate(rows) if "█" in row)
        self.assertEqual(event + 1, bar, "events scroll above the progress")
        self.service.change("j1", state="succeeded", step=60)
        self.assertEqual(0, session.wait_exit())
        self.assertIn("j1 succeeded after step 60/60", session.text())
        self.assertEqual([], self.bars(session), "the last word takes the bar's place")

    def test_progress_follows_the_terminals_width(self):
        session = self.session("show", "j1", "--watch", columns=100)
        session.wait_for("checkpoint 20 (14s ago)")
        session.resize(44, 30)
        self.service.change("j1", step=41)
        session.wait_for("step 41/60")
        session.wait_until(lambda: "tokens/s" not in session.text(), "what matters least to be left out")
        self.assertEqual(1, len(self.bars(session)), session.text())
        session.resize(120, 30)
        session.wait_for("10,240 tokens/s", "checkpoint 20")
        self.assertEqual(1, len(self.bars(session)), session.text())

    def test_ctrl_c_leaves_the_job_running_and_says_how_to_come_back(self):
        session = self.session("show", "j1", "--watch", "--server", self.service.url, columns=200)
        session.wait_for("step 40/60")
        session.type("\x03")
        self.assertEqual(130, session.wait_exit())
        self.assertIn("j1 goes on without this program", session.text())
        self.assertIn(f"holdfast show j1 --watch --server {self.service.url}", session.text())
        self.assertEqual([], self.bars(session))

    def test_ctrl_c_takes_effect_while_the_service_is_away(self):
        session = self.session("wait", "j1")
        session.wait_for("step 40/60")
        self.service.stop()
        session.wait_for("The service is away")
        session.type("\x03")
        self.assertEqual(130, session.wait_exit())
        self.service.start()

    def test_a_watch_goes_on_when_the_service_is_back(self):
        session = self.session("wait", "j1")
        session.wait_for("step 40/60")
        self.service.stop()
        session.wait_for("The service is away")
        self.service.change("j1", state="succeeded", step=60)
        self.service.start()
        self.assertEqual(0, session.wait_exit())
        self.assertIn("j1 succeeded after step 60/60", session.text())

    def test_under_nohup_a_terminal_that_closes_does_not_end_it(self):
        command = ["nohup", HOLDFAST, "wait", "j1"]
        with subprocess.Popen(command, env={"PATH": os.environ["PATH"], **self.environment()}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            while "step 40/60" not in (line := process.stderr.readline()):
                self.assertTrue(line, "it ended")
            process.send_signal(signal.SIGHUP)
            self.service.change("j1", state="succeeded", step=60)
            said = process.stderr.read()
            self.assertEqual(0, process.wait(DEADLINE_S), said)
        self.assertIn("j1 succeeded after step 60/60", said)

    def test_on_a_dumb_terminal_progress_comes_line_by_line(self):
        session = self.session("show", "j1", "--watch", environment={"TERM": "dumb"})
        session.wait_for("step 40/60 (66%)")
        self.service.change("j1", state="failed", reason="no data")
        self.assertEqual(1, session.wait_exit())
        self.assertNotIn(ESCAPE.encode(), session.sent)


class Lists(OnATerminal):
    def test_a_table_fits_the_terminal_and_counts_wide_characters_right(self):
        for columns in (40, 60, 100):
            session = self.session("ls", columns=columns)
            session.wait_exit()
            text = session.text()
            self.assertIn("queued", text)
            self.assertEqual(3, len([row for row in session.rows() if row]), f"no line goes on below at {columns}:\n{text}")
        self.assertIn("消融实验", text)
        self.assertIn("of which 1 is here)", self.session_text("ls", "--wide", columns=200))

    def session_text(self, *arguments, **options):
        session = self.session(*arguments, **options)
        session.wait_exit()
        return session.text()

    def test_without_a_terminal_nothing_is_cut_or_coloured(self):
        said = self.piped("ls")
        self.assertIn("queued (waits for 2 workers, of which 1 is here)", said)
        self.assertNotIn(ESCAPE, said)
        self.assertIn(ESCAPE, self.piped("ls", CLICOLOR_FORCE="1"))
        self.assertNotIn(ESCAPE, self.piped("ls", CLICOLOR_FORCE="1", NO_COLOR="1"))

    def test_colours_are_for_terminals_that_want_them(self):
        for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            session = self.session("ls", environment=environment)
            session.wait_exit()
            self.assertEqual(coloured, ESCAPE.encode() in session.sent, environment)

    def test_ls_watch_draws_changes_in_place_until_ctrl_c(self):
        session = self.session("ls", "--watch", columns=100, lines=20)
        session.wait_for("40/60", "baseline")
        self.service.change("j1", step=59)
        session.wait_for("59/60")
        self.assertNotIn("40/60", session.rows()[2])
        session.resize(50, 10)
        session.wait_until(lambda: "JOB" in session.rows()[0] and "59/60" in session.text(), "the list at its new size")
        self.assertEqual(1, session.text().count("JOB"))
        session.type("\x03")
        self.assertEqual(0, session.wait_exit())
        self.assertIn(b"\x1b[?1049l", session.sent, "the screen is given back")
        self.assertIn("59/60", session.text(), "the last view stays")

    def test_what_ends_or_stops_it_gives_the_screen_back(self):
        session = self.session("ls", "--watch", columns=100, lines=20)
        session.wait_for("40/60", "baseline")
        session.type("\x1a")  # no shell could continue it here, so the system does not stop it: it draws again
        session.wait_until(lambda: session.sent.count(b"\x1b[?1049h") == 2, "the list again after Ctrl-Z")
        self.assertEqual(1, session.sent.count(b"\x1b[?1049l"), "given back meanwhile")
        session.type("\x1c")
        session.wait_exit()
        self.assertEqual(2, session.sent.count(b"\x1b[?1049l"), "given back after Ctrl-\\")

    def test_ls_watch_elsewhere_prints_when_something_has_changed(self):
        with subprocess.Popen([HOLDFAST, "ls", "--watch", "--json"], env={"PATH": os.environ["PATH"], **self.environment()},
                              stdout=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            self.assertIn('"step":40', process.stdout.readline())
            self.service.change("j1", step=41)
            self.assertIn('"step":41', process.stdout.readline())
            process.terminate()
            self.assertEqual(0, process.wait(DEADLINE_S))

    def test_nodes_watch_sees_a_worker_come(self):
        session = self.session("nodes", "--watch")
        session.wait_for("No workers yet")
        self.service.nodes = [{"id": "node7", "state": "alive", "phase": "active", "last_seen_s": 0.1, "device": "cpu"}]
        session.wait_for("node7", "alive")

    def test_text_of_others_cannot_steer_the_terminal(self):
        self.service.change("j1", state="waiting", reason="\x1b[2J\x1b[31mgone")
        self.service.add("j1/logs", worker="w1", level="info", text="\x1b]0;title\x07hello")
        self.assertNotIn("\x1b[2J".encode(), self.sent_by("ls"))
        self.assertNotIn("\x1b]0".encode(), self.sent_by("logs", "j1"))
        self.assertIn("^[]0;title^Ghello", self.session_text("logs", "j1"))

    def sent_by(self, *arguments):
        session = self.session(*arguments)
        session.wait_exit()
        return session.sent


class Following(OnATerminal):
    def test_followed_logs_survive_a_restart_of_the_service_without_a_line_lost_or_told_twice(self):
        for number in range(3):
            self.service.add("j1/logs", worker="w1", level="info", text=f"line {number}")
        process = subprocess.Popen([HOLDFAST, "logs", "j1", "-f"], env={"PATH": os.environ["PATH"], **self.environment()},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")), daemon=True)
        reader.start()
        self.wait(lambda: len(lines) == 3, "three lines")
        self.service.stop()
        for number in range(3, 6):
            self.service.add("j1/logs", worker="w1", level="info", text=f"line {number}")
        self.service.start()
        self.wait(lambda: len(lines) == 6, "the lines that came while the service was away")
        self.service.add("j1/logs", worker="w1", level="info", text="line 6")
        self.wait(lambda: len(lines) == 7, "a line that came later")
        self.assertEqual([f"line {n}" for n in range(7)], [line.rstrip().split("info    ")[1] for line in lines])
        self.service.change("j1", state="succeeded")
        self.service.stop()  # ends the stream
        self.service.start()
        self.assertEqual(0, process.wait(DEADLINE_S))
        self.assertIn("The service is away", process.stderr.read())
        process.stdout.close()
        process.stderr.close()

    def wait(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"no sign of {what}")
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main(verbosity=2)
