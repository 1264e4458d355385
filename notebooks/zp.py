"""Shared code of the lessons: running programs, numbers and their bits, tables, claims.

Needs Python 3.9 or later, numpy, matplotlib and the program zeroproof: in build/ or in $ZP_BUILD,
next to the interpreter (`pip install zproof`), or on PATH.
"""

import html
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(os.path.abspath(__file__)).parent
BUILD = pathlib.Path(os.environ.get("ZP_BUILD", HERE.parent / "build"))


def stop(sentence, code):
    """Prints the sentence to standard error and exits with this code."""
    print(sentence, file=sys.stderr, flush=True)
    raise SystemExit(code)


def remedy(missing):
    """How to get the packages: the system's interpreter if it has them, else installation."""
    system = "/usr/bin/python3"
    if sys.executable != system and pathlib.Path(system).is_file():
        if subprocess.run([system, "-c", f"import {', '.join(missing)}"], stderr=subprocess.DEVNULL).returncode == 0:
            return f"run it with {system}, which has {'it' if len(missing) == 1 else 'them'}"
    return f"install them for it, or {' '.join(f'python3-{name}' for name in missing)} for {system}"


def require(*modules):
    """Exits with 3 if this interpreter lacks one of these packages."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        stop(f"{names} cannot be imported by {sys.executable}; {remedy(missing)}", 3)


def require_temporary_folder():
    """Exits with 3 if no folder for the files of programs, and for matplotlib's, can be written."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        stop("no folder for temporary files can be written (programs leave their results in one); set TMPDIR", 3)


require("numpy", "matplotlib")
require_temporary_folder()
import numpy as np  # noqa: E402  (after the check above)

import zp_blanks  # noqa: E402, F401  (part of this interface, like the next ones)
from zp_blanks import Blanks  # noqa: E402, F401
from zp_draw import show  # noqa: E402, F401
from zp_numbers import *  # noqa: E402, F403
from zp_numbers import tensors  # noqa: E402
from zp_recorded import digest, fault_called, planted_or_recorded  # noqa: E402

# ---------------------------------------------------------------- programs


def found(name):
    """The path of a program: of the build, of the installed package, or on PATH; "" if there is none."""
    places = (BUILD / name, pathlib.Path(sys.executable).parent / name, shutil.which(name) or "", *_of_package(name))
    return next((str(path) for path in places if pathlib.Path(path).is_file()), "")


def _of_package(name):
    """The files of this name that `pip install zproof` wrote, wherever it writes programs."""
    try:
        files = importlib.metadata.files("zproof") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    return [pathlib.Path(file.locate()) for file in files if file.name == name]


def program(name="zeroproof"):
    """The path of a program; exits with 3 if there is none."""
    path = found(name)
    if not path:
        how = "pip install zproof, or build it: ./verification/run" if name == "zeroproof" else (
            f"build it: ./verification/run, then cmake --build build --target {name}")
        stop(f"{name} is neither in {BUILD} nor on PATH; {how}", 3)
    return path


def run(*words, name="zeroproof", may_end_with=(0,)):
    """Standard output of `name words...`. Ends the lesson at another exit code."""
    done = subprocess.run([program(name), *map(str, words)], capture_output=True, text=True)
    if done.returncode not in may_end_with:
        message = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no output"]
        stop(f"{name} {words[0]} exited with {done.returncode}: {message[-1]}", 1)
    return done.stdout


def _of(words, fault, config, folder):
    """The program for this fault, and the arguments with fault and settings added."""
    words = list(words)
    if fault:
        words += ["--fault", fault]
    if config:
        path = pathlib.Path(folder, "settings.toml")
        path.write_text(config)
        words[1:1] = [path] if words[0] == "train" else ["--config", path]
    return "zeroproof-faults" if fault else "zeroproof", words


def verify(*words, fault="", config="", program=""):
    """The report of `zeroproof verify words...` (schema zeroproof-report/2), whatever the verdict.

    `config` is the text of a TOML file. `program` runs instead of zeroproof or zeroproof-faults.
    """
    fault = fault_called(fault)

    def make():
        with tempfile.TemporaryDirectory() as folder:
            name, given = _of(("verify", *words), fault, config, folder)
            report = pathlib.Path(folder, "report.json")
            run(*given, "--report", f"json:{report}", name=program or name, may_end_with=(0, 1, 9))
            return json.loads(report.read_text())
    name = program or ("zeroproof-faults" if fault else "zeroproof")
    return planted_or_recorded(name, ("verify", *words, fault, config), make)


