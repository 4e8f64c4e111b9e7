#!/usr/bin/python3
"""What the cases of bench/run compute from what they measured; and that each of them is there and told of."""
import contextlib
import glob
import importlib
import importlib.machinery
import io
import os
import re
import sys
import tempfile
import types
import unittest
from unittest import mock

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
from cases import checkpoint, efficiency, recipe  # noqa: E402  (needs the path above)
import efficiency_over_link  # noqa: E402
import link_runs  # noqa: E402
import peer_python  # noqa: E402
import testbed  # noqa: E402
import wires  # noqa: E402


def program():
    loader = importlib.machinery.SourceFileLoader("bench_run", os.path.join(BENCH, "run"))
    module = types.ModuleType("bench_run")
    module.__file__ = os.path.join(BENCH, "run")
    loader.exec_module(module)
    return module


class Cases(unittest.TestCase):
    def test_every_case_has_a_title_and_a_row_in_the_readme(self):
        with open(os.path.join(BENCH, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        bench_run = program()
        for name in bench_run.CASES:
            with self.subTest(name):
                case = bench_run.module_of(name)
                self.assertTrue(case.TITLE)
                self.assertTrue(callable(case.measure))
                self.assertIn(f"\n| `{name}` |", readme)

    def test_every_case_file_is_a_case(self):
        cases = os.path.join(BENCH, "cases")
        files = {os.path.relpath(path, cases).removesuffix(".py").removesuffix("/__init__").replace("/", "_")
                 for path in glob.glob(f"{cases}/**/*.py", recursive=True)}
        self.assertEqual(files, set(program().CASES))


class Losses(unittest.TestCase):
    def test_a_difference_of_few_runs_has_the_interval_of_welchs_test(self):
        difference, half = recipe.apart([1, 2, 3], [2, 4, 6])  # errors of sqrt(1/3) and sqrt(4/3), 2.9 degrees of freedom
        self.assertEqual(-2, difference)
        self.assertAlmostEqual(4.303 * (5 / 3) ** 0.5, half)
        self.assertEqual((0, 0), recipe.apart([1, 1], [1, 1]))


class Rows(unittest.TestCase):
    """What a row is set beside."""
    INSTALLED, BEST = peer_python.SETUPS

    def test_the_ratio_is_the_one_to_the_peer_at_its_best(self):
        row = testbed.row("rate", "tokens/s", 300, {self.INSTALLED: 100, self.BEST: 150}, higher_is_better=True)
        self.assertEqual((100, 150, 2), (row["peer"], row["best"], row["ratio"]))
        self.assertEqual(2, testbed.row("time", "s", 1, {self.INSTALLED: 9, self.BEST: 2})["ratio"])

    def test_a_peer_that_is_better_as_installed_is_at_its_best_as_installed(self):
        self.assertEqual(3, testbed.row("time", "s", 1, {self.INSTALLED: 3, self.BEST: 5})["best"])
        self.assertEqual(5, testbed.row("rate", "1/s", 1, {self.INSTALLED: 5, self.BEST: 3}, higher_is_better=True)["best"])

    def test_without_the_peer_at_its_best_there_is_no_ratio(self):
        self.assertIsNone(testbed.row("time", "s", 1, {self.INSTALLED: 3})["ratio"])
        self.assertIsNone(testbed.row("time", "s", 1, {self.INSTALLED: 3, self.BEST: None})["ratio"])
        self.assertIsNone(testbed.row("time", "s", 1)["ratio"])

    def test_a_row_without_a_program_beside_it_has_the_ratio_to_its_reference(self):
        self.assertEqual(4, testbed.row("time", "s", 1, reference=4)["ratio"])

    def test_what_is_not_the_same_on_both_sides_has_no_ratio(self):
        self.assertEqual((2, None), tuple(testbed.row("stall", "s", 1, {self.BEST: 2}, is_alike=False)[key] for key in ("best", "ratio")))

    def test_columns_that_no_row_fills_are_left_out(self):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            program().print_table("Title", [testbed.row("time", "s", 1, floor=2)])
        self.assertIn("| case | Holdfast | floor | unit |", shown.getvalue())


class Peer(unittest.TestCase):
    def test_at_its_best_is_one_thread_pool_and_an_allocator_that_keeps(self):
        with tempfile.TemporaryDirectory() as folder:
            blas, allocator = (os.path.join(folder, name) for name in ("libblas.so.3", "libtcmalloc_minimal.so.4"))
            for path in (blas, allocator):
                with open(path, "wb"):
                    pass
            with mock.patch.multiple(peer_python, BLAS=blas, TCMALLOC=allocator):
                peer = peer_python.PeerPython(sys.executable)
                peer.core = "SkylakeX"
                quicker = {"float32": f"LD_PRELOAD={allocator}", "bfloat16": peer_python.GLIBC}
                peer.step_rate = lambda dtype, tried: 2 if tried == quicker[dtype] else 1
                padded = peer.script("train.py", "--dtype", "bfloat16", setup=peer_python.AT_BEST)
                command = peer.command("x.py", setup=peer_python.AT_BEST, threads=2)
                kept = peer.command("x.py", setup=peer_python.AT_BEST, threads=2, environment={"OPENBLAS_CORETYPE": "Haswell"})
        settings = ["env", "OMP_NUM_THREADS=2", f"LD_PRELOAD={allocator}", f"LD_LIBRARY_PATH={folder}"]
        self.assertEqual([*settings, "OPENBLAS_CORETYPE=SkylakeX", sys.executable, "-B", "x.py"], command)
        self.assertEqual([*settings, sys.executable, "-B", "x.py"], kept)
        self.assertIn(peer_python.GLIBC, padded)
        self.assertEqual(["--dtype", "bfloat16", "--vocabulary", "50304"], padded[-4:])

    def test_the_quickest_loops_that_the_processor_has_are_chosen(self):
        rates = {"": 30.0, "Haswell": 70.0, "Zen": 60.0, "SkylakeX": 140.0}
        for flags, expected in ((set(), ""), ({"avx2", "fma"}, "Haswell"), ({"avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq"}, "SkylakeX")):
            peer = peer_python.PeerPython(sys.executable)
            with mock.patch.object(peer_python, "processor_flags", lambda known=flags: known), mock.patch.object(peer, "product_rate", rates.get):
                self.assertEqual(expected, peer.core)

    def test_what_its_best_takes_is_named_where_it_is_missing(self):
        with mock.patch.multiple(peer_python, BLAS="/nowhere/libblas.so.3"):
            peer = peer_python.PeerPython(sys.executable)
            peer.version = "1.13"
            self.assertEqual((peer_python.AS_INSTALLED,), peer.setups)
            self.assertEqual("the peer cannot be set up at its best, /nowhere/libblas.so.3 is missing: run ops/setup --bench", peer.missing)

    def test_without_pytorch_there_is_no_peer(self):
        peer = peer_python.PeerPython(sys.executable)
        peer.version = ""
        self.assertEqual((), peer.setups)
        self.assertIn("has no PyTorch: run ops/setup --bench", peer.missing)


class Wires(unittest.TestCase):
    def test_two_ranks_send_the_buffer_once(self):
        self.assertEqual(400, wires.bytes_each_way("int32", 100, 2))
        self.assertEqual(200, wires.bytes_each_way("bfloat16", 100, 2))
        self.assertAlmostEqual(100 * (1 + 4 / 512), wires.bytes_each_way("int8", 100, 2))

    def test_four_ranks_send_it_one_and_a_half_times_and_int8_more(self):
        self.assertEqual(600, wires.bytes_each_way("float32", 100, 4))
        self.assertAlmostEqual(100 * (1 + 4 / 512) * (1.5 + 0.75), wires.bytes_each_way("int8", 100, 4))

    def test_the_types_and_their_reductions_are_those_of_the_job_spec(self):
        with open(os.path.join(os.path.dirname(BENCH), "rendezvous", "protocol", "wire_types.h"), encoding="utf-8") as file:
            rows = re.findall(r'^    \{"(\w+)", "(exact|float)", (\d)\b', file.read(), re.MULTILINE)
        self.assertEqual([name for name, _, _ in rows], list(wires.ELEMENT_BYTES))
        for name, reduction, element_bytes in rows:
            self.assertEqual(reduction, wires.reduction_of(name), name)
            self.assertEqual(int(element_bytes), int(wires.ELEMENT_BYTES[name]), name)


class Efficiency(unittest.TestCase):
    def test_the_guides_table_comes_out_of_their_formula(self):
        for accumulation, share_of_communication in ((1, 67), (2, 50), (4, 33), (8, 20), (16, 11)):
            self.assertAlmostEqual(100 - share_of_communication, efficiency.predicted(accumulation, "int16"), delta=0.5)
        self.assertAlmostEqual(20, efficiency.predicted(1, "int32"), delta=0.5)
        self.assertIsNone(efficiency.predicted(1, "int8"))

    def test_a_second_of_link_beside_a_second_of_compute_is_half(self):
        alone, together = link_runs.between({"step_s": 0.5, "jobs": 2}, {"step_s": 1.5}), {"step_s": 2.0}
        self.assertEqual(50, link_runs.efficiency(alone, together))
        rate = wires.bytes_each_way("int32", link_runs.testbed.TINY_PARAMETERS, 2)
        self.assertEqual(50, link_runs.without_hiding(alone, "int32", rate))
        self.assertAlmostEqual(100 / 1.125, link_runs.without_hiding(alone, "int32", rate, sync_every=8))

    def test_a_step_of_a_job_is_as_many_optimizer_steps_as_lie_between_syncs_and_the_first_warms_up(self):
        points = [{"step_s": s, "communication_s": s / 2} for s in (100, 8, 6, 10)]
        self.assertEqual((4, 2), efficiency_over_link.typical(points, 2))


class SlowDown(unittest.TestCase):
    def test_steps_within_the_writing_are_set_against_those_after_it(self):
        points = [{"step": step, "step_s": 1.5 if 11 <= step <= 13 else 1.0} for step in range(1, 21)]
        self.assertAlmostEqual(50, checkpoint.slow_down(points, [{"step": 10, "write_s": 4.6}]))

    def test_without_a_step_in_the_writing_nothing_is_said(self):
        points = [{"step": step, "step_s": 1.0} for step in range(1, 21)]
        self.assertIsNone(checkpoint.slow_down(points, [{"step": 10, "write_s": 0.4}]))


if __name__ == "__main__":
    unittest.main()
