"""puzzle list, start, check, hint, solution."""

import argparse
import importlib.util
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from judge import compiled
from judge.compiled import Refused

PLACE = pathlib.Path(__file__).resolve().parent.parent
NAMES = ("add_tree", "maximal_nodes", "adamw", "loss_scaler", "unscale", "clip", "shard_map", "reduce", "groups",
         "reshard", "schedule", "repair")
PROGRESS = ".puzzles.json"  # beside the learner's files
WALL_SECONDS, SHOWN, LARGEST = 60, 2000, 4_000_000
EXIT = {"pass": 0, "fail": 1, "over": 1, "refused": 2, "hung": 5, "error": 6, "ended": 6}


def progress_of(folder):
    path = folder / PROGRESS
    try:
        known = json.loads(path.read_text()) if path.exists() else {}
        assert isinstance(known, dict) and all(isinstance(of, dict) for of in known.values())
        return known
    except (ValueError, AssertionError, OSError):
        raise Refused(f"{path}, the list of solved puzzles, is damaged; remove it") from None


def remember(folder, name, **what):
    known = progress_of(folder)
    known.setdefault(name, {}).update(what)
    partial = folder / (PROGRESS + ".new")
    partial.write_text(json.dumps(known, indent=1) + "\n")
    partial.replace(folder / PROGRESS)


def names(cpp):
    return tuple(compiled.PUZZLES) if cpp else NAMES


def known_name(words):
    """NAME.py or NAME.cpp, the name of the learner's file."""
    if words.name not in names(words.cpp):
        if words.name in names(not words.cpp):
            raise Refused(f"'{words.name}' is a puzzle in {'Python' if words.cpp else 'C++'} only; "
                          f"{'omit' if words.cpp else 'add'} --cpp")
        raise Refused(f"no puzzle '{words.name}'; use one of {', '.join(names(words.cpp))}")
    return words.name + (".cpp" if words.cpp else ".py")


def of_puzzle(name, file):
    """A file of a puzzle: its starter, hints, solution."""
    return (PLACE / "cpp" / name if name.endswith(".cpp") else PLACE / name).with_suffix("") / file


def key_of(file):
    """The key of a file in the progress."""
    return file if file.endswith(".cpp") else pathlib.Path(file).stem


def list_puzzles(words):
    known = progress_of(words.folder)
    for file in [f"{name}.py" for name in NAMES] + [f"{name}.cpp" for name in compiled.PUZZLES]:
        of, suffix = known.get(key_of(file), {}), pathlib.Path(file).suffix
        state = "solved" if of.get("solved") else "started" if (words.folder / file).exists() else "not started"
        question = of_puzzle(file, f"starter{suffix}").read_text().splitlines()[0].strip('"/ ')
        print(f"{key_of(file):{14 if suffix == '.py' else 30}} {state:12} {question}")
    return 0


def start(words):
    path = words.folder / known_name(words)
    if not words.folder.is_dir():
        raise Refused(f"{words.folder} is not a folder; create it first")
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(of_puzzle(path.name, f"starter{path.suffix}").read_text())
    except FileExistsError:
        raise Refused(f"{path} exists already and is not overwritten; use another folder") from None
    print(f"{path}: write {words.name}, then: python3 {os.path.relpath(sys.argv[0])} check {path}")
    return 0


def limits(seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def judged(name, path):
    """The verdict on a file, its printed text and the size of that."""
    seconds = compiled.call_seconds()
    longest = WALL_SECONDS + seconds
    read, write = os.pipe()
    with tempfile.TemporaryFile() as printed:
        command = [sys.executable, "-B", str(PLACE / "judge" / "child.py"), name, str(path), str(write)]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, pass_fds=(write,),
                                 preexec_fn=lambda: limits(seconds), env=env, start_new_session=True)
        os.close(write)
        try:
            code = child.wait(longest)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            code = child.wait()
            hung = f"no result after {longest} s (the solution takes one); look for an endless wait"
        else:
            hung = (f"no result after {seconds} s of CPU time (the solution takes one); "
                    f"look for an endless loop")
        with os.fdopen(read, "rb") as pipe:
            text = pipe.read(LARGEST).decode(errors="replace")
        size = printed.seek(0, os.SEEK_END)
        printed.seek(0)
        said = printed.read(SHOWN).decode(errors="replace")
    try:
        verdict = json.loads(text)
    except ValueError:
        if code in (-9, -24):
            verdict = {"status": "hung", "text": hung}
        else:
            verdict = {
                "status": "ended",
                "text": f"the process ended with exit code {code} and without a result; return one"
            }
    return verdict, said, size


