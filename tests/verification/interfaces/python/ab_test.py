"""zproof.judge_run and zproof.ab: correct pairs of settings and mistakes of real trainings over gloo, and bad input."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from support import one_sentence

import zproof

try:
    import torch
except ImportError:
    torch = None

EXAMPLES = pathlib.Path(os.environ["ZP_SOURCE_DIR"], "verification", "examples", "pytorch")

# Settings that change no operation of the training.
EQUAL = {"DDP, ZeroRedundancyOptimizer", "FSDP2, kept after the forward pass", "one run, resumed", "gradients None, zeros",
         "kept, recomputed activations"}
# Step and phase of the first difference, and a part of its hint.
FIRST = {
    "divided-twice": (1, "reduce", "divided twice by the number of ranks (2)"),
    "rate-times-ranks": (1, "settings", "as if scaled with the 2 ranks of B"),
    "eps-on-one-rank": (1, "settings", ""),
    "decay-on-biases": (1, "settings", ""),
    "loss-not-divided": (1, "backward", "B has 2 times the values of A"),
    "rate-restarted": (3, "settings", ""),
    "rows-repeated": (3, "backward", ""),
    "other-model": (1, "state", "do not begin with the same parameters"),
    "gradients-in-16-bits": (1, "clip", "B has numbers of bf16"),
    "local-norm": (1, "clip", "clipped by the norm of its own shard"),
    "scaled-twice": (1, "reduce", "divided by the number of micro-batches (3)"),
    "mean-forgotten": (1, "reduce", "not divided by the number of ranks (2)"),
    "micro-batch-lost": (1, "reduce", "micro-batch 0 of every rank were left out"),
    "not-reduced": (2, "backward", ""),
    "skipped-on-one-rank": (2, "overflow", "the ranks did not agree"),
    "overflow-applied": (2, "backward", "NaN in B"),
    "scale-kept": (1, "norm", "that of the scaled gradients (loss scale 8)"),
    "clipped-twice": (1, "clip", "the clip were applied twice"),
    "decay-last": (1, "update", ""),
    "rate-of-first-group": (1, "update", "that of group 0"),
    "stale-shard": (3, "cast", "stale"),
    "moment-dropped": (3, "state", "lost on resume"),
    "count-dropped": (3, "update", ""),
}


@unittest.skipIf(torch is None, "torch is not here")
class Pairs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(EXAMPLES))
        import ab_run
        cls.example = ab_run

    def verdict(self, name):
        a, b, within = self.example.SETTINGS[name] if name in self.example.SETTINGS else (*self.example.MISTAKES[name], None)
        return zproof.ab(self.example.train, a, b, gradients_within=within, show=False)

    def test_settings_of_one_training_agree(self):
        for name in self.example.SETTINGS:
            with self.subTest(name):
                verdict = self.verdict(name)
                self.assertTrue(verdict, verdict.difference)
                self.assertIn(verdict.status, ["equal"] if name in EQUAL else ["equal", "within"], verdict.text)
                self.assertIsNone(verdict.first)
                self.assertEqual(verdict.difference, "")
                compared = {one["id"].split("/")[1] for one in verdict.results if one["compared"] > 0}
                self.assertEqual(compared, {"settings", "state", "backward", "reduce", "overflow", "norm", "clip", "update",
                                            "cast"})

    def test_mistakes_are_found_in_their_phase(self):
        self.assertEqual(set(FIRST), set(self.example.MISTAKES))
        for name, (step, phase, hint) in FIRST.items():
            with self.subTest(name):
                verdict = self.verdict(name)
                self.assertFalse(verdict)
                self.assertEqual(verdict.status, "different")
                first = verdict.first
                self.assertEqual((first["divergence"]["step"], first["group"]), (step, phase), verdict.text)
                self.assertIn(hint, first["divergence"]["hint"])
                self.assertIn(f"FAIL against/{phase}/step{step:06d}\n", verdict.difference)
                self.assertRegex(first["divergence"]["candidate"], " (in|of) A$")
                self.assertRegex(first["divergence"]["reference"], " (in|of) [AB]$")

    def test_prints_and_keeps_what_differs(self):
        a, b = {"world": 1}, {"world": 1, "resume": 1, "cls": self.example.RateRestarted}
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            verdict = zproof.ab(self.example.train, a, b)
        self.assertEqual(said.getvalue(), verdict.text)
        self.assertRegex(verdict.text, r"replay +zeroproof judge-run /.*/zproof-ab-\w+/a --against /.*/b --steps 3")
        kept = pathlib.Path(verdict.first["replay"].split()[2])
        self.assertTrue(kept.is_dir())
        again = zproof.judge_run(kept, against=kept.parent / "b")
        self.assertEqual((again.status, again.first["id"]), ("different", verdict.first["id"]))
        self.assertEqual(zproof.judge_run(kept, against=kept.parent / "b", steps="1..2").status, "equal")
        self.assertEqual(zproof.judge_run(kept).status, "right")
        alone = zproof.judge_run(kept, steps="2")
        self.assertTrue(alone)
        self.assertEqual({one["suite"] for one in alone.results}, {"judge-run"})

    def test_equal_trainings_leave_nothing(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
            self.assertEqual(zproof.ab(self.example.train, {"world": 1}, {"world": 1}, show=False).status, "equal")
            self.assertEqual(list(pathlib.Path(folder).glob("zproof*")), [])

    def test_a_named_folder_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(zproof.ab(self.example.train, {"world": 1}, {"world": 1}, folder=folder, show=False))
            self.assertTrue(pathlib.Path(folder, "b", "step000004.rank0.safetensors").is_file())
            with one_sentence(self, ValueError, "exists", "choose a new folder"):
                zproof.ab(self.example.train, {"world": 1}, {"world": 1}, folder=folder)


class BadInput(unittest.TestCase):
    def test_what_cannot_be_compared(self):
        with one_sentence(self, ValueError, "recorded nothing", "train(stage=1)"):
            zproof.ab(lambda folder, stage: None, {"stage": 1}, {"stage": 2})
        with self.assertRaises(ZeroDivisionError):
            zproof.ab(lambda folder: 1 / 0, {}, {})
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "b").mkdir()
            with one_sentence(self, ValueError, "b exists"):  # before a is trained
                zproof.ab(lambda folder: 1 / 0, {}, {}, folder=folder)
        with one_sentence(self, ValueError, "cannot be read"):
            zproof.judge_run("none")
        with tempfile.TemporaryDirectory() as folder:
            with one_sentence(self, ValueError, "there is no recorded step"):
                zproof.judge_run(folder)
            with one_sentence(self, ValueError, "--gradients-within is given without --against"):
                zproof.judge_run(folder, gradients_within=0.1)
            with one_sentence(self, ValueError, "--gradients-within is"):
                zproof.judge_run(folder, against=folder, gradients_within=2.0)
            with one_sentence(self, TypeError, "gradients_within is 'x'"):
                zproof.judge_run(folder, against=folder, gradients_within="x")
            with one_sentence(self, ValueError, "--steps is '3-8'"):
                zproof.judge_run(folder, steps="3-8")
            with one_sentence(self, ValueError, "--accumulate is 'fp8'"):
                zproof.judge_run(folder, accumulate="fp8")
            with mock.patch("zproof.program.FOLDER", pathlib.Path(folder)), one_sentence(self, OSError, "cannot be executed"):
                zproof.judge_run(folder)


if __name__ == "__main__":
    unittest.main()
