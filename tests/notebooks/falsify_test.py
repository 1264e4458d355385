#!/usr/bin/env python3
"""falsify_test.py LESSON.py: every claim of a lesson fails, by name, if its input is falsified.

falsify_test.py sum LESSON.py...: the lessons have enough claims, blanks and figures, short cells,
and no number is missing.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from falsehoods import FALSE
from notebook_test import cells_of

LEAST = 45  # claims in all lessons
LINES, FIGURES = 12, 3  # of code in a cell at most; in a lesson at least


def claims_of(text):
    return re.findall(r'zp\.claim\("([^"]+)"', text)


def shape(text, notebook):
    """Sentences about a lesson that is not written for readers."""
    wrong = []
    for number, (kind, source) in enumerate(cells_of(text), 1):
        lines = sum(bool(line.strip()) for line in source.splitlines())
        if kind == "code" and lines > LINES:
            wrong.append(
                f"cell {number} has {lines} lines of code, more than {LINES}; move some to the lesson's module")
        scaffolding = re.search(r"zp\.(given|sealed)|ZP_\w+|base64", source) if kind == "code" else None
        if scaffolding:
            wrong.append(f"cell {number} has '{scaffolding[0]}', which belongs to the tests")
    blanks = text.count("@lesson.blank\n")
    if not 2 <= blanks <= 3:
        wrong.append(f"it has {blanks} blanks, expected 2 or 3")
    figures = sum("image/png" in output.get("data", {})
                  for cell in notebook["cells"] for output in cell.get("outputs", []))
    if figures < FIGURES:
        wrong.append(f"it has {figures} figures, expected {FIGURES} or more")
    return wrong


def count(lessons):
    claims, failures = 0, 0
    for lesson in lessons:
        text = lesson.read_text()
        claims += len(claims_of(text))
        for sentence in shape(text, json.loads(lesson.with_suffix(".ipynb").read_text())):
            print(f"{lesson.name}: {sentence}")
            failures += 1
    numbers = sorted(int(lesson.name.split("_")[0]) for lesson in lessons)
    print(f"{len(lessons)} lessons, {claims} claims, {failures} failures")
    return 0 if claims >= LEAST and numbers == list(range(1, len(lessons) + 1)) and failures == 0 else 1


def falsified(lesson, text, name):
    """Runs a lesson whose text is changed so that a claim is false."""
    before, after = FALSE[name]
    env = {**os.environ, "PYTHONPATH": str(lesson.parent)}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, lesson.name)
        path.write_text(text.replace(before, after))
        return subprocess.run([sys.executable, path], env=env, capture_output=True, text=True)


def main(lesson):
    text = lesson.read_text()
    claims = claims_of(text)
    number = str(int(lesson.name.split("_")[0]))
    wanted = [f"{number}.{k}" for k in range(1, len(claims) + 1)]
    failures = []
    if claims != wanted or not 3 <= len(claims) <= 5:
        failures.append(f"claims are {claims}, expected {wanted}, with 3 to 5 claims")
    for name in claims:
        if text.count(FALSE.get(name, ("\0",))[0]) != 1:
            failures.append(f"claim {name}: falsehoods.py has no text that occurs once in the lesson")
            continue
        done = falsified(lesson, text, name)
        if done.returncode != 1 or done.stderr.count("\n") != 1 or not done.stderr.startswith(
                f"claim {name} does not hold: "):
            failures.append(
                f"falsified claim {name} exited with {done.returncode}: {done.stderr!r}")
    for failure in failures:
        print(f"{lesson.name}: {failure}")
    print(f"{lesson.name}: {len(claims)} claims, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    paths = [pathlib.Path(word).resolve() for word in sys.argv[1:] if word != "sum"]
    sys.exit(count(paths) if sys.argv[1] == "sum" else main(paths[0]))
