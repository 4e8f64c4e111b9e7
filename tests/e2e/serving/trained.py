"""Test cases over a service of their own, with a tokenizer and a model that was trained with it."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)


class TrainedCase(unittest.TestCase):
    """`cluster` and `data`, the tokenizer's folder; `train` is the test's own. VOCABULARY: the model's, which may have tokens that the tokenizer lacks."""

    TOKENS = VOCABULARY = 400

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.Cluster().start_service()
        try:
            cls.data = os.path.join(cls.cluster.folder, "data")
            cls.cluster.cli("data", "prepare", os.path.join(harness.ROOT, "LICENSE"), "--output", cls.data, "--vocab_size", cls.TOKENS)
            cls.train()
        except BaseException:
            cls.cluster.close(True)
            raise

    failed = False

    def tearDown(self):
        result = self._outcome.result
        type(self).failed = type(self).failed or bool(result.errors or result.failures)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close(cls.failed)  # with the logs, where one failed

    @classmethod
    def spec(cls, **changes):
        return harness.small_spec(cls.cluster.folder, **{"train_data_path": f"{cls.data}/train.bin", "valid_data_path": f"{cls.data}/val.bin", "vocab_size": cls.VOCABULARY,
                                                         "eval_every": 0, **changes})
