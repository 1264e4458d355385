"""The programs in this package: ``zeroproof`` and ``zeroproof-sim``, which simulates a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

FOLDER = Path(__file__).parent / "bin"
INCLUDE = Path(__file__).parent / "include"  # zeroproof_plugin.h


def run(name: str, argv: list[str]) -> NoReturn:
    """Replaces this process by the program; exits with 3 if it cannot run."""
    try:
        os.execv(FOLDER / name, [name, *argv])
    except OSError as error:
        sys.stderr.write(f"zproof: {FOLDER / name} cannot be executed ({error.strerror}); install zproof in a folder whose "
                         "programs can be executed\n")
        sys.exit(3)


def output_of(name: str, argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end; OSError if it cannot run."""
    try:
        return subprocess.run([FOLDER / name, *argv], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise OSError(f"{FOLDER / name} cannot be executed ({error.strerror}); install zproof in a folder whose programs can be "
                      "executed") from None


def main() -> NoReturn:
    """The console script ``zeroproof``."""
    run("zeroproof", sys.argv[1:])


def main_sim() -> NoReturn:
    """The console script ``zeroproof-sim``."""
    run("zeroproof-sim", sys.argv[1:])
