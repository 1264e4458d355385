#!/usr/bin/env python3
"""installed_test.py LESSON.py: a lesson runs where only the program zeroproof is installed."""

import os
import pathlib
import subprocess
import sys
import tempfile

SAID = "is not installed: its results are read from recorded_results.json"


def main(lesson):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "zeroproof").symlink_to(pathlib.Path(os.environ["ZP_BUILD"], "zeroproof").resolve())
        env = {**os.environ, "ZP_BUILD": str(pathlib.Path(folder, "no build")), "PATH": folder}
        done = subprocess.run([sys.executable, lesson], env=env, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if not line.endswith(SAID)]
    if done.returncode != 0 or told or SAID not in done.stderr:
        print(f"{lesson.name} exited with {done.returncode}: {done.stderr!r}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
