#!/usr/bin/env python3
"""installed_test.py LESSON.py: a lesson with correct answers runs where only the program zeroproof is installed."""

import os
import pathlib
import subprocess
import sys
import tempfile

from blank_answers import RIGHT
from blanks_test import BLANK, filled

STORED = "is not installed: its results are read from recorded_results.json"


def main(lesson):
    text = lesson.read_text()
    blanks = [found[1] for found in BLANK.finditer(text)]
    text = BLANK.sub(lambda found: filled(found[0], RIGHT[found[1]]), text)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, lesson.name)
        path.write_text(text)
        pathlib.Path(folder, "zeroproof").symlink_to(pathlib.Path(os.environ["ZP_BUILD"], "zeroproof").resolve())
        env = {**os.environ, "ZP_BUILD": str(pathlib.Path(folder, "no build")), "PATH": folder,
               "PYTHONPATH": str(lesson.parent)}
        done = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True)
    wrong = [line for line in done.stderr.splitlines() if not line.endswith(STORED)]
    if STORED not in done.stderr:
        wrong.append("it did not read stored results")
    wrong += [f"{name} is not accepted" for name in blanks if f"\n{name}: correct, " not in "\n" + done.stdout]
    for sentence in wrong:
        print(f"{lesson.name}: {sentence}")
    return 1 if wrong or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
