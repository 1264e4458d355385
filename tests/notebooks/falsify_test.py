#!/usr/bin/env python3
"""falsify_test.py LESSON.py: every claim of a lesson fails, by name, if its input is falsified.

falsify_test.py sum LESSON.py...: the lessons have enough claims, and no number is missing.
"""

import os
import pathlib
import re
import subprocess
import sys


LEAST = 45  # claims in all lessons


def claims_of(lesson):
    return re.findall(r'zp\.claim\("([^"]+)"', lesson.read_text())


def count(lessons):
    claims = sum(len(claims_of(lesson)) for lesson in lessons)
    numbers = sorted(int(lesson.name.split("_")[0]) for lesson in lessons)
    print(f"{len(lessons)} lessons, {claims} claims")
    return 0 if claims >= LEAST and numbers == list(range(1, len(lessons) + 1)) else 1


def main(lesson):
    text = lesson.read_text()
    claims = claims_of(lesson)
    number = str(int(lesson.name.split("_")[0]))
    wanted = [f"{number}.{k}" for k in range(1, len(claims) + 1)]
    failures = []
    if claims != wanted or not 3 <= len(claims) <= 5:
        failures.append(f"claims are {claims}, expected {wanted}, with 3 to 5 claims")
    for name in claims:
        if f'zp.given("{name}", ' not in text:
            failures.append(f"claim {name} has no zp.given that can falsify it")
            continue
        done = subprocess.run([sys.executable, lesson], env={**os.environ, "ZP_FALSIFY": name}, capture_output=True,
                              text=True)
        if done.returncode != 1 or done.stderr.count("\n") != 1 or not done.stderr.startswith(
                f"claim {name} does not hold: "):
            failures.append(
                f"falsified claim {name} exited with {done.returncode}: {done.stderr!r}")
    for failure in failures:
        print(f"{lesson.name}: {failure}")
    print(f"{lesson.name}: {len(claims)} claims, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    paths = [pathlib.Path(word) for word in sys.argv[1:]]
    sys.exit(count(paths[1:]) if sys.argv[1] == "sum" else main(paths[0]))
