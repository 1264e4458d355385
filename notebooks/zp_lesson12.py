"""Lesson 12: runs with planted faults, the six checks, the record of all faults, and figures."""

import functools
import json
import math
import pathlib
import re
import tempfile

import zp
import zp_draw as draw

import numpy as np

CHECKS = {"loss": "loss", "sum": "sum", "allclose_1e3": "1e-3", "allclose_1e5": "1e-5", "bits": "bits", "hash": "hash"}
CASE = "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1"
JOB = ("--workload", "byte_gpt_tiny", "--recipe", "adamw", "--dtype", "fp16", "--world", "threads:3", "--stage", 2,
       "--bucket", 4096, "--threads", 1)
SIX = ("?12A", "?12B", "?12C", "?12D", "?12E", "?12F")
RECORDS = zp.HERE.parent / "verification" / "bench" / "records"


def _left_by(fault=""):
    """Results of six steps: masters, 16-bit parameters, and digest, scale and count."""
    with tempfile.TemporaryDirectory() as folder:
        dump, log = pathlib.Path(folder, "dump"), pathlib.Path(folder, "log")
        planted = ("--fault", fault) if fault else ()
        said = zp.run("train", *JOB, "--steps", 6, "--dump", dump, "--log", log, *planted,
                      name="zeroproof-faults" if fault else "zeroproof")
        kept, last = zp.tensors(dump), json.loads(log.read_text().splitlines()[-1])
    master, param = (np.concatenate([kept[name].ravel() for name in kept if name.startswith(kind)])
                     for kind in ("master.", "param."))
    return master, param, (re.search(r"^state (\w+)", said, re.M)[1], last["loss_scale_log2"], last["applied_steps"])


@functools.lru_cache(None)
def losses(fault="", seed=1):
    run = zp.train(*JOB, "--steps", 60, *(("--seed", seed) if seed != 1 else ()), fault=fault)
    return np.array([np.nan if step["loss"] is None else step["loss"] for step in run])


@functools.lru_cache(None)
def spread():
    """The standard deviation of the losses of eight other seeds, in each step."""
    return np.array([losses(seed=seed) for seed in range(2, 10)]).std(axis=0, ddof=1)


@functools.lru_cache(None)
def _right():
    return _left_by()


def noticed(fault, loss_differs, sum_differs):
    """Which of the checks detect a fault. Every comparison with NaN counts as a difference."""
    name = zp.fault_called(fault)

    def make():
        (a, a16, a_state), (b, b16, b_state) = _left_by(name), _right()
        return {"loss": bool(loss_differs(losses(fault), losses(), spread())), "sum": bool(sum_differs(a, b)),
                "allclose_1e3": not np.allclose(a, b, rtol=1e-3), "allclose_1e5": not np.allclose(a, b, rtol=1e-5),
                "bits": zp.different(a16, b16) > 0, "hash": a_state != b_state}
    return zp.planted_or_recorded("zeroproof-faults", ("noticed", *JOB, name), make)


@functools.lru_cache(None)
def record():
    """One row for every fault of the project: outcome, and the result of each check."""
    return json.loads((RECORDS / "everyday_checks.json").read_text())["faults"]


def row_of(fault):
    return next(row for row in record() if row["fault"] == zp.fault_called(fault))


def trained():
    """The rows of faults with which training ran to its end."""
    return [row for row in record() if row["outcome"] == "trained"]


def found_by(check):
    """The faults that a check finds, and the number of faults for which it has an answer."""
    asked = [row for row in trained() if row[check] is not None]
    return {row["fault"] for row in asked if row[check]["sees"]}, len(asked)


@functools.lru_cache(None)
def about():
    """Class and summary of every fault."""
    lines = zp.run("list", "--faults").splitlines()
    rows = [re.match(r"(\S+)\s+(\S+)\s+(.{16}) (\S+)\s+(.*)", line).groups() for line in lines]
    return {name: (family.strip(), summary) for name, _, family, _, summary in rows}


def summary(fault):
    return about()[zp.fault_called(fault)][1]


def found_by_the_curve():
    """For each kind of bug with five or more bugs, whether the curve finds them."""
    kinds = {}
    for row in trained():
        if row["loss"] is not None:
            kinds.setdefault(about()[row["fault"]][0], []).append(row["loss"]["sees"])
    return {kind: seen for kind, seen in sorted(kinds.items()) if len(seen) >= 5}


def next_to_reference(fault):
    return zp.verify(CASE, fault=fault)["cases"][0]


def place_of(case):
    first = case["divergence"]
    return f"step {first['step']}, {first['phase']}, {first['buffer']}"


def blind(number):
    """The case of `verify --blind`, which plants the N-th bug without naming it."""
    return zp.verify(CASE, "--blind", number, program="zeroproof-faults")["cases"][0]


def judge(number, answer):
    """Prints the verdict on the name of a blind bug."""
    def make():
        return zp.run("reveal", number, CASE, name="zeroproof-faults").split()[0]
    name = zp.planted_or_recorded("zeroproof-faults", ("reveal", number, CASE), make)
    print("  your answer:", ("correct" if answer == name else "wrong; try again") if answer else "no answer yet")


