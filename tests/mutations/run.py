#!/usr/bin/env python3
"""Breaks the sources one line at a time and asks whether somebody notices.

run.py --check            every row still applies: its old text stands in its file exactly once. Takes a second.
run.py [--only A,B]       makes a copy of the checkout, builds it, sees every check pass, then for each row breaks the
                          copy, builds what the check needs, runs it, and mends the copy. Takes hours.
    --copy FOLDER         keeps the copy and its build there, for the next time

The rows are in mutations.txt. Exit status: 0 all noticed, 1 not so, 2 a row that does not apply or does not build.
"""

import argparse
import functools
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEYS = ("file", "old", "new", "check")
LONGEST_S = 900  # a check that takes longer hangs, which is noticed too


class Refused(Exception):
    """A row that cannot be used."""


def read_rows(path):
    """Rows are a name in brackets and one line for every key; lines with # in front are for people."""
    rows, row = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            row = {"name": line.strip("[]")}
            rows.append(row)
            continue
        key, _, value = line.partition(" ")
        if row is None or key not in KEYS or key in row:
            raise Refused(f"{path.name}:{number}: '{line}' is no line of a row (file, old, new and check, once each)")
        row[key] = value
    for row in rows:
        missing = [key for key in KEYS if key not in row and key != "new"]
        if missing:
            raise Refused(f"row {row['name']} lacks {', '.join(missing)}")
        row.setdefault("new", "")
    if len({row["name"] for row in rows}) != len(rows):
        raise Refused("two rows have one name")
    return rows


def mutated(row, root):
    """The text of the row's file before and after."""
    path = root / row["file"]
    if not path.is_file():
        raise Refused(f"row {row['name']}: {row['file']} is not there (was it moved?)")
    text = path.read_text()
    count = text.count(row["old"])
    if count != 1:
        raise Refused(f"row {row['name']}: '{row['old']}' stands {count} times in {row['file']}, not once")
    return text, text.replace(row["old"], row["new"])


def check_rows(rows):
    bad = 0
    for row in rows:
        try:
            before, after = mutated(row, ROOT)
            if before == after:
                raise Refused(f"row {row['name']} changes nothing")
            command_of(row, ROOT)
        except Refused as problem:
            bad += 1
            print(problem)
    print(f"{len(rows) - bad} of {len(rows)} mutations apply")
    return 2 if bad else 0


@functools.cache
def folder_of(program):
    """A program of tests is built in the folder whose CMakeLists.txt has it."""
    for lists in ROOT.glob("tests/**/CMakeLists.txt"):
        if re.search(rf"\bzp_test\({program}\s", lists.read_text()):
            return lists.parent.relative_to(ROOT)
    raise Refused(f"no CMakeLists.txt of the tests has the program {program}")


def command_of(row, copy):
    """Targets to build and words to run."""
    kind, *words = row["check"].split()
    if kind == "verify" and words:
        return ["zeroproof"], [str(copy / "build/zeroproof"), "verify", *words]
    if kind == "test" and len(words) == 2 and any(ROOT.glob(f"tests/**/{words[1]}.cpp")):
        # tests of the command line start both programs
        programs = ["zeroproof-faults"] if words[0] == "test_verification" else []
        return [words[0], *programs], [str(copy / "build" / folder_of(words[0]) / words[0]),
                                       f"--source-file=*/{words[1]}.cpp", "--test-case-exclude=slow: *,nightly: *"]
    failures = "tests/verification/failures"
    if kind == "failures" and words and (ROOT / failures / words[0]).is_file():
        between = {"ranks_test.py": copy / "build/tests/verification/libzp_misbehave.so",
                   "disk_test.py": copy / "build/tests/verification/libzp_refuse.so",
                   "train_test.py": copy / "verification/examples/train_until_done.sh"}
        return ["zeroproof", "zp_misbehave", "zp_refuse"], ["python3", str(copy / failures / words[0]),
                                               str(copy / "build/zeroproof"),
                                               *filter(None, [str(between.get(words[0], ""))]), *words[1:]]
    if kind == "notebooks" and words and notebook_script(words[0]) is not None:
        # what it prints is a lesson's, or a test's of lessons, puzzles and their judge; skipped (77) is not passed
        script = (f'cd "{copy}" && export ZP_BUILD="$PWD/build" ZP_EIGEN_DIR="$(sed -n s/^ZP_EIGEN_DIR:PATH=//p '
                  f'build/CMakeCache.txt)" MPLBACKEND=Agg PYTHONDONTWRITEBYTECODE=1 && '
                  f'exec sh tests/notebooks/with_numpy.sh "$@"')
        return ["zeroproof", "zeroproof-faults", "zeroproof-sim"], [
            "sh", "-c", script, "sh", notebook_script(words[0]), *words[1:]]
    tests = "tests/verification/interfaces/python"
    if kind == "python" and len(words) == 1 and (ROOT / tests / f"{words[0]}.py").is_file():
        # installed first: what does not build or cannot be fetched is nothing that was noticed
        script = (f'cd "{copy}" && {{ sh {tests}/environment.sh python3 "$PWD" "$PWD/build" || exit 0; }} && '
                  f'exec sh {tests}/in_environment.sh "$PWD/build/python-env" "$PWD/{tests}/{words[0]}.py"')
        return ["zeroproof"], ["sh", "-c", script]
    peers = "tests/verification/tools/quantize"
    if kind == "peer" and len(words) > 1 and (ROOT / peers / f"{words[0]}_python_test.py").is_file():
        return words[1:], ["sh", str(copy / peers / "peer_test.sh"), "python3",
                           str(copy / peers / f"{words[0]}_python_test.py"),
                           *(str(copy / "build" / peers / tool) for tool in words[1:])]
    raise Refused(f"row {row['name']}: nobody knows the check '{row['check']}'")


