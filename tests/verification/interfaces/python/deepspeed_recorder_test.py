"""zproof.torch.record with DeepSpeed's ZeRO over gloo: recordings against sums, norms and steps in fp64."""

import importlib.util
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from run_recorder_test import ADAM, Step, elements

EXAMPLE = pathlib.Path(__file__).resolve().parents[4] / "verification/examples/pytorch/record_deepspeed.py"
NAMES = ["0.weight", "2.weight", "0.bias", "2.bias"]
LR, BETAS, EPS, DECAY, MAX_NORM = 1e-2, (0.9, 0.999), 1e-8, 0.1, 0.05


@unittest.skipUnless(importlib.util.find_spec("deepspeed"), "deepspeed is not here")
class DeepSpeed(unittest.TestCase):
    def recorded(self, world, stage, dtype):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        ran = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world),
                              EXAMPLE, temporary.name, "--stage", str(stage), "--dtype", dtype], text=True, timeout=400,
                             capture_output=True, env={**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("zproof records no", ran.stderr)
        return [Step(temporary.name, step, world) for step in range(1, 5)]

    def test_numbers(self):
        for world, stage, dtype in ((2, 1, "bf16"), (3, 2, "bf16"), (2, 2, "fp32")):
            with self.subTest(world=world, stage=stage, dtype=dtype):
                for number, step in enumerate(self.recorded(world, stage, dtype), 1):
                    self.assert_step(step, number, world, dtype)

    def assert_step(self, step, number, world, dtype):
        bf16 = dtype == "bf16"
        reduced = {}
        for name in NAMES:
            owned = np.concatenate([elements(step.parameter(rank, name)["owned"]) for rank in range(world)])
            np.testing.assert_array_equal(np.sort(owned), np.arange(math.prod(step.parameter(0, name)["shape"])))
            leaves = [step.of(rank, f"leaf.{micro}", name).astype(float) for rank in range(world) for micro in range(2)]
            reduced[name] = step.whole("reduced", name)
            scale = np.abs(leaves).max()
            # Tells recorded tensors from others; the proved bounds are those of judge-run.
            np.testing.assert_allclose(reduced[name], sum(leaves) / world, rtol=1e-5, atol=scale * (2e-2 if bf16 else 1e-6))
            self.assertEqual(step.ranks[0][1][f"leaf.0.{name}"], "BF16" if bf16 else "F32")
        norm = math.sqrt(sum(np.square(values.astype(float)).sum() for values in reduced.values()))
        squares = sum(one.get("sum_squares", 0.0) for metadata in step.metadata for one in metadata["parameters"])
        self.assertAlmostEqual(math.sqrt(squares) / norm, 1, 9)
        for metadata in step.metadata:
            self.assertAlmostEqual(metadata["norm"] / norm, 1, 4)
            self.assertEqual([metadata[name] for name in ("max_norm", "micro_batches", "applied", "step", "loss_scale")],
                             [MAX_NORM, 2, True, number, 1.0])
        for name in NAMES:
            self.assertEqual(step.parameter(0, name)["t"], number)
            grad, master, exp_avg, exp_avg_sq = (step.whole("before." + kind, name).astype(float) for kind in ("grad", *ADAM))
            np.testing.assert_allclose(grad, reduced[name] * min(1.0, MAX_NORM / (norm + 1e-6)), rtol=1e-4)
            exp_avg = BETAS[0] * exp_avg + (1 - BETAS[0]) * grad
            exp_avg_sq = BETAS[1] * exp_avg_sq + (1 - BETAS[1]) * grad * grad
            root = np.sqrt(exp_avg_sq / (1 - BETAS[1]**number)) + EPS
            master *= 1 - LR * (DECAY if name.endswith("weight") else 0.0)
            master -= LR * exp_avg / (1 - BETAS[0]**number) / root
            for kind, expected in zip(ADAM, (master, exp_avg, exp_avg_sq)):
                np.testing.assert_allclose(step.whole("after." + kind, name), expected, rtol=1e-4,
                                           atol=1e-6 * np.abs(expected).max())
            after = step.whole("after.master", name)
            if bf16:
                bits = after.view(np.uint32).astype(np.uint64)
                after = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
            for rank in range(world):
                np.testing.assert_array_equal(step.of(rank, "model", name), after)


if __name__ == "__main__":
    unittest.main()