# ---------------------------------------------------------------- blanks


def loss_differs(losses, correct, spread):
    return not bool((np.abs(losses - correct) <= spread).all())


def sum_differs(master, correct):
    return f"{math.fsum(master):g}" != f"{math.fsum(correct):g}"


_one, _two = np.array([2.0, 1.5, 1.25]), np.array([0.5, 0.25, 0.125])
blank = zp.Blanks({
    loss_differs: [("equal curves", _one, _one, _two), ("one loss too high in step 2", _one + [0, 0.5, 0], _one, _two),
                   ("one loss too low in step 3", _one - [0, 0, 0.5], _one, _two),
                   ("exactly as far as the spread", _one + _two, _one, _two),
                   ("a loss that is NaN", _one + [np.nan, 0, 0], _one, _two)],
    sum_differs: [("the same numbers in another order", np.array([3.5, -1.25]), np.array([-1.25, 3.5])),
                  ("sums 1000000 and 1000001", np.array([1e6]), np.array([1e6, 1.0])),
                  ("sums 1 and 1.00001", np.array([1.0]), np.array([1.00001])),
                  ("sums 1 and 1.0000001", np.array([1.0]), np.array([1.0000001])),
                  ("magnitudes that cancel", np.array([1e17, 3.0, -1e17]), np.array([3.0]))]})

# ---------------------------------------------------------------- figures


def draw_six(found):
    fig, axes = draw.figure(height=2.9)
    for y, row in enumerate(found):
        for x, check in enumerate(CHECKS):
            draw.box(axes, x, -y - 0.45, 0.94, 0.9, draw.WRONG if row[check] else draw.PALE,
                     "found" if row[check] else "", "white", edgecolor="white")
    axes.set(xlim=(0, len(CHECKS)), ylim=(-len(found) + 0.5, 0.5))
    draw.blank_axes(axes)
    axes.set_yticks(-np.arange(len(found)), [f"bug {chr(65 + y)}" for y in range(len(found))])
    axes.set_xticks(np.arange(len(CHECKS)) + 0.47, list(CHECKS.values()))
    axes.tick_params(length=0)
    draw.show(fig, "Six bugs and six checks: red where the check finds the bug. The rows form a staircase from few "
                   "checks to all of them.")


def draw_shares(found):
    """Bars of the share of bugs that each check finds; found[check] = (number, of)."""
    fig, axes = draw.figure(height=2.7)
    for y, (check, (number, of)) in enumerate(found.items()):
        axes.barh(y, 1, color=draw.PALE, height=0.7)
        axes.barh(y, number / of, color=draw.WRONG, height=0.7)
        axes.text(1.01, y, f"{number} of {of}", va="center")
    axes.set_yticks(range(len(found)), [CHECKS[check] for check in found])
    axes.set(xlim=(0, 1.2), ylim=(len(found) - 0.5, -0.5), xticks=(0, 0.5, 1))
    axes.set_xticklabels(["0 %", "50 %", "100 %"])
    draw.show(fig, "The share of bugs that each check finds: about half for the loss, about nine of ten for the "
                   "others, growing from the sum to the hash.")


def draw_kinds(kinds):
    fig, axes = draw.figure(height=0.3 * len(kinds) + 1.2)
    ordered = sorted(kinds.items(), key=lambda item: sum(item[1]) / len(item[1]))
    for y, (_, seen) in enumerate(ordered):
        axes.barh(y, len(seen), color=draw.PALE, label="bugs" if y == 0 else None)
        axes.barh(y, sum(seen), color=draw.WRONG, label="found by the curve" if y == 0 else None)
    axes.set_yticks(range(len(ordered)), [kind for kind, _ in ordered])
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    draw.show(fig, "Bars of the number of bugs of each kind, and of those that the loss curve finds: none of the bugs "
                   "in settings of parameter groups.")


def draw_all():
    fig, axes = draw.figure(height=3.1)
    columns = [*CHECKS, "phases"]
    marks = [[0.4 if row[check] is None else float(row[check]["sees"]) for check in columns] for row in trained()]
    matrix = np.array(sorted(marks, key=lambda row: (-sum(row), [-mark for mark in row]))).T
    axes.imshow(matrix, aspect="auto", cmap="Greys", vmin=-0.12, vmax=1.25, interpolation="nearest")
    axes.set(xlabel="bugs; dark: found, grey: a run without losses", yticks=range(len(columns)))
    axes.set_yticklabels([CHECKS.get(check, check) for check in columns])
    axes.set_yticks(np.arange(len(columns) - 1) + 0.5, minor=True)
    axes.grid(which="minor", axis="y", color="white", linewidth=3)
    axes.tick_params(which="both", left=False)
    for y, row in enumerate(matrix):
        axes.text(len(marks) + 1, y, np.count_nonzero(row == 1), va="center")
    axes.spines[:].set_visible(False)
    draw.show(fig, "A matrix: a row for each check, from the loss above to phases below, a column for each bug, dark "
                   "where the check finds it. Half of the first row is dark, more of each row below, and all of the "
                   "last.")
