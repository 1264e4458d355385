"""C++ puzzles: a learner's function with the contract's own signature, compiled behind a door.

Four doors lead to zeroproof verify --plugin, whose cases of op/* judge the function; four are C functions, which
compiled_cases.py calls in the child process.
"""

import os
import pathlib
import re
import shutil
import subprocess

PLACE = pathlib.Path(__file__).resolve().parent
ROOT = PLACE.parents[2]
DOORS = PLACE / "doors"
FLAGS = ("-std=c++20", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-Wl,-z,defs")
COMPILE_SECONDS, JUDGE_SECONDS = 60, 120
CALL_SECONDS = "5"  # unless ZP_PUZZLE_SECONDS says how long a function may take on this machine

# name: header and signature of the contract; kinds of numbers of op/* that are tried, if that judges it.
PUZZLES = {
    "grad_sum": ("common/contracts/grad_sum.hpp", "GradSumFn", None),
    "maximal_nodes": ("common/contracts/grad_sum.hpp", "MaximalNodesFn", None),
    "adamw_update": ("common/contracts/adam.hpp", "AdamwUpdateFn", ("training", "special")),
    "loss_scaler_update": ("common/contracts/loss_scaler.hpp", "LossScalerUpdateFn", ("sweep",)),
    "clip_coef": ("common/contracts/clip.hpp", "ClipCoefFn", ("sweep",)),
    "grad_norm_exact_accumulate": ("common/contracts/grad_norm.hpp", "GradNormExactAccumulateFn", None),
    "cast_to_bf16": ("common/contracts/cast.hpp", "CastToBf16Fn", ("wide", "ties", "subnormal", "special")),
    "shard_map": ("notebooks/puzzles/judge/doors/shard_map.hpp", "ShardMapFn", None),
}


def by_program(name):
    """Whether zeroproof verify judges it."""
    return PUZZLES[name][2] is not None


class Missing(Exception):
    """Something this machine does not have: one sentence, exit 3."""


class Refused(Exception):
    """What was asked cannot be done: one sentence."""


def call_seconds():
    said = os.environ.get("ZP_PUZZLE_SECONDS") or CALL_SECONDS
    if not re.fullmatch("[1-9][0-9]{0,3}", said):
        raise Refused(f"ZP_PUZZLE_SECONDS is '{said}' (a function has so many seconds to answer); use a whole number "
                      f"from 1 to 9999")
    return int(said)


def compiler():
    found = shutil.which(os.environ.get("CXX") or "c++")
    if found is None:
        raise Missing("there is no C++ compiler (a C++ puzzle is compiled before it is judged); install g++, or name "
                      "one in CXX")
    return found


def judge_program():
    path = pathlib.Path(os.environ.get("ZP_BUILD", ROOT / "build"), "zeroproof")
    if not path.is_file():
        raise Missing(f"{path} is not there (its cases judge this puzzle); run ./verification/run first")
    return path


def complaint(name, path, log):
    """What the compiler found, with the learner's line."""
    signature = PUZZLES[name][1]
    if "undefined reference" in log and f"mine::{name}(" in log:
        return (f"the file has no function zeroproof::mine::{name} with the arguments of {signature} (it is what is "
                f"judged); notebooks/puzzle start --cpp {name} writes one to begin with")
    errors = re.findall(r"^(.*?):(\d+):\d+: (?:fatal )?error: (.*)$", log, re.MULTILINE)
    own = [(line, text) for file, line, text in errors if file == str(path)]
    through = re.findall(rf"^{re.escape(str(path))}:(\d+):\d+:", log, re.MULTILINE)
    if own:
        at, text = own[0]
    elif errors:
        at, text = (through[0] if through else None), errors[0][2]
    else:
        lines = [line for line in log.splitlines() if line.strip()]
        undefined = [line for line in lines if "undefined reference" in line]
        at, text = None, (undefined or lines or ["the compiler said nothing"])[0].split(": ", 1)[-1]
    more = f", and {len(own) - 1} more" if len(own) > 1 else ""
    return (f"the file does not compile{f' at line {at}' if at else ''}: {text.strip()[:300]}{more} (nothing of it was "
            f"run); mend it")


def build(name, path, folder):
    """The path of the shared library, or why there is none as (None, sentence)."""
    header, signature, _ = PUZZLES[name]
    declared, library = pathlib.Path(folder, "declared.hpp"), pathlib.Path(folder, f"lib{name}.so")
    declared.write_text(f'#include "{header}"\nnamespace zeroproof::mine {{ {signature} {name}; }}\n')
    command = [compiler(), *FLAGS, "-I", str(ROOT), "-I", str(ROOT / "verification" / "interfaces" / "capi"), "-I", str(DOORS),
               "-include", str(declared), "-include", str(path), str(DOORS / f"{name}.cpp"), "-o", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        return None, f"compiling took more than {COMPILE_SECONDS} s (nothing was run); look for what has no end"
    return (library, "") if done.returncode == 0 else (None, complaint(name, path, done.stderr))


STATUS = {0: "pass", 1: "fail", 5: "hung", 6: "ended", 9: "error"}


def through_the_door(name, library):
    """The verdict of zeroproof verify --plugin on an operation, in its own words."""
    patterns = [f"op/{name}/plugin/mine/fill:{fill}" for fill in PUZZLES[name][2]]
    command = [str(judge_program()), "verify", *patterns, "--plugin", str(library), "--plugin-timeout",
               str(call_seconds())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=JUDGE_SECONDS,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {"status": "hung", "text": f"no verdict after {JUDGE_SECONDS} s (a right one takes two); look for a "
                                          "loop without end"}
    row = re.search(rf"^{name} +\w+ +(\d+) +([\d,]+) ", done.stdout, re.MULTILINE)
    if done.returncode not in STATUS or row is None:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
        raise Missing(f"zeroproof verify could not judge it: {said[-1][:300]}")
    if done.returncode == 0:
        return {"status": "pass", "text": f"{row[1]} cases of op/{name}, {row[2]} results, every bit"}
    found = re.search(r"^[A-Z]+ op/.*\n((?:  .*\n)*)", done.stdout, re.MULTILINE)
    lines = [line for line in (found[1] if found else done.stdout).splitlines() if not line.startswith("  replay")]
    return {"status": STATUS[done.returncode], "text": "\n".join(lines)}


def judged(name, path, folder, in_child):
    """The verdict on a C++ file, and what it printed. `in_child` runs a library that is judged in the child process."""
    if by_program(name):
        judge_program()
    library, why = build(name, path, folder)
    if library is None:
        return {"status": "refused", "text": why}, "", 0
    return (through_the_door(name, library), "", 0) if by_program(name) else in_child(name, library)
