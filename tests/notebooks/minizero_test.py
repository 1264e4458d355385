#!/usr/bin/env python3
"""minizero.py: the program's hash on any number of ranks; unsupported recordings are rejected."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
import minizero as minizero_module  # noqa: E402  (found by the line above)
import zp  # noqa: E402

import numpy as np  # noqa: E402


def minizero(*words):
    command = [sys.executable, "-B", NOTEBOOKS / "minizero.py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


class MiniZero(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def recorded(self, settings, *words, infinite=()):
        """A recording with these settings, the program's hash and number of skipped steps."""
        config, file = self.folder / "settings.toml", self.folder / "gradients.safetensors"
        config.write_text('[run]\ninitial_state = "zero"\n' + settings)
        zp.run("record", "--workload", "byte_gpt_tiny", "--config", config, *words, file)
        if infinite:
            arrays = zp.tensors(file)
            for step in infinite:
                arrays[f"grad.{step}.0.block0.attention.key.bias"][1] = np.inf
            zp.write_tensors(file, arrays, **arrays.metadata)
        run = ("--gradients", file, "--recipe", "adamw", "--impl", "host", "--world", "threads:3", "--stage", 2)
        path = self.folder / "report.json"
        # 4: equal, but nothing clipped or skipped
        zp.run("verify", *run, "--report", f"json:{path}", may_end_with=(0, 4))
        report = json.loads(path.read_text())
        self.assertEqual(report["summary"]["pass"] + report["summary"]["mistrusted"], 1)
        training = report["cases"][0]["training"]
        return file, training["trajectory_hash"], training["skipped_steps"]

    def test_the_hash(self):
        """On 1 to 50 ranks, every stage, with and without overflow and clipping."""
        runs = 0
        binding, free = "[optimizer]\nmax_norm = 0.05\nlr = 3e-3\nweight_decay = 0.0\n", "[optimizer]\nmax_norm = 1e6\n"
        rows = [(dtype, overflow + clip, ()) for dtype in ("bf16", "fp16") for overflow in ("", "overflow_step = 0\n")
                for clip in (binding, free)]
        rows.append(("bf16", "micro_batches = 5\nsteps = 3\n[optimizer]\nmax_norm = 0\neps = 1e-3\n", ()))
        short = "micro_batches = 3\nsteps = 9\noverflow_step = 0\n[loss_scaler]\n"
        scalers = (("initial_loss_scale = 16777216.0\nhysteresis = 2\n", ()),
                   ("initial_loss_scale = 16777216.0\nmin_loss_scale = 4194304.0\nbackoff_factor = 0.125\n", ()),
                   ("initial_loss_scale = 16.0\nmax_loss_scale = 64.0\ngrowth_interval = 1\ngrowth_factor = 4.0\n", ()),
                   ("hysteresis = 2\ngrowth_interval = 4\n", (2, 4, 7)),
                   ("hysteresis = 2\ngrowth_interval = 4\nhysteresis_refill = 'good_step'\n", (2, 4, 7, 8)),
                   ("kind = 'constant'\n", (3,)), ("kind = 'none'\n", (3,)))
        rows += [("fp16", short + scaler, infinite) for scaler, infinite in scalers]
        for dtype, settings, infinite in rows:
            file, wanted, skips = self.recorded(settings, "--dtype", dtype, infinite=infinite)
            self.assertGreaterEqual(skips, len(infinite))
            gradients = zp.tensors(file)
            for stage in range(4):
                for ranks in (1, 2, 3, 5, 8, 50):
                    with np.errstate(all="ignore"):
                        got = minizero_module.train(gradients, ranks, stage)
                    self.assertEqual(got, (wanted, skips), f"{dtype} stage {stage} on {ranks} ranks\n{settings}")
                    runs += 1
        print(f"{runs} runs of minizero: the hash of the program", flush=True)

    def test_the_command(self):
        file, wanted, skips = self.recorded("", "--dtype", "fp16")
        for words in ((), ("--stage", 0, "--ranks", 3), ("--stage", 3, "--ranks", 1)):
            done = minizero(*words, file)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            ranks = words[-1] if words else 4
            self.assertEqual(done.stdout, f"6 steps on {ranks} ranks, {skips} skipped: trajectory {wanted}\n")

    def test_unsupported_recordings(self):
        wide = self.recorded("", "--dtype", "fp32")[0].rename(self.folder / "wide")
        table = [(wide, "dtypes = [ 'bf16' ] or dtypes = [ 'fp16' ]"),
                 (self.recorded("[optimizer]\namsgrad = true\n", "--dtype", "bf16")[0], "amsgrad = false"),
                 (self.folder / "nowhere", "is not a safetensors file"),
                 (self.folder, "is not a safetensors file")]
        for name, data in (("empty", b""), ("short", b"\x08"), ("text", b"{}" * 40), ("huge", b"\xff" * 64)):
            (self.folder / name).write_bytes(data)
            table.append((self.folder / name, "is not a safetensors file"))
        zp.write_tensors(self.folder / "other", {}, steps=1)
        table.append((self.folder / "other", "has no metadata 'order'"))
        for file, said in table:
            done = minizero(file)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(said, done.stderr)
        done = minizero("--ranks", 0)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ranks must be at least 1, got 0", done.stderr)
        done = minizero("--stage", 4)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--stage: invalid choice: 4", done.stderr)


if __name__ == "__main__":
    if "libxxhash" in minizero().stderr:
        zp.stop("skipped: libxxhash cannot be loaded; install libxxhash0", 77)
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
