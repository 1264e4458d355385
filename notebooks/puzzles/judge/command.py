"""puzzle list, next, start, check, watch, hint, solution."""

import argparse
import difflib
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
from judge.rules import rules_of
from judge.watch import watch

PLACE = pathlib.Path(__file__).resolve().parent.parent
#: in the suggested order, that of the lessons; those in C++ follow
NAMES = ("add_tree", "maximal_nodes", "adamw", "loss_scaler", "unscale", "clip", "shard_map", "reduce", "schedule",
         "groups", "reshard", "repair", "muon")
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
        near = difflib.get_close_matches(words.name, names(words.cpp), 1)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(names(words.cpp))}"
        raise Refused(f"unknown puzzle '{words.name}'; {hint}")
    return words.name + (".cpp" if words.cpp else ".py")


def of_puzzle(name, file):
    """A file of a puzzle: its starter, hints, solution."""
    return (PLACE / "cpp" / name if name.endswith(".cpp") else PLACE / name).with_suffix("") / file


def key_of(file):
    """The key of a file in the progress."""
    return file if file.endswith(".cpp") else pathlib.Path(file).stem


def every_file():
    """The learner's files of all puzzles, in the suggested order."""
    return [f"{name}.py" for name in NAMES] + [f"{name}.cpp" for name in compiled.PUZZLES]


def question_of(file):
    return of_puzzle(file, f"starter{pathlib.Path(file).suffix}").read_text().splitlines()[0].strip('"/ ')


def unsolved(folder):
    """Files that are not solved, in the suggested order."""
    known = progress_of(folder)
    return [file for file in every_file() if not known.get(key_of(file), {}).get("solved")]


def progress_line(folder):
    left, total = unsolved(folder), len(every_file())
    return f"{total - len(left)} of {total} solved" + (f"; next: {key_of(left[0])}" if left else "")


def list_puzzles(words):
    left = unsolved(words.folder)
    for file in every_file():
        state = "solved" if file not in left else "started" if (words.folder / file).exists() else "not started"
        print(f"{key_of(file):{14 if file.endswith('.py') else 30}} {state:12} {question_of(file)}")
    print(progress_line(words.folder))
    return 0


def show_next(words):
    left, this = unsolved(words.folder), f"python3 {os.path.relpath(sys.argv[0])}"
    if left:
        file, path = left[0], words.folder / left[0]
        cpp = "--cpp " * file.endswith(".cpp")
        command = f"check {path}" if path.exists() else f"start {pathlib.Path(file).stem} {cpp}{words.folder}"
        print(f"{key_of(file)}: {question_of(file)}\n{this} {command}")
    print(progress_line(words.folder).split(";")[0])
    return 0


def with_rules(text, name):
    """A text, and the passages of the contract that a puzzle is about."""
    rules = rules_of(name)
    return text + (f"\n\n{rules}" if rules else "")


def start(words):
    path = words.folder / known_name(words)
    if not words.folder.is_dir():
        raise Refused(f"{words.folder} is not a folder; create it first")
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(of_puzzle(path.name, f"starter{path.suffix}").read_text())
    except FileExistsError:
        raise Refused(f"{path} exists already and is not overwritten; use another folder") from None
    this = f"python3 {os.path.relpath(sys.argv[0])}"
    print(with_rules(f"{path}: write {words.name}, then: {this} check {path}", words.name))
    return 0


def limits(seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end(child):
    os.killpg(child.pid, 9)
    child.wait()


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
            end(child)
            code = child.returncode
            hung = f"no result after {longest} s (the solution takes one); look for an endless wait"
        except KeyboardInterrupt:  # the child has a session of its own
            end(child)
            os.close(read)
            raise
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


def checked_file(words):
    """The puzzle of a file and whether it is one in C++."""
    path = words.file
    name, cpp = words.name or path.stem, path.suffix in (".cpp", ".cc", ".cxx")
    if name not in names(cpp):
        if words.name:
            words.cpp = cpp
            known_name(words)
        raise Refused(f"cannot tell which {'C++ ' * cpp}puzzle {path.name} is for; add --name NAME, one of "
                      f"{', '.join(names(cpp))}")
    if not path.is_file():
        raise Refused(
            f"{path} is not a file; notebooks/puzzle start {'--cpp ' * cpp}{name} writes a "
            f"template")
    if not (cpp and compiled.by_program(name)) and importlib.util.find_spec("numpy") is None:
        raise compiled.Missing(f"numpy cannot be imported by {sys.executable}; {numpy_elsewhere()}")
    return name, cpp


def verdict_on(words, name, cpp):
    """The exit code of a check, and its lines."""
    path = words.file
    if cpp:
        with tempfile.TemporaryDirectory() as folder:
            verdict, said, size = compiled.judged(name, path.resolve(), folder, judged)
    else:
        verdict, said, size = judged(name, path.resolve())
    lines = [f"| {line}" for line in said.splitlines()[:20]]
    if size > SHOWN:
        lines.append(f"| ... {size:,} bytes were printed, of which {SHOWN:,} are shown")
    if verdict["status"] == "pass":
        remember(path.parent, name + ".cpp" * cpp, solved=True)
        lines += [f"correct: {name}, {verdict['text']}", progress_line(path.parent)]
    else:
        between = "\n" if "\n" in verdict["text"] else ": "
        lines += f"FAIL {name}{between}{verdict['text']}".split("\n")
    return EXIT[verdict["status"]], lines


def check(words):
    code, lines = verdict_on(words, *checked_file(words))
    print("\n".join(lines))
    return code


def watch_file(words):
    name, cpp = checked_file(words)
    return watch(words.file, lambda: verdict_on(words, name, cpp)[1])


def hint(words):
    file = known_name(words)
    hints = of_puzzle(file, "hints.txt").read_text().strip().split("\n\n")
    seen = progress_of(words.folder).get(key_of(file), {}).get("hints", 0)
    seen = min(seen + 1, len(hints)) if isinstance(seen, int) and seen >= 0 else 1
    text = "\n\n".join(f"hint {number} of {len(hints)}: {hints[number - 1]}" for number in range(1, seen + 1))
    print(with_rules(text, words.name))
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
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | next | start | check | watch | hint | solution")
    for run, about in ((list_puzzles,
                        "the puzzles and your progress"), (show_next, "the first puzzle that is not solved"),
                       (start, "writes a template NAME.py"), (hint, "the rule and the next hint"),
                       (solution, "the solution of a solved puzzle")):
        word = {list_puzzles: "list", show_next: "next"}.get(run, run.__name__)
        command = commands.add_parser(word, help=about, description=about)
        if word not in ("list", "next"):
            command.add_argument("name", metavar="NAME")
            command.add_argument("--cpp", action="store_true", help="in C++, with the contract's own signature")
        command.add_argument("folder", metavar="FOLDER", nargs="?", type=pathlib.Path, default=pathlib.Path("."),
                             help="the folder of your files (default: .)")
        command.set_defaults(run=run)
    for word, run, about in (("check", check, "judges a file"),
                             ("watch", watch_file, "judges a file whenever it was saved, until Ctrl-C")):
        command = commands.add_parser(word, help=about, description=about)
        command.add_argument("file", metavar="FILE", type=pathlib.Path)
        command.add_argument("--name", metavar="NAME", help="the puzzle, if the file has another name")
        command.set_defaults(run=run)
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
