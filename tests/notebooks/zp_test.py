#!/usr/bin/env python3
"""Shared code of the lessons: bits, files, missing programs and packages, failing claims."""

import contextlib
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
import zp  # noqa: E402  (found by the line above)


def ended(call):
    """Exit code and standard error of a call that ends the lesson."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            call()
        except SystemExit as end:
            return end.code, said.getvalue()
    return None, said.getvalue()


class Bits(unittest.TestCase):
    def test_patterns(self):
        self.assertEqual(zp.hexadecimal(np.float32(1)), "0x3f800000")
        self.assertEqual(zp.hexadecimal(np.float64(-2)), "0xc000000000000000")
        self.assertEqual(zp.hexadecimal(np.uint16(0x3F80)), "0x3f80")
        self.assertEqual(zp.number("0xf0000000 (4026531840)"), 0xF0000000)

    def test_bf16_is_rounded_to_nearest_even(self):
        patterns = np.arange(0, 0x7F80, dtype=np.uint16)
        exact = zp.from_bf16(patterns)
        self.assertEqual(zp.different(zp.to_bf16(exact), exact), 0)
        middle = (exact[:-1].astype(np.float64) + exact[1:]) / 2  # exact: one bit more than bf16
        even = np.where(patterns[:-1] % 2 == 0, exact[:-1], exact[1:])
        self.assertEqual(zp.different(zp.to_bf16(middle.astype(np.float32)), even), 0)
        above = np.nextafter(middle.astype(np.float32), np.float32(np.inf))
        self.assertEqual(zp.different(zp.to_bf16(above), exact[1:]), 0)
        self.assertEqual(zp.hexadecimal(zp.to_bf16(np.float32(3.4e38))), "0x7f800000")
        for pattern in (0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF):
            self.assertTrue(np.isnan(zp.to_bf16(np.uint32(pattern).view(np.float32))), hex(pattern))
        self.assertEqual(zp.hexadecimal(zp.to_bf16(np.float32(-0.0))), "0x80000000")
        self.assertEqual([zp.to_bf16(np.zeros(shape)).shape for shape in ((), (0,), (2, 3))], [(), (0,), (2, 3)])

    def test_different_counts_bits(self):
        a = np.array([1, 0.0, np.nan, 2], np.float32)
        b = np.array([1, -0.0, -np.nan, np.nextafter(np.float32(2), np.float32(3))], np.float32)
        self.assertEqual(zp.different(a, b), 2)  # zeros are signed, NaNs are equal
        self.assertEqual(zp.different(np.float32([np.nan]), np.float32([1])), 1)
        for other in (a.astype(np.float64), a[:3], a[:1], a.reshape(2, 2)):
            with self.assertRaises(ValueError):
                zp.different(a, other)


class Files(unittest.TestCase):
    def test_every_type(self):
        values = {"F64": [1.5], "F32": [1.5, -2], "F16": [0.5], "BF16": [0x3FC0, 0x8000], "I64": [-1], "I32": [-1, 7],
                  "U64": [2**63], "U32": [2**31], "U8": [255], "BOOL": [True, False], "F32 ": []}
        arrays = {dtype: np.array([numbers], zp.DTYPES[dtype.strip()]) for dtype, numbers in values.items()}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x.safetensors")
            zp.write_tensors(path, arrays, what="a test")
            data = path.read_bytes()
            size = struct.unpack("<Q", data[:8])[0]  # numpy has no bf16
            header = json.loads(data[8:8 + size])
            header["BF16"]["dtype"] = "BF16"
            text = json.dumps(header).encode()
            path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])
            read = zp.tensors(path)
        self.assertEqual(read.metadata, {"what": "a test"})
        for dtype, numbers in values.items():
            self.assertEqual(read[dtype].shape, (1, len(numbers)))
            wanted = [1.5, -0.0] if dtype == "BF16" else numbers
            self.assertEqual(read[dtype].ravel().tolist(), wanted)
        self.assertEqual(zp.hexadecimal(read["BF16"][0, 1]), "0x80000000")

    def test_files_of_the_programs(self):
        run = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--world", "self")
        dump = zp.file_of("verify", *run, "--stage", 1, "--dump-steps", 1, option="--dump")
        master, param = dump["master.1.head.weight"], dump["param.1.head.weight"]
        self.assertEqual(zp.different(zp.to_bf16(master), param), 0)
        self.assertGreater(zp.different(master, param), 0)
        plan = zp.json_of("plan", "byte_gpt_tiny")
        self.assertIn("schema", plan)


class Endings(unittest.TestCase):
    def test_claims(self):
        self.assertEqual(ended(lambda: zp.claim("0.1", True, "x")), (None, ""))
        self.assertEqual(ended(lambda: zp.claim("0.1", np.bool_(True), "x")), (None, ""))
        for wrong in (False, None, 0, 1, float("nan"), "yes", np.array([True])):
            got = ended(lambda wrong=wrong: zp.claim("0.1", wrong, "x"))
            self.assertEqual(got, (1, "claim 0.1 does not hold: x\n"))

    def test_program_error(self):
        code, said = ended(lambda: zp.run("verfy"))
        self.assertEqual((code, said.count("\n")), (1, 1))
        self.assertIn("did you mean verify?", said)

    def missing(self, code, **env):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run([sys.executable, "-c", f"import zp; {code}"], cwd=NOTEBOOKS, capture_output=True,
                                  text=True, env={**os.environ, "ZP_BUILD": folder, "PATH": "", **env})

    def test_missing_programs(self):
        for fault, how in (("", "; pip install zproof, or build it: ./verification/run\n"),
                           ("x", "; build it: ./verification/run, then cmake --build build --target zeroproof-faults\n")):
            done = self.missing(f"zp.verify('x', fault={fault!r})")
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (3, "", 1))
            self.assertTrue(done.stderr.endswith(how), done.stderr)

    def test_program_on_path(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "zeroproof")
            program.write_text("#!/bin/sh\necho installed\n")
            program.chmod(0o755)
            done = self.missing("print(zp.run('doctor'), end='')", PATH=folder)
        self.assertEqual((done.stdout, done.stderr), ("installed\n", ""))

    def test_program_of_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            about, program = pathlib.Path(folder, "lib", "zproof-1.dist-info"), pathlib.Path(folder, "bin", "zeroproof")
            about.mkdir(parents=True)
            program.parent.mkdir()
            (about / "METADATA").write_text("Metadata-Version: 2.1\nName: zproof\nVersion: 1\n")
            (about / "RECORD").write_text("../bin/zeroproof,,\n")
            program.write_text("#!/bin/sh\necho packaged\n")
            program.chmod(0o755)
            done = self.missing("print(zp.run('doctor'), end='')", PYTHONPATH=str(about.parent))
        self.assertEqual((done.stdout, done.stderr), ("packaged\n", ""))

    def test_results_of_planted_faults_without_the_program(self):
        code = "import zp_lesson08 as lesson; print(zp.place(lesson.fault_in_stage3('?8')))"
        done = self.missing(code)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 1), done.stderr)
        self.assertIn("zeroproof-faults is not installed: its results are read from", done.stderr)
        self.assertIn("step 2  phase reduce  rank 0", done.stdout)

    def test_missing_package(self):
        code, said = ended(lambda: zp.require("json", "no_such_package"))
        self.assertEqual((code, said.count("\n")), (3, 1))
        self.assertIn("python3-no_such_package", said)

    def test_no_temporary_folder(self):
        with mock.patch.object(tempfile, "tempdir", None), \
                mock.patch.object(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"]):
            code, said = ended(zp.require_temporary_folder)
        self.assertEqual((code, said.count("\n")), (3, 1))
        self.assertIn("set TMPDIR", said)

    def test_interpreter_with_the_packages(self):
        with mock.patch.object(sys, "executable", "/elsewhere/python3"):
            self.assertEqual(zp.remedy(["json"]), "run it with /usr/bin/python3, which has it")
            self.assertIn("install them for it, or python3-json ", zp.remedy(["json", "no_such_package"]))
        with mock.patch.object(sys, "executable", "/usr/bin/python3"):
            self.assertEqual(zp.remedy(["json"]), "install them for it, or python3-json for /usr/bin/python3")

    def test_every_lesson_reports_missing_packages(self):
        for lesson in (*sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py")), NOTEBOOKS / "minizero.py"):
            done = subprocess.run([sys.executable, "-S", lesson], capture_output=True, text=True)  # no packages
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (3, "", 1), done.stderr)
            self.assertIn(f"by {sys.executable}; ", done.stderr)
            self.assertIn("python3-numpy python3-matplotlib for /usr/bin/python3", done.stderr)

    def test_guesses(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            for text in ("", "stale-unit", "stale"):
                zp.guess("?8", text)
        self.assertEqual(said.getvalue(), "?8: no answer yet\n?8: correct\n"
                         "?8: wrong; look at the place and the values again\n")
        self.assertEqual(zp.fault_called("no-master"), "no-master")

    def test_places(self):
        case = {"divergence": {"step": 2, "phase": "reduce", "rank": 1, "buffer": "leaf", "parameter": "",
                               "coordinates": "", "shard_index": 7, "candidate": "0x2 (2)", "reference": "0x3 (3)",
                               "differing": 1000, "compared": 2000, "what": "differs from the reference"}}
        at = "step 2  phase reduce  rank 1  buffer leaf"
        self.assertEqual(zp.place(case), f"{at}  index 7\n  got  0x2 (2)\n  want 0x3 (3)\n"
                         "  1,000 of 2,000 elements of this buffer on this rank differ")
        case["divergence"].update(parameter="w", coordinates="[3, 4]")
        self.assertIn(f"{at}  element w[3, 4]\n", zp.place(case))
        said = "a wrong value at w[0]: got 0x2 (2), want 0x3 (3)"
        case["divergence"].update(compared=0, differing=0, what=said)
        self.assertEqual(zp.place(case),
                         f"{at}\n  a wrong value at w[0]\n  got  0x2 (2)\n  want 0x3 (3)")


class Tables(unittest.TestCase):
    def test_columns(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            zp.table(("buffer", "n"), ("master", 1), ("m", 1000))
        self.assertEqual(said.getvalue(), "buffer     n\nmaster     1\nm       1000\n")

    def test_columns_in_jupyter(self):
        text = zp.html_of_table([["a & b", "n"], ["m", "1,000"]])
        self.assertIn('<th style="text-align:left;white-space:normal">a &amp; b</th>', text)
        self.assertIn('<td style="text-align:right;white-space:nowrap">1,000</td>', text)
        self.assertEqual(text.count("<tr>"), 2)


if __name__ == "__main__":
    unittest.main()
