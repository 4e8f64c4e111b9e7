#!/usr/bin/python3
"""ops/run_2nodes as two people start it: a command on each node, in any order; stopped and started again; wrong words."""
import os
import subprocess
import unittest

import harness
from processes import Process, free_port, wait_until

PROGRAM = os.path.join(harness.ROOT, "ops", "run_2nodes")


class Run2Nodes(unittest.TestCase):
    def setUp(self):
        self.cluster = harness.Cluster()  # for its folder and for the end of every process
        self.addCleanup(self._close)
        harness.write_training_files(self.cluster.folder)
        self.state = os.path.join(self.cluster.folder, "state")
        self.settings = {"PORT": str(free_port()), "STATE": self.state, "TRAIN_DATA": f"{self.cluster.folder}/train.bin", "DEVICE": "cpu",
                         "HOLDFAST_THREADS": "1", "BATCH_SIZE": "1", "GRAD_ACCUM": "1", "BLOCK_SIZE": "256", "HOLDFAST_BIN": harness.BIN,
                         "NCCL_SOCKET_IFNAME": "lo"}

    def _close(self):
        self.cluster.close(not self._outcome.success)

    def start(self, rank, *arguments, **settings):
        process = Process(f"rank{rank}", [PROGRAM, str(rank), "127.0.0.1", *arguments],
                          self.cluster.environment({**self.settings, **settings}), os.path.join(self.cluster.folder, f"rank{rank}.log"))
        self.cluster.everything.append(process)
        return process

    def run_alone(self, *arguments, **settings):
        return subprocess.run([PROGRAM, *arguments], env=self.cluster.environment({**self.settings, **settings}), capture_output=True,
                              text=True, check=False, timeout=60)

    def worker_token(self):
        def read():
            try:
                with open(f"{self.state}/worker.token", encoding="utf-8") as file:
                    return file.read().strip()
            except OSError:
                return None
        return wait_until(read, 30, "the master to make its tokens")

    def test_two_nodes_train_to_the_end_and_both_commands_end(self):
        master = self.start(0, "tiny", "1")
        other = self.start(1, HOLDFAST_TOKEN=self.worker_token())
        self.assertEqual(0, master.wait_exit(timeout_s=600))
        self.assertEqual(0, other.wait_exit(timeout_s=60))
        self.assertIn("1 passes over", master.log())
        self.assertRegex(master.log(), r"\n2 nodes (do \d|are slower than one)")
        self.assertRegex(master.log(), r"\n  one node alone .* 1\.00x\n  two nodes, as asked .*x\n  two nodes, the same training .*x\n")
        self.assertIn("page: http://127.0.0.1:", master.log())
        self.assertTrue(os.listdir(os.path.join(self.state, "tensorboard")), "curves of rank 0, wherever that was")
        self.assertIn("2 of 2 nodes", master.log())
        self.assertIn("succeeded", master.log())

    def test_the_same_command_goes_on_after_it_was_stopped(self):
        master = self.start(0, "tiny", "1", PLAN="off")
        master.wait_log(", loss ", 90)
        master.signal(2)  # Ctrl-C
        self.assertEqual(130, master.wait_exit(timeout_s=90))
        self.assertIn("the same command goes on from here", master.log())
        again = self.start(0, "tiny", "1")  # it plans nothing: the settings are the job's
        again.wait_log(" goes on", 60)
        self.assertEqual(0, again.wait_exit(timeout_s=600))

    def test_wrong_words_are_named(self):
        for arguments, expected in ((["2", "127.0.0.1"], 'RANK is "2"'), (["0", "127.0.0.1", "huge"], 'MODEL is "huge"'),
                                    (["0", "127.0.0.1", "tiny", "0"], 'EPOCHS is "0"'), (["0"], "usage: ops/run_2nodes")):
            done = self.run_alone(*arguments)
            self.assertEqual(2, done.returncode)
            self.assertIn(expected, done.stderr)
        for name, value in (("SYNC_EVERY", "0"), ("GPUS_PER_NODE", "two"), ("VOCAB_SIZE", "none")):
            done = self.run_alone("0", "127.0.0.1", PLAN="off", **{name: value})
            self.assertEqual(2, done.returncode)
            self.assertIn(f'{name} is "{value}": give a whole number, at least 1', done.stderr)
        done = self.run_alone("0", "127.0.0.1", VALID_DATA="/nonexistent/val.bin")
        self.assertIn("VALID_DATA: there is no file /nonexistent/val.bin", done.stderr)
        done = self.run_alone("0", "127.0.0.1", TRAIN_DATA="/nonexistent/train.bin")
        self.assertEqual(2, done.returncode)
        self.assertIn("there is no file /nonexistent/train.bin", done.stderr)


if __name__ == "__main__":
    unittest.main()