def notebook_script(name):
    """A lesson, or a test of lessons and puzzles."""
    for place in (f"tests/notebooks/{name}.py", f"notebooks/{name}.py"):
        if (ROOT / place).is_file():
            return place
    return None


def build(copy, targets):
    return subprocess.run(["ninja", "-C", str(copy / "build"), *targets], capture_output=True, text=True)


def passes(words):
    try:
        result = subprocess.run(words, capture_output=True, timeout=LONGEST_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0 and b"test cases: 0 " not in result.stdout


def is_without_peer(row, copy):
    """Another library is looked for by the check, and is not here."""
    if row["check"].split()[0] != "peer":
        return False
    return subprocess.run(command_of(row, copy)[1], capture_output=True, stdin=subprocess.DEVNULL).returncode == 77


def make_copy(copy):
    """The tracked files of the checkout, only those that differ from what is there."""
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        source, target = ROOT / name, copy / name
        if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
        target.touch()
    if not (copy / "build/build.ninja").exists():
        # a broken line may leave something unused
        subprocess.run(["cmake", "--preset", "cpu", "-DZP_WERROR=OFF"], cwd=copy, check=True, stdout=subprocess.DEVNULL)


def try_row(row, copy):
    """True if the check of a row fails on the mutated copy."""
    targets, words = command_of(row, copy)
    before, after = mutated(row, copy)
    path = copy / row["file"]
    path.write_text(after)
    try:
        built = build(copy, targets)
        if built.returncode != 0:
            errors = [line for line in built.stdout.splitlines() if "error:" in line]
            raise Refused("does not build: " + "".join(errors[:1]))
        return not passes(words)
    finally:
        path.write_text(before)


def run_rows(rows, copy):
    make_copy(copy)
    built = build(copy, sorted({target for row in rows for target in command_of(row, copy)[0]}))
    if built.returncode != 0:
        raise Refused("the copy does not build:\n" + built.stdout[-2000:])
    for row in [row for row in rows if is_without_peer(row, copy)]:
        print(f"{row['name']}: not tried, for its check is skipped here")
        rows = [other for other in rows if other is not row]
    for words in {tuple(command_of(row, copy)[1]) for row in rows}:
        if not passes(list(words)):
            raise Refused("without any mutation this fails: " + " ".join(words))
    noticed, refused = 0, 0
    for number, row in enumerate(rows, 1):
        try:
            seen = try_row(row, copy)
            noticed += seen
            found = "noticed" if seen else "NOT NOTICED"
        except Refused as problem:  # the others can be tried all the same
            refused += 1
            found = str(problem)
        print(f"{number:3}/{len(rows)} {row['name']}: {found}", flush=True)
    print(f"{noticed} of {len(rows)} mutations noticed ({100 * noticed // max(1, len(rows))} %)")
    if refused > 0:
        return 2
    return 0 if noticed == len(rows) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--copy", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        rows = read_rows(HERE / "mutations.txt")
        if arguments.check:
            return check_rows(rows)
        wanted = set(filter(None, arguments.only.split(",")))
        unknown = wanted - {row["name"] for row in rows}
        if unknown:
            raise Refused("there is no row " + ", ".join(sorted(unknown)))
        rows = [row for row in rows if not wanted or row["name"] in wanted]
        if arguments.copy:
            return run_rows(rows, arguments.copy.resolve())
        with tempfile.TemporaryDirectory(prefix="zeroproof-mutations-") as folder:
            return run_rows(rows, pathlib.Path(folder))
    except Refused as problem:
        print(problem)
        return 2


if __name__ == "__main__":
    sys.exit(main())