def numpy_elsewhere():
    """How to get numpy: the system's interpreter if it has it, otherwise its installation."""
    system = "/usr/bin/python3"
    if sys.executable != system and pathlib.Path(system).is_file():
        if subprocess.run([system, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return f"run it with {system}, which has it"
    return f"install it for that, or python3-numpy for {system}"


def check(words):
    path = words.file
    name, cpp = words.name or path.stem, path.suffix in (".cpp", ".cc", ".cxx")
    if name not in names(cpp):
        raise Refused(
            f"{path.name} is not named after a {'C++ ' * cpp}puzzle; add --name NAME, one of "
            f"{', '.join(names(cpp))}")
    if not path.is_file():
        raise Refused(
            f"{path} is not a file; notebooks/puzzle start {'--cpp ' * cpp}{name} writes a "
            f"template")
    if not (cpp and compiled.by_program(name)) and importlib.util.find_spec("numpy") is None:
        print(f"numpy cannot be imported by {sys.executable}; {numpy_elsewhere()}", file=sys.stderr)
        return 3
    if cpp:
        with tempfile.TemporaryDirectory() as folder:
            verdict, said, size = compiled.judged(name, path.resolve(), folder, judged)
    else:
        verdict, said, size = judged(name, path.resolve())
    if said:
        print("".join(f"| {line}\n" for line in said.splitlines()[:20]), end="")
    if size > SHOWN:
        print(f"| ... {size:,} bytes were printed, of which {SHOWN:,} are shown")
    if verdict["status"] == "pass":
        print(f"correct: {name}, {verdict['text']}")
        remember(path.parent, name + ".cpp" * cpp, solved=True)
    else:
        single = "\n" not in verdict["text"]
        print(f"FAIL {name}: {verdict['text']}" if single else f"FAIL {name}\n{verdict['text']}")
    return EXIT[verdict["status"]]


def hint(words):
    file = known_name(words)
    hints = of_puzzle(file, "hints.txt").read_text().strip().split("\n\n")
    seen = progress_of(words.folder).get(key_of(file), {}).get("hints", 0)
    seen = min(seen + 1, len(hints)) if isinstance(seen, int) and seen >= 0 else 1
    print("\n\n".join(f"hint {number} of {len(hints)}: {hints[number - 1]}" for number in range(1, seen + 1)))
    remember(words.folder, key_of(file), hints=seen)
    return 0


def solution(words):
    file = known_name(words)
    if not progress_of(words.folder).get(key_of(file), {}).get("solved"):
        raise Refused(
            f"{words.name} is not solved in {words.folder} (solutions are for comparison); "
            f"solve it first, or request a hint")
    print(of_puzzle(file, f"solution{pathlib.Path(file).suffix}").read_text(), end="")
    return 0


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="puzzle", description="functions of a sharded optimizer, checked bit by bit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | start | check | hint | solution")
    for run, about in ((list_puzzles,
                        "the puzzles and your progress"), (start, "writes a template NAME.py"),
                       (hint, "the next hint"), (solution, "the solution of a solved puzzle")):
        command = commands.add_parser(run.__name__.split("_")[0], help=about, description=about)
        if run is not list_puzzles:
            command.add_argument("name", metavar="NAME")
            command.add_argument("--cpp", action="store_true", help="in C++, with the contract's own signature")
        command.add_argument("folder", metavar="FOLDER", nargs="?", type=pathlib.Path, default=pathlib.Path("."),
                             help="the folder of your files (default: .)")
        command.set_defaults(run=run)
    command = commands.add_parser("check", help="judges a file", description="judges a file")
    command.add_argument("file", metavar="FILE", type=pathlib.Path)
    command.add_argument("--name", metavar="NAME", help="the puzzle, if the file has another name")
    command.set_defaults(run=check)
    if "--cpp" in arguments[1:]:  # first, because argparse accepts no FOLDER after NAME --cpp
        arguments = [arguments[0], "--cpp", *(word for word in arguments[1:] if word != "--cpp")]
    words = parser.parse_args(arguments)
    try:
        return words.run(words)
    except compiled.Missing as error:
        print(f"puzzle: {error}", file=sys.stderr)
        return 3
    except (Refused, OSError) as error:
        if isinstance(error, OSError):
            error = f"{error.filename}: {error.strerror}"
        print(f"puzzle: {error}", file=sys.stderr)
        return 2