def train(*words, fault="", config=""):
    """One dictionary for every step of `zeroproof train words...`: step, loss, grad_norm, sums, ..."""
    fault = fault_called(fault)

    def make():
        with tempfile.TemporaryDirectory() as folder:
            name, given = _of(("train", *words), fault, config, folder)
            log = pathlib.Path(folder, "log.jsonl")
            run(*given, "--log", log, name=name)
            steps = [line for line in map(json.loads, log.read_text().splitlines()) if "loss" in line]
        for step in steps:  # one digest of a buffer, instead of one per tensor
            step["sums"] = {buffer: digest(" ".join(of)) for buffer, of in step.get("sums", {}).items()}
        return steps
    name = "zeroproof-faults" if fault else "zeroproof"
    return planted_or_recorded(name, ("train", *words, fault, config), make)


def trained(*words, fault="", config=""):
    """Master weights, state and parameters after the last step of `zeroproof train words...`."""
    fault = fault_called(fault)
    with tempfile.TemporaryDirectory() as folder:
        name, words = _of(("train", *words), fault, config, folder)
        return file_of(*words, option="--dump", name=name)


def json_of(*words, name="zeroproof"):
    """The JSON that a command writes with `--json FILE`: plan, trace, diff, list --coverage."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.json")
        run(*words, "--json", path, name=name)
        return json.loads(path.read_text())


def file_of(*words, option="", name="zeroproof", may_end_with=(0,)):
    """The safetensors file that a command writes to its last argument, or to that of `option`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.safetensors")
        run(*words, *([option] if option else []), path, name=name, may_end_with=may_end_with)
        return tensors(path)


# ---------------------------------------------------------------- output of a lesson


def notebook():
    """Whether the lesson runs in Jupyter."""
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None


def text_of_table(lines):
    """Rows as aligned text: the first column left-aligned, the others right-aligned."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    aligned = [[line[0].ljust(widths[0]), *[word.rjust(width) for word, width in zip(line[1:], widths[1:])]]
               for line in lines]
    return "\n".join("  ".join(cells).rstrip() for cells in aligned)


def html_of_table(lines):
    """Rows as an HTML table whose numbers do not wrap on a narrow screen."""
    def row(words, tag):
        return "<tr>" + "".join(
            f'<{tag} style="text-align:{"right" if i else "left"};white-space:{"normal" if tag == "th" else "nowrap"}">'
            f"{html.escape(word)}</{tag}>" for i, word in enumerate(words)) + "</tr>"
    body = "\n".join([row(lines[0], "th"), *[row(line, "td") for line in lines[1:]]])
    return f'<div style="overflow-x:auto"><table>\n{body}\n</table></div>'


def table(header, *rows):
    """Shows rows below a header: as a table in Jupyter, as aligned text otherwise."""
    lines = [[str(word) for word in line] for line in (header, *rows)]
    if notebook():
        from IPython.display import display
        display({"text/plain": text_of_table(lines), "text/html": html_of_table(lines)}, raw=True)
    else:
        print(text_of_table(lines))


def claim(name, holds, text):
    """Prints that a claim holds, or ends the lesson with an error if it does not."""
    if not (isinstance(holds, (bool, np.bool_)) and holds):
        stop(f"claim {name} does not hold: {text}", 1)
    print(f"claim {name} holds: {text}")


def guess(fault, answer):
    """Prints the verdict on the reader's answer about a fault without a name; "" is no answer yet."""
    known = "correct" if answer == fault_called(fault) else "wrong; look at the place and the values again"
    print(f"{fault}: {known if answer else 'no answer yet'}")


def place(case):
    """The first difference of a case, in the form of verify, without the hint."""
    first = case["divergence"]
    if first["what"] and not first["compared"]:  # found while layers ran: no buffer was compared
        text = first["what"].replace(": got", "\n  got ").replace(", want", "\n  want")
        return (f"step {first['step']}  phase {first['phase']}  rank {first['rank']}  "
                f"buffer {first['buffer']}\n  {text}")
    named = first["parameter"] + first["coordinates"]
    where = f"element {named}" if named else f"index {first['shard_index']}"
    return (f"step {first['step']}  phase {first['phase']}  rank {first['rank']}  buffer {first['buffer']}  {where}\n"
            f"  got  {first['candidate']}\n  want {first['reference']}\n"
            f"  {first['differing']:,} of {first['compared']:,} elements of this buffer on this rank differ")
