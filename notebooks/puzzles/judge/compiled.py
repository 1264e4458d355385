"""C++ puzzles: a learner's function with the contract's own signature, compiled with a wrapper.

Four wrappers are plug-ins for zeroproof verify --plugin, whose cases of op/* judge the function;
four are C functions, which compiled_cases.py calls in the child process.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

PLACE = pathlib.Path(__file__).resolve().parent
ROOT = PLACE.parents[2]
WRAPPERS = PLACE / "wrappers"
FLAGS = ("-std=c++20", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-Wl,-z,defs")
COMPILE_SECONDS, JUDGE_SECONDS = 60, 120
CALL_SECONDS = "5"  # for one function, unless ZP_PUZZLE_SECONDS is set

# name: header and signature of the contract; fills of op/* if its cases judge the function.
PUZZLES = {
    "grad_sum": ("common/contracts/grad_sum.hpp", "GradSumFn", None),
    "maximal_nodes": ("common/contracts/grad_sum.hpp", "MaximalNodesFn", None),
    "adamw_update": ("common/contracts/adam.hpp", "AdamwUpdateFn", ("training", "special")),
    "loss_scaler_update": ("common/contracts/loss_scaler.hpp", "LossScalerUpdateFn", ("sweep",)),
    "clip_coef": ("common/contracts/clip.hpp", "ClipCoefFn", ("sweep",)),
    "grad_norm_exact_accumulate": ("common/contracts/grad_norm.hpp", "GradNormExactAccumulateFn", None),
    "cast_to_bf16": ("common/contracts/cast.hpp", "CastToBf16Fn", ("wide", "ties", "subnormal", "special")),
    "shard_map": ("notebooks/puzzles/judge/wrappers/shard_map.hpp", "ShardMapFn", None),
}


def by_program(name):
    """Whether zeroproof verify judges this puzzle."""
    return PUZZLES[name][2] is not None


class Missing(Exception):
    """A missing program or compiler: one sentence, exit 3."""


class Refused(Exception):
    """An invalid command line or setting: one sentence, exit 2."""


def call_seconds():
    said = os.environ.get("ZP_PUZZLE_SECONDS") or CALL_SECONDS
    if not re.fullmatch("[1-9][0-9]{0,3}", said):
        raise Refused(f"ZP_PUZZLE_SECONDS must be an integer from 1 to 9999, got '{said}'")
    return int(said)


def compiler():
    found = shutil.which(os.environ.get("CXX") or "c++")
    if found is None:
        raise Missing("no C++ compiler found; install g++, or set CXX")
    return found


def judge_program():
    built = pathlib.Path(os.environ.get("ZP_BUILD", ROOT / "build"), "zeroproof")
    places = (built, pathlib.Path(sys.executable).parent / "zeroproof", shutil.which("zeroproof") or "")
    found = [path for path in map(pathlib.Path, places) if path.is_file()]
    if not found:
        raise Missing(f"neither {built} nor a zeroproof on PATH exists (it judges this puzzle); pip install zproof, or "
                      "run ./verification/run")
    return found[0]


def complaint(name, path, log):
    """The compiler's first error, with the line of the learner's file."""
    signature = PUZZLES[name][1]
    if "undefined reference" in log and f"mine::{name}(" in log:
        return (
            f"the file has no function zeroproof::mine::{name} with the arguments of {signature}; "
            f"notebooks/puzzle start --cpp {name} writes a template")
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
        at, text = None, (undefined or lines or ["no message of the compiler"])[0].split(": ",
                                                                                         1)[-1]
    more = f", and {len(own) - 1} more" if len(own) > 1 else ""
    return f"the file does not compile{f' at line {at}' if at else ''}: {text.strip()[:300]}{more}"


def build(name, path, folder):
    """(path of the shared library, ""), or (None, the reason)."""
    header, signature, _ = PUZZLES[name]
    declared, library = pathlib.Path(folder, "declared.hpp"), pathlib.Path(folder, f"lib{name}.so")
    declared.write_text(f'#include "{header}"\nnamespace zeroproof::mine {{ {signature} {name}; }}\n')
    command = [compiler(), *FLAGS, "-I", str(ROOT), "-I", str(ROOT / "verification" / "interfaces" / "capi"), "-I",
               str(WRAPPERS), "-include", str(declared), "-include", str(path), str(WRAPPERS / f"{name}.cpp"), "-o",
               str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        return None, f"compiling took more than {COMPILE_SECONDS} s; look for endless templates"
    return (library, "") if done.returncode == 0 else (None, complaint(name, path, done.stderr))


STATUS = {0: "pass", 1: "fail", 5: "hung", 6: "ended", 9: "error"}


def judged_by_program(name, library):
    """The verdict of zeroproof verify --plugin on an operation, as it prints it."""
    patterns = [f"op/{name}/plugin/mine/fill:{fill}" for fill in PUZZLES[name][2]]
    command = [str(judge_program()), "verify", *patterns, "--plugin", str(library), "--second-seed", "2",
               "--plugin-timeout", str(call_seconds())]  # one seed, so that a hint stays where it was
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=JUDGE_SECONDS,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {"status": "hung", "text": f"no verdict after {JUDGE_SECONDS} s (the solution takes two)"}
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
    """The verdict on a C++ file, and its printed text. `in_child` judges in the child process."""
    if by_program(name):
        judge_program()
    library, why = build(name, path, folder)
    if library is None:
        return {"status": "refused", "text": why}, "", 0
    return (judged_by_program(name, library), "",
            0) if by_program(name) else in_child(name, library)
