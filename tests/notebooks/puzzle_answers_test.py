#!/usr/bin/env python3
"""Answers to puzzles that are no numbers to compare: each is judged in one sentence that says what is wanted."""

import os
import pathlib
import sys
import tempfile
import unittest

PUZZLES = pathlib.Path(__file__).resolve().parents[2] / "notebooks" / "puzzles"
sys.path.insert(0, str(PUZZLES))
from judge import command  # noqa: E402  (found by the line above)

HEADS = {
    "loss_scaler": "def loss_scaler(config, state, found_inf):\n    ",
    "unscale": "import numpy as np\n\n\ndef unscale(rank, grad_sum, inv_scale, comm, memory):\n    ",
    "shard_map": "def shard_map(sizes, ranks):\n    ",
    "reduce": "import numpy as np\n\n\ndef reduce(rank, leaves, count, owns, comm, memory):\n    ",
    "groups": "def groups(rank, dp, cp, tp, replicated):\n    ",
    "reshard": "import numpy as np\n\n\ndef reshard(shards, buckets, ranks):\n    ",
}

ANSWERS = [
    ("loss_scaler", "return list(state)", "returned list (the answer is a tuple of exponent, tracker and left)"),
    ("loss_scaler", "return state[:2]", "returned tuple (the answer is a tuple of exponent"),
    ("loss_scaler", "return 2.0**state[0], 0, 0", "returned float for log2_scale (R14: decisions are integers)"),
    ("loss_scaler", "return state[0], True, 1", "returned bool for growth_tracker"),
    ("loss_scaler", "config.hysteresis = 9\n    return state", "has edited its settings"),
    ("unscale", "return grad_sum * inv_scale", "returned ndarray (the answer is a tuple of g1 and found_inf)"),
    ("unscale", "return grad_sum.astype(np.float64) * inv_scale, 0", "returned g1 in float64"),
    ("unscale", "return grad_sum * inv_scale, 0.0", "returned float for found_inf (R14: decisions are integers)"),
    ("unscale", "return grad_sum * inv_scale, None", "returned NoneType for found_inf"),
    ("unscale", "grad_sum *= inv_scale\n    return grad_sum, 0", "has edited array 0 of its arguments"),
    ("unscale", "return grad_sum, 0", "as a view of its input"),
    ("unscale", "return grad_sum * inv_scale, int(comm.all_reduce(grad_sum).sum())", "R10: nobody adds floats"),
    ("shard_map", "return 3", "returned 3 (a rank owns a list of tensor, begin and end)"),
    ("shard_map", "return [(0, 1)] * ranks", "a rank owns a list of tensor, begin and end"),
    ("shard_map", "return [[(0, 'a', 'b')]] * ranks", "a rank owns a list of tensor, begin and end"),
    ("shard_map", "return []", "returned lists for 0 ranks (there are 1"),
    ("reduce", "return leaves", "returned list for grad_sum"),
    ("reduce", "return np.zeros(4, np.float32)", "of shape [4] (it has [3])"),
    ("reduce", "return leaves[0][:3]", "as a view of its input"),
    ("reduce", "leaves[0] += leaves[0]\n    return leaves[0][:3].copy()", "has edited array 0 of its arguments"),
    ("reduce", "return comm.all_to_all(leaves[0])", "takes one block for each of 2 ranks"),
    ("reduce", "return comm.all_to_all([1, 2])", "was given int (blocks are bytes of numpy arrays)"),
    ("reduce", "while True: pass", "no answer after 1 s of computing"),
    ("groups", "return [rank], [0]", "returned tuple (the answer is a tuple of parts, nodes and counts)"),
    ("groups", "return rank, [0], 1", "returned 0 for parts (they are numbers of ranks)"),
    ("groups", "return [rank], [0.0], 1", "returned [0.0] for nodes (they are numbers of ranks)"),
    ("groups", "return [rank], [0], 'yes'", "returned str for counts"),
    ("reshard", "return np.concatenate(shards)", "returned ndarray (the answer is a list with a shard for each rank"),
    ("reshard", "return shards + shards", "returned 2 shards (the answer is a list with a shard for each rank"),
    ("reshard", "return shards", "as a view of its input"),
    ("reshard", "return [shards[0].tolist()]", "returned list for shard 0"),
    ("reshard", "return [shards[0].astype(np.float64)]", "in float64 (every operation is rounded to float32)"),
]


class Answers(unittest.TestCase):
    def test_answers_that_are_no_results(self):
        self.assertEqual({name for name, _, _ in ANSWERS}, set(HEADS))
        with tempfile.TemporaryDirectory() as folder:
            for name, body, said in ANSWERS:
                path = pathlib.Path(folder, f"{name}.py")
                path.write_text(HEADS[name] + body + "\n")
                verdict, printed, _ = command.judged(name, path)
                self.assertEqual(verdict["status"], "hung" if "while" in body else "fail", (name, body, verdict))
                self.assertEqual((verdict["text"].count("\n"), printed), (0, ""), (name, body, verdict))
                self.assertIn(said, verdict["text"], (name, body))
                self.assertRegex(verdict["text"], r"\(.*\)", (name, body))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    os.environ["ZP_PUZZLE_SECONDS"] = "1"
    unittest.main()
