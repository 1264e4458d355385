#!/usr/bin/env python3
"""Draws mutants of recently changed C++ lines and lists those that no test notices.

weekly.py [--since COMMIT-OR-DATE]  lines changed since then (default: 7 days ago)
    --count N                       mutants to try (default: 20), besides those that do not build
    --seed N                        of the draw (default: random, printed)
    --copy FOLDER                   build in this copy of the checkout (default: build/mutations)

A mutant is tried with the label quick, `verify 'op/*/host/*'` and the tests that include its
header. FOLDER/survivors.txt lists the survivors: each shows a missing test or an equivalent mutant.
`mutate` must be on PATH (pip install universalmutator==1.14.1).
Exit status: 0 done, 2 nothing was tried, 77 no `mutate`.
"""

import argparse
import difflib
import hashlib
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from run import ROOT, build, make_copy, passes, tracked

PROGRAMS = ["test_common", "test_reference", "test_cuda", "test_verification", "zeroproof"]


def git(*words, check=True):
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=check).stdout.strip()


def base_of(since):
    commit = git("rev-parse", "--verify", "-q", since + "^{commit}", check=False)
    return commit or git("rev-list", "-1", f"--before={since}", "HEAD")


def changed_lines(base):
    """File and numbers of its changed lines, for the C++ sources outside tests/."""
    lines, name = {}, None
    for line in git("diff", "-U0", "-M", base, "--", "*.cpp", "*.hpp", ":!tests").splitlines():
        if line.startswith("+++ "):
            name = line[6:]
        elif found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(found[1]), int(found[2] or 1)
            lines.setdefault(name, []).extend(range(first, first + count))
    return {name: numbers for name, numbers in lines.items() if numbers and (ROOT / name).is_file()}


def mutants_of(name, number):
    """Texts of a file with this line mutated."""
    with tempfile.TemporaryDirectory() as folder:
        listed = pathlib.Path(folder) / "lines"
        listed.write_text(f"{number}\n")
        command = ["mutate", ROOT / name, "cpp", "--noCheck", "--lines", listed,
                   "--mutantDir", folder]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return [path.read_text() for path in sorted(pathlib.Path(folder).glob("*.mutant.*"))]


def difference(before, after):
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(list(lines)[3:])


def digests(copy):
    """Digests of the programs; a mutant that leaves them as they are is not worth a try."""
    paths = [next(path for path in (copy / "build").rglob(program) if path.is_file())
             for program in PROGRAMS]
    return [hashlib.sha256(path.read_bytes()).digest() for path in paths]


def tests_of(name):
    """Sources of test_verification that include the header of a file."""
    header = str(pathlib.PurePath(name).with_suffix(".hpp"))
    tests = [test for test in tracked(ROOT, "tests/verification/*_test.cpp")
             if f'#include "{header}"' in (ROOT / test).read_text()]
    return [pathlib.PurePath(test).stem for test in tests]


def survives(name, copy):
    ctest = ["ctest", "--test-dir", copy / "build", "--stop-on-failure", "-j2"]
    commands = [[*ctest, "-L", "quick", "-R", "^(common|reference|cuda)/"],
                [copy / "build/zeroproof", "verify", "op/*/host/*"]]
    if stems := tests_of(name):
        commands.append([*ctest, "-R", f"^verification/({'|'.join(stems)})$"])
    return all(passes(command) for command in commands)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", default="7 days ago")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build/mutations")
    arguments = parser.parse_args()
    if not shutil.which("mutate"):
        print("`mutate` is not on PATH; pip install universalmutator==1.14.1")
        return 77
    base = base_of(arguments.since)
    lines = changed_lines(base)
    draw = random.Random(arguments.seed)
    print(f"seed {arguments.seed}, {sum(map(len, lines.values()))} lines of {len(lines)} files "
          f"changed since {base[:12]}", flush=True)
    copy = arguments.copy.resolve()
    make_copy(copy)
    if error := build(copy, PROGRAMS):
        print(f"the copy does not build: {error}")
        return 2
    unchanged = digests(copy)
    places = [(name, number) for name, numbers in sorted(lines.items()) for number in numbers]
    draw.shuffle(places)
    tried, survivors = 0, []
    for name, number in places:
        if tried == arguments.count:
            break
        before = (copy / name).read_text()
        found = mutants_of(name, number)
        draw.shuffle(found)
        for after in found[:3]:
            try:
                (copy / name).write_text(after)
                if build(copy, PROGRAMS) or digests(copy) == unchanged:
                    continue
                tried += 1
                mutant = f"{name}:{number}\n{difference(before, after)}"
                if survived := survives(name, copy):
                    survivors.append(mutant + "\n")
                verdict = "SURVIVES" if survived else "noticed"
                print(f"{tried}/{arguments.count} {verdict} {mutant}", flush=True)
                break  # one mutant of a line
            finally:
                (copy / name).write_text(before)
    (copy / "survivors.txt").write_text("".join(survivors))
    print(f"{len(survivors)} of {tried} mutants survive")
    return 0 if tried else 2


if __name__ == "__main__":
    sys.exit(main())
