#!/usr/bin/env python3
"""Changes one place of the harness at a time and checks that a test fails.

run.py --check          checks that every row of mutations.txt applies; takes seconds
run.py [--only A,B]     copies the checkout, builds the copy and tries one row after another; hours
    --copy FOLDER       keeps the copy and its build for the next run

Exit status: 0 every mutation was noticed, 1 one was not, 2 a row does not apply or does not build.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT_S = 900  # a check that takes longer hangs, which counts as noticed
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)


class Refused(Exception):
    """A row that cannot be used."""


def read_rows(path):
    """Rows of four lines: [name], check; function; - pattern; + replacement."""
    rows = []
    for block in re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).strip().split("\n\n"):
        found = re.fullmatch(r"\s*\[(\S+)\] (.+)\n(\S+)\n- (.+)\n\+ ?(.*)", block)
        if not found:
            raise Refused(f"{path.name}: not a row:\n{block}")
        rows.append(dict(zip(("name", "check", "function", "old", "new"), found.groups())))
    if len({row["name"] for row in rows}) != len(rows):
        raise Refused(f"{path.name}: two rows have the same name")
    return rows


def tracked(root, *patterns):
    command = ["git", "-C", str(root), "ls-files", "-z", *patterns]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return list(filter(None, names.split("\0")))


def end_of(code, begin, closing):
    """Index after the bracket that closes the one at `begin`."""
    depth = 0
    for at in range(begin, len(code)):
        depth += {code[begin]: 1, closing: -1}.get(code[at], 0)
        if depth == 0:
            return at + 1
    return len(code)


def definitions(text, function):
    """Spans from the name of a function to the brace that ends its body."""
    code = NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in re.finditer(rf"(?<![\w.>~]){re.escape(function)}\s*\(", code):
        after = end_of(code, found.end() - 1, ")")
        body = re.compile(r"[^;{}(),=]*\{").match(code, after)
        if body:
            yield found.start(), end_of(code, body.end() - 1, "}")


class Sources:
    """The C++ sources of a checkout, without its tests."""

    def __init__(self, root):
        names = [name for name in tracked(root, "*.cpp", "*.hpp") if not name.startswith("tests/")]
        self.texts = {name: (root / name).read_text() for name in names if (root / name).is_file()}

    def mutated(self, row):
        """File of the row's function, its text, and the text after the mutation."""
        pattern = re.compile(row["old"].replace(" ", r"\s+"))
        found = [(name, match)
                 for name, text in self.texts.items() if row["function"] in text
                 for begin, end in definitions(text, row["function"])
                 for match in pattern.finditer(text, begin, end)]
        if len(found) != 1:
            raise Refused(f"row {row['name']}: the pattern matches {len(found)} times "
                          f"in {row['function']}, not once")
        name, match = found[0]
        text = match.string
        return name, text, text[:match.start()] + match.expand(row["new"]) + text[match.end():]


def command_of(row):
    """Target to build, and a function of the copy that returns the command line."""
    program, *words = row["check"].split()
    if program == "verify":
        return "zeroproof", lambda copy: [copy / "build/zeroproof", "verify", *words]
    if len(words) != 1 or not any(ROOT.glob(f"tests/**/{words[0]}.cpp")):
        raise Refused(f"row {row['name']}: no test has the source {' '.join(words)}.cpp")
    return program, lambda copy: [next((copy / "build/tests").rglob(program)),
                                  f"--source-file=*/{words[0]}.cpp",
                                  "--test-case-exclude=slow: *,nightly: *"]


def make_copy(copy):
    """Copies the tracked files that differ from those of the copy, and configures it."""
    for name in tracked(ROOT):
        source, target = ROOT / name, copy / name
        same = target.is_file() and target.read_bytes() == source.read_bytes()
        if source.is_file() and not same:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    if not (copy / "build/build.ninja").exists():
        command = ["cmake", "--preset", "cpu", "-DZP_CUDA=OFF"]
        subprocess.run(command, cwd=copy, check=True, stdout=subprocess.DEVNULL)


def build(copy, targets):
    """The first error, or "" if everything was built."""
    command = ["ninja", "-C", copy / "build", *targets]
    result = subprocess.run(command, capture_output=True, text=True)
    errors = [line for line in result.stdout.splitlines() if "error:" in line]
    return "" if result.returncode == 0 else errors[0] if errors else result.stdout[-2000:]


def passes(command):
    try:
        result = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S,
                                stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0 and b"test cases: 0 " not in result.stdout


def check_rows(rows):
    sources, refused = Sources(ROOT), []
    for row in rows:
        try:
            command_of(row)
            sources.mutated(row)
        except Refused as problem:
            refused.append(row)
            print(problem)
    print(f"{len(rows) - len(refused)} of {len(rows)} mutations apply", flush=True)
    return refused


def try_row(row, copy, sources):
    name, before, after = sources.mutated(row)
    target, command = command_of(row)
    (copy / name).write_text(after)
    try:
        error = build(copy, [target])
        if error:
            return f"does not build: {error}"
        return "NOT NOTICED" if passes(command(copy)) else "noticed"
    finally:
        (copy / name).write_text(before)


def run_rows(rows, copy):
    refused = check_rows(rows)
    rows = [row for row in rows if row not in refused]
    make_copy(copy)
    error = build(copy, sorted({command_of(row)[0] for row in rows}))
    if error:
        raise Refused(f"the copy does not build: {error}")
    for check in sorted({row["check"] for row in rows}):
        if not passes(command_of({"name": "", "check": check})[1](copy)):
            raise Refused(f"without a mutation this fails: {check}")
    sources, found = Sources(ROOT), []
    for number, row in enumerate(rows, 1):
        found.append(try_row(row, copy, sources))
        print(f"{number:3}/{len(rows)} {row['name']}: {found[-1]}", flush=True)
    print(f"{found.count('noticed')} of {len(rows)} mutations noticed")
    unused = len(refused) + sum(text.startswith("does not build") for text in found)
    return 2 if unused else 1 if "NOT NOTICED" in found else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--copy", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        rows = read_rows(HERE / "mutations.txt")
        wanted = set(filter(None, arguments.only.split(",")))
        unknown = wanted - {row["name"] for row in rows}
        if unknown:
            raise Refused("no such row: " + ", ".join(sorted(unknown)))
        rows = [row for row in rows if not wanted or row["name"] in wanted]
        if arguments.check:
            return 2 if check_rows(rows) else 0
        if arguments.copy:
            return run_rows(rows, arguments.copy.resolve())
        with tempfile.TemporaryDirectory(prefix="zeroproof-mutations-") as folder:
            return run_rows(rows, pathlib.Path(folder))
    except Refused as problem:
        print(problem)
        return 2


if __name__ == "__main__":
    sys.exit(main())
