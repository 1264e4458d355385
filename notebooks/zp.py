"""What the lessons share: programs and what they print, numbers and their bits, tables, claims, figures.

Needs Python 3.9 or later, numpy, matplotlib and a build of zeroproof; ZP_BUILD names another folder than build/.
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
    """Says why the lesson cannot go on, and ends it."""
    print(sentence, file=sys.stderr, flush=True)
    raise SystemExit(code)


def remedy(missing):
    """How to come to packages: by the system's interpreter, if that one has them and another stands before it."""
    system = "/usr/bin/python3"
    if sys.executable != system and pathlib.Path(system).is_file():
        if subprocess.run([system, "-c", f"import {', '.join(missing)}"], stderr=subprocess.DEVNULL).returncode == 0:
            return f"run it with {system}, which has {'it' if len(missing) == 1 else 'them'}"
    return f"install them for it, or {' '.join(f'python3-{name}' for name in missing)} for {system}"


def require(*modules):
    """Ends with 3 if this interpreter does not have one of these packages."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        stop(f"{' and '.join(missing)} cannot be imported by {sys.executable} (lessons compute and draw with them); "
             f"{remedy(missing)}", 3)


require("numpy", "matplotlib")
import numpy as np  # noqa: E402  (what is missing is said above)

from zp_numbers import *  # noqa: E402, F403  (the lessons' other half)
from zp_numbers import tensors  # noqa: E402

# ---------------------------------------------------------------- programs


def program(name="zeroproof"):
    """The path of a program of the build; ends with 3 if it is not built."""
    path = BUILD / name
    if not path.is_file():
        stop(f"{path} is not there (lessons show what it prints); run ./verification/run"
             + ("" if name == "zeroproof" else f", then cmake --build build --target {name},") + " first", 3)
    return str(path)


def run(*words, name="zeroproof", may_end_with=(0,)):
    """Standard output of `name words...`. Another exit code than these ends the lesson with what the program said."""
    done = subprocess.run([program(name), *map(str, words)], capture_output=True, text=True)
    if done.returncode not in may_end_with:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        stop(f"{name} {words[0]} ended with {done.returncode} (the lesson needs its numbers); it said: "
             + (said[-1] if said else "nothing"), 1)
    return done.stdout


def _of(words, fault, config, folder):
    """The program that plants `fault`, and the words with what the settings of this run add to them."""
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
    """What a command writes with `--json FILE`: plan, trace, diff, list --coverage."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.json")
        run(*words, "--json", path, name=name)
        return json.loads(path.read_text())


def file_of(*words, option="", name="zeroproof", may_end_with=(0,)):
    """The safetensors file a command writes as its last word, or behind `option`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.safetensors")
        run(*words, *([option] if option else []), path, name=name, may_end_with=may_end_with)
        return tensors(path)


# ---------------------------------------------------------------- what a lesson says


def table(header, *rows):
    """Prints rows below a header: the first column to the left, numbers to the right."""
    lines = [[str(word) for word in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        cells = [word.rjust(width) for word, width in zip(line, widths)]
        print("  ".join([line[0].ljust(widths[0]), *cells[1:]]).rstrip())


def given(name, value, wrong):
    """`value`, which claim `name` is about. A test that has to see the claim fail (ZP_FALSIFY=name) gets `wrong`."""
    return wrong if os.environ.get("ZP_FALSIFY") == name else value


def claim(name, holds, text):
    """Says that a claim holds, or ends the lesson with the one that does not."""
    if not (isinstance(holds, (bool, np.bool_)) and holds):
        stop(f"claim {name} does not hold: {text}", 1)
    print(f"claim {name} holds: {text}")


def sealed(text):
    """A name that is not to be read by accident, in base64: the fault a lesson plants and the learner has to find."""
    return base64.b64decode(text).decode()


def answer(text, seal):
    """Whether the learner found what is sealed: "" is no answer yet."""
    if not text:
        return "no answer yet"
    return "right" if text == sealed(seal) else "not that one; look at the place and at the values again"


def place(case):
    """Where a case first differs, as verify prints it, without the hint."""
    first = case["divergence"]
    if first["what"] and not first["compared"]:  # seen while layers ran: there is no buffer to count in
        said = first["what"].replace(": got", "\n  got ").replace(", want", "\n  want")
        return f"step {first['step']}  phase {first['phase']}  rank {first['rank']}  buffer {first['buffer']}\n  {said}"
    named = first["parameter"] + first["coordinates"]
    where = f"element {named}" if named else f"index {first['shard_index']}"
    return (f"step {first['step']}  phase {first['phase']}  rank {first['rank']}  buffer {first['buffer']}  {where}\n"
            f"  got  {first['candidate']}\n  want {first['reference']}\n"
            f"  {first['differing']:,} of {first['compared']:,} elements of this buffer on this rank differ")


# ---------------------------------------------------------------- figures


def figure(rows=1, columns=1, height=3.6):
    """A figure of 700 pixels and its axes, whose lines differ in grey and in stroke."""
    import matplotlib
    import matplotlib.pyplot as plt
    lines = plt.cycler(color=["#000000", "#b34700", "#3a6ea5", "#8a8a8a"], linestyle=["-", "--", "-.", ":"])
    matplotlib.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                                "legend.frameon": False, "axes.prop_cycle": lines})
    return plt.subplots(rows, columns, figsize=(7, height), dpi=100, layout="constrained")


def show(fig, alt):
    """Shows a figure in a notebook, or keeps it as a PNG file in the folder that ZP_FIGURES names."""
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
