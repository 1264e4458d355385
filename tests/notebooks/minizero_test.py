#!/usr/bin/env python3
"""minizero.py has the trajectory hash of the program, on any number of ranks, and refuses what it does not know."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
import zp  # noqa: E402  (found by the line above)


def minizero(*words):
    command = [sys.executable, "-B", NOTEBOOKS / "minizero.py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


class MiniZero(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def recorded(self, settings, *words):
        """A recording with these settings, and the program's hash of it."""
        config, file = self.folder / "settings.toml", self.folder / "gradients.safetensors"
        config.write_text('[run]\ninitial_state = "zero"\n' + settings)
        zp.run("record", "--workload", "byte_gpt_tiny", "--config", config, *words, file)
        run = ("--gradients", file, "--recipe", "adamw", "--twin", "host", "--world", "threads:3", "--stage", 2)
        report = zp.verify(*run)
        self.assertEqual(report["summary"]["pass"], 1)
        return file, report["cases"][0]["training"]["trajectory_hash"]

    def test_the_hash(self):
        for settings in ("", "overflow_step = 0\n[optimizer]\nlr = 3e-3\nmax_norm = 0.05\nweight_decay = 0.0\n",
                         "overflow_step = 0\n[optimizer]\nmax_norm = 0.6\n",
                         "micro_batches = 5\nsteps = 3\n[optimizer]\nmax_norm = 0\neps = 1e-3\n"):
            file, wanted = self.recorded(settings, "--dtype", "bf16")
            for ranks in (1, 2, 3, 5, 8, 50):
                done = minizero("--ranks", ranks, file)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                end = f" on {ranks} ranks, {int(settings[:1] != 'o')} skipped: trajectory {wanted}\n"
                self.assertTrue(done.stdout.endswith(end), done.stdout + wanted)

    def test_what_it_does_not_know(self):
        table = [(self.recorded("", "--dtype", "fp16")[0].rename(self.folder / "half"), "dtypes = [ 'bf16' ]"),
                 (self.recorded("[optimizer]\namsgrad = true\n", "--dtype", "bf16")[0], "amsgrad = false"),
                 (self.folder / "nowhere", "is no safetensors file"), (self.folder, "is no safetensors file")]
        for name, data in (("empty", b""), ("short", b"\x08"), ("text", b"{}" * 40), ("huge", b"\xff" * 64)):
            (self.folder / name).write_bytes(data)
            table.append((self.folder / name, "is no safetensors file"))
        zp.write_tensors(self.folder / "other", {}, steps=1)
        table.append((self.folder / "other", "does not say its order"))
        for file, said in table:
            done = minizero(file)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(said, done.stderr)
        done = minizero("--ranks", 0)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ranks is 0", done.stderr)


if __name__ == "__main__":
    if minizero("--help").returncode == 0 and minizero().returncode == 77:
        zp.stop("skipped: libxxhash cannot be loaded (the trajectory hash is made with it); install libxxhash0", 77)
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
