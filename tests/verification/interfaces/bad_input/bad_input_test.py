#!/usr/bin/env python3
"""Bad input at every interface: one sentence, the expected exit code, and nothing written.

bad_input_test.py command PROGRAM BUILD SOURCE   the program: plug-ins, calls and numbers in files
bad_input_test.py python                         the package zproof
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from command_rows import WRONG, Inputs, command_rows

SENTENCE = re.compile(r"[^()]*[^()\s].*; .+")  # the reason in parentheses is optional
LONGEST_S = 60


def listing(folder):
    """The files of a folder with their content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def complaints(row, done, program):
    """The differences between a program's answer and the expected one."""
    if done.returncode != row.code:
        yield f"exit {done.returncode}, not {row.code}"
    if row.says not in done.stdout + done.stderr:
        yield f"it lacks '{row.says}'"
    text = done.stderr.removeprefix(program + ": ").removesuffix("\n")
    if row.code != WRONG and (done.stdout or text == done.stderr or not SENTENCE.fullmatch(text)):
        yield "it is not of the form: problem (reason); hint"
    if row.code == WRONG and done.stderr:
        yield "it writes to stderr besides its report"


def report(row, wrong, output):
    if wrong:
        print(f"FAILED {row.interface}, {row.given}: {'; '.join(wrong)}\n{output}")
    return bool(wrong)


def ask(row, words, folder, program):
    """True if the answer of a process to a row is wrong."""
    before = listing(folder)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, cwd=folder,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return report(row, [f"no answer in {LONGEST_S} s"], "")
    wrong, after = list(complaints(row, done, program)), listing(folder)
    wrong += ["it wrote " + name for name in {**before, **after} if before.get(name) != after.get(name)]
    return report(row, wrong, " ".join(words) + "\n" + done.stdout[-400:] + done.stderr[-600:])


def run_commands(program, build, source):
    rows = command_rows()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = Inputs(lambda words: subprocess.run([program, *words], capture_output=True, text=True, cwd=folder,
                                                     timeout=LONGEST_S), build, source, folder)
        failed = sum(ask(row, [program, *row.run(inputs)], folder, "zeroproof") for row in rows)
    return failed, len(rows)


def asked(row, arrays):
    """True if the answer of the package to a row is wrong; failures of a callable of judge() are verdicts."""
    before, kind, text = arrays.bytes(), "nothing", ""
    try:
        verdict = row.run(arrays)
        if row.kind == "error":
            kind, text = verdict.status, verdict.results[0]["reason"]
    except Exception as error:  # the class is compared
        kind, text = type(error).__name__, str(error)
    wrong = [] if kind == row.kind else [f"{kind}, not {row.kind}"]
    if row.says not in text:
        wrong.append(f"it lacks '{row.says}'")
    if not SENTENCE.fullmatch(text):
        wrong.append("it is not of the form: problem (reason); hint")
    if arrays.bytes() != before:
        wrong.append("it wrote into an array")
    return report(row, wrong, text)


def run_python():
    from python_rows import Arrays, command_lines, python_rows

    rows, lines, arrays = python_rows(), command_lines(), Arrays()
    failed = sum(asked(row, arrays) for row in rows)
    with tempfile.TemporaryDirectory() as name:
        failed += sum(ask(row, [sys.executable, "-m", "zproof", *row.run], Path(name), "zproof") for row in lines)
    return failed, len(rows) + len(lines)


def main(mode, *words):
    failed, count = run_python() if mode == "python" else run_commands(*words)
    print(f"{count - failed} of {count} answered as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
