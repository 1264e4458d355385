"""ml_dtypes as a foreign library: the command line judges its casts of the inputs of an operation.

It does not saturate, which is the contract's overflow `nonfinite`; its e8m0 is rounded to nearest, not up, so that only
the codes are compared."""

import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
from safetensors.numpy import load_file, save_file

PROGRAM = os.environ["ZP_PROGRAM"]


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)


def judged(operation, fill, compute, numel=65549):
    """The verdict on compute(source) as the operation's target."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = (str(pathlib.Path(folder) / name) for name in ("in.safetensors", "out.safetensors"))
        written = run("gen", operation, "--fill", fill, "--numel", str(numel), "-o", given)
        assert written.returncode == 0, written.stderr
        source = load_file(given)["before.source"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of overflows, which this tests
            save_file({"after.target": compute(source)}, made)
        return run("judge", given, made)


@unittest.skipUnless(ml_dtypes, "there is no ml_dtypes here")
class Stranger(unittest.TestCase):
    def test_casts_that_do_not_saturate(self):
        for operation, theirs in (("nonfinite_cast_to_e4m3", "float8_e4m3fn"), ("nonfinite_cast_to_e5m2", "float8_e5m2")):
            for fill in ("wide", "ties", "subnormal", "special", "training", "zero"):
                with self.subTest(operation=operation, fill=fill):
                    verdict = judged(operation, fill, lambda x, t=theirs: x.astype(getattr(ml_dtypes, t)))
                    self.assertEqual(verdict.returncode, 0, verdict.stdout + verdict.stderr)

    def test_the_saturating_cast_is_another_one(self):
        verdict = judged("cast_to_e4m3", "wide", lambda x: x.astype(ml_dtypes.float8_e4m3fn))
        self.assertEqual(verdict.returncode, 1, verdict.stdout + verdict.stderr)

    def test_every_exponent(self):
        codes = np.arange(256, dtype=np.uint8)
        widened = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
        self.assertTrue(np.isnan(widened[255]))
        self.assertEqual(widened[:255].tolist(), np.ldexp(1.0, codes[:255].astype(int) - 127).tolist())


if __name__ == "__main__":
    unittest.main()
