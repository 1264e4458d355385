"""Shared code of the lessons: running programs, numbers and their bits, tables, claims, figures.

Needs Python 3.9 or later, numpy, matplotlib and a build of zeroproof in build/ or in $ZP_BUILD.
"""

import base64
import importlib.util
import json
import os
import pathlib
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


require("numpy", "matplotlib")
import numpy as np  # noqa: E402  (after the check above)

from zp_numbers import *  # noqa: E402, F403  (part of this interface)
from zp_numbers import tensors  # noqa: E402

# ---------------------------------------------------------------- programs


def program(name="zeroproof"):
    """The path of a program of the build; exits with 3 if it is not built."""
    path = BUILD / name
    if not path.is_file():
        stop(f"{path} does not exist; run ./verification/run"
             + ("" if name == "zeroproof" else f", then cmake --build build --target {name},") + " first", 3)
    return str(path)


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


def verify(*words, fault="", config=""):
    """The report of `zeroproof verify words...` (schema zeroproof-report/2). `config` is the text of a TOML file."""
    with tempfile.TemporaryDirectory() as folder:
        name, words = _of(("verify", *words), fault, config, folder)
        report = pathlib.Path(folder, "report.json")
        run(*words, "--report", f"json:{report}", name=name, may_end_with=(0, 1))
        return json.loads(report.read_text())


def train(*words, fault="", config=""):
    """One dictionary for every step of `zeroproof train words...`: step, loss, grad_norm, sums, ..."""
    with tempfile.TemporaryDirectory() as folder:
        name, words = _of(("train", *words), fault, config, folder)
        log = pathlib.Path(folder, "log.jsonl")
        run(*words, "--log", log, name=name)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def trained(*words, fault="", config=""):
    """Master weights, state and parameters after the last step of `zeroproof train words...`."""
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


def table(header, *rows):
    """Prints rows below a header: the first column left-aligned, the others right-aligned."""
    lines = [[str(word) for word in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        cells = [word.rjust(width) for word, width in zip(line, widths)]
        print("  ".join([line[0].ljust(widths[0]), *cells[1:]]).rstrip())


def given(name, value, wrong):
    """The input of claim `name`: `value`, or `wrong` if a test sets ZP_FALSIFY=name."""
    return wrong if os.environ.get("ZP_FALSIFY") == name else value


def claim(name, holds, text):
    """Prints that a claim holds, or ends the lesson with an error if it does not."""
    if not (isinstance(holds, (bool, np.bool_)) and holds):
        stop(f"claim {name} does not hold: {text}", 1)
    print(f"claim {name} holds: {text}")


def sealed(text):
    """The name of a planted fault, decoded from base64, which prevents reading it by accident."""
    return base64.b64decode(text).decode()


def answer(text, seal):
    """The verdict on the learner's answer; "" means no answer yet."""
    if not text:
        return "no answer yet"
    return "correct" if text == sealed(seal) else "wrong; look at the place and the values again"


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


# ---------------------------------------------------------------- figures


def figure(rows=1, columns=1, height=3.6):
    """A figure 700 pixels wide and its axes; lines differ in brightness and dash pattern."""
    import matplotlib
    import matplotlib.pyplot as plt
    lines = plt.cycler(color=["#000000", "#b34700", "#3a6ea5", "#8a8a8a"], linestyle=["-", "--", "-.", ":"])
    matplotlib.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                                "legend.frameon": False, "axes.prop_cycle": lines})
    return plt.subplots(rows, columns, figsize=(7, height), dpi=100, layout="constrained")


def show(fig, alt):
    """Shows a figure in a notebook, or writes it as a PNG file to the folder $ZP_FIGURES."""
    import io

    import matplotlib.pyplot as plt
    png = io.BytesIO()
    fig.savefig(png, format="png", metadata={"Software": None})
    plt.close(fig)
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.display import Image, display
        display(Image(png.getvalue(), alt=alt))
    elif "ZP_FIGURES" in os.environ:
        pathlib.Path(os.environ["ZP_FIGURES"], pathlib.Path(sys.argv[0]).stem + ".png").write_bytes(png.getvalue())
