#!/usr/bin/env python3
"""Blanks of the lessons: unwritten ones are reported, correct ones accepted, wrong ones refused."""

import contextlib
import io
import pathlib
import re
import sys
import unittest

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
import numpy as np  # noqa: E402  (found by the line above, like the next ones)
import zp  # noqa: E402, F401
from blank_answers import RIGHT, WRONG  # noqa: E402

BLANK = re.compile(r"^@lesson\.blank\ndef (\w+)\(.*?\n(?=\n\n|\Z)", re.M | re.S)
DOTS = re.compile(r"^    return \.\.\.  # your code.*\n", re.M)


def blanks():
    """Lesson, name and text of every blank."""
    for lesson in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py")):
        for found in BLANK.finditer(lesson.read_text() + "\n"):
            yield lesson.name[:2], found[1], found[0]


def filled(text, answer):
    """A blank with an answer, indented as its body."""
    lines = "".join(f"    {line}\n" if line else "\n" for line in answer.strip("\n").splitlines())
    return DOTS.sub(lambda _: lines, text)


def said(lesson, text):
    """The verdict on a blank of a lesson, and the function that the lesson continues with."""
    names = {"__name__": "reader", "lesson": __import__(f"zp_lesson{lesson}"), "np": np, "zp": zp}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(text, names)
    return out.getvalue(), names[re.search(r"def (\w+)", text)[1]]


class Blanks(unittest.TestCase):
    def test_every_blank_has_answers(self):
        names = [name for _, name, _ in blanks()]
        self.assertEqual(sorted(names), sorted(RIGHT))
        self.assertEqual(sorted(names), sorted(WRONG))
        self.assertEqual(len(set(names)), len(names))
        for _, name, text in blanks():
            self.assertEqual(len(DOTS.findall(text)), 1, name)

    def test_unwritten(self):
        for lesson, name, text in blanks():
            out, function = said(lesson, text)
            self.assertEqual(out, f"{name}: not written yet; the lesson continues with its own\n")
            self.assertTrue(function.__module__.startswith("zp_lesson"))

    def test_correct(self):
        for lesson, name, text in blanks():
            out, function = said(lesson, filled(text, RIGHT[name]))
            self.assertRegex(out, rf"^{name}: correct, \d+ cases, every bit\n$")
            self.assertFalse(function.__module__.startswith("zp_lesson"), name)

    def test_wrong(self):
        for lesson, name, text in blanks():
            self.assertGreaterEqual(len(WRONG[name]), 2, name)
            for answer in (*WRONG[name], "return None", "return undefined_name"):
                out, function = said(lesson, filled(text, answer))
                self.assertRegex(out, rf"^{name}: wrong; the lesson continues with its own\n  \S", answer)
                self.assertTrue(function.__module__.startswith("zp_lesson"), name)

    def test_verdicts(self):
        def told(answer):
            lesson, _, text = next(blank for blank in blanks() if blank[1] == "distance")
            return said(lesson, filled(text, answer))[0]
        place = "case curves that cross, element [0]\n  got  0x3ff0000000000000 (1)\n  want 0x4000000000000000 (2)\n"
        self.assertIn(place, told("return np.abs(one - other) / spread / 2"))
        self.assertIn("float32; round every operation to float64", told("return np.float32(one)"))
        self.assertIn("modified array 0 of its arguments", told("one -= other\nreturn np.abs(one) / spread"))
        self.assertIn("returned nothing", told("pass"))
        self.assertIn("returned list", told("return [1]"))
        self.assertIn("NameError: name 'undefined_name' is not defined", told("return undefined_name"))
        self.assertIn("SystemExit: 3", told("raise SystemExit(3)"))
        zp.zp_blanks.SECONDS = 0.2
        self.addCleanup(setattr, zp.zp_blanks, "SECONDS", zp.zp_blanks.SECONDS)
        self.assertIn("no result after 0.2 s; look for an endless loop", told("while True: pass"))


if __name__ == "__main__":
    unittest.main()
