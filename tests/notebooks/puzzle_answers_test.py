#!/usr/bin/env python3
"""Puzzles: a result of the wrong type or shape is reported in one sentence."""

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
    "muon": "def muon(rank, shapes, owners, owns, grad, exp_avg, master, s, newton_schulz, comm):\n    ",
    "reshard": "import numpy as np\n\n\ndef reshard(shards, buckets, ranks):\n    ",
}

ANSWERS = [
    ("loss_scaler", "return list(state)",
     "returned list; return a tuple of exponent, tracker and left"),
    ("loss_scaler", "return state[:2]", "returned tuple; return a tuple of exponent"),
    ("loss_scaler", "return 2.0**state[0], 0, 0",
     "returned float for log2_scale; return an integer (R14)"),
    ("loss_scaler", "return state[0], True, 1", "returned bool for growth_tracker"),
    ("loss_scaler", "config.hysteresis = 9\n    return state", "modified its settings"),
    ("unscale", "return grad_sum * inv_scale",
     "returned ndarray; return a tuple of g1 and found_inf"),
    ("unscale", "return grad_sum.astype(np.float64) * inv_scale, 0", "returned g1 in float64"),
    ("unscale", "return grad_sum * inv_scale, 0.0",
     "returned float for found_inf; return 0 or 1"),
    ("unscale", "return grad_sum * inv_scale, None", "returned NoneType for found_inf"),
    ("unscale", "grad_sum *= inv_scale\n    return grad_sum, 0",
     "modified array 0 of its arguments"),
    ("unscale", "return grad_sum, 0", "as a view of its input"),
    ("unscale", "return grad_sum * inv_scale, int(comm.all_reduce(grad_sum).sum())",
     "integers only (R10)"),
    ("shard_map", "return 3", "returned 3; return a list of (tensor, begin, end)"),
    ("shard_map", "return [(0, 1)] * ranks", "return a list of (tensor, begin, end)"),
    ("shard_map", "return [[(0, 'a', 'b')]] * ranks", "return a list of (tensor, begin, end)"),
    ("shard_map", "return []", "returned lists for 0 ranks, expected 1"),
    ("reduce", "return leaves", "returned list for grad_sum"),
    ("reduce", "return np.zeros(4, np.float32)", "of shape [4], expected [3]"),
    ("reduce", "return leaves[0][:3]", "as a view of its input"),
    ("reduce", "leaves[0] += leaves[0]\n    return leaves[0][:3].copy()",
     "modified array 0 of its arguments"),
    ("reduce", "return comm.all_to_all(leaves[0])", "needs one block for each of 2 ranks"),
    ("reduce", "return comm.all_to_all([1, 2])", "got int; pass a numpy array"),
    ("reduce", "while True: pass", "no result after 1 s of CPU time"),
    ("groups", "return [rank], [0]", "returned tuple; return a tuple of parts, nodes and counts"),
    ("groups", "return rank, [0], 1", "returned 0 for parts; return a list of rank numbers"),
    ("groups", "return [rank], [0.0], 1",
     "returned [0.0] for nodes; return a list of rank numbers"),
    ("groups", "return [rank], [0], 'yes'", "returned str for counts"),
    ("muon", "return master", "returned ndarray; return a tuple of exp_avg and master"),
    ("muon", "return newton_schulz(grad)", "newton_schulz got float32[22]; pass a matrix in float32"),
    ("reshard", "return np.concatenate(shards)", "returned ndarray; return a list with a shard"),
    ("reshard", "return shards + shards", "returned 2 shards; return a list with a shard"),
    ("reshard", "return shards", "as a view of its input"),
    ("reshard", "return [shards[0].tolist()]", "returned list for shard 0"),
    ("reshard", "return [shards[0].astype(np.float64)]",
     "in float64; round every operation to float32"),
]


class Answers(unittest.TestCase):
    def test_results_of_wrong_type(self):
        self.assertEqual({name for name, _, _ in ANSWERS}, set(HEADS))
        with tempfile.TemporaryDirectory() as folder:
            for name, body, said in ANSWERS:
                path = pathlib.Path(folder, f"{name}.py")
                path.write_text(HEADS[name] + body + "\n")
                verdict, printed, _ = command.judged(name, path)
                self.assertEqual(verdict["status"], "hung" if "while" in body else "fail", (name, body, verdict))
                self.assertEqual((verdict["text"].count("\n"), printed), (0, ""), (name, body, verdict))
                self.assertIn(said, verdict["text"], (name, body))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    os.environ["ZP_PUZZLE_SECONDS"] = "1"
    unittest.main()
