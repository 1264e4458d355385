#!/usr/bin/env python3
"""everyday_checks.py PROGRAM RECORD [FAULT ...]    which everyday check detects which planted fault.

PROGRAM is zeroproof-faults, RECORD the JSON file that is written; with names, the rows of these in the file that is
there. Every fault is put into the case that the fault plan has for it, and production trains by itself, with the fault
and without. The checks are given what a run leaves, and nothing of the project; `phases` is the project's own,
`zeroproof-faults faults`.

  loss          60 steps: in some step the two losses are further apart than the standard deviation of 8 other seeds
  sum           the sum of all master weights, printed with 6 digits, is another one
  allclose_1e3  some master weight has |a - b| > 1e-8 + 1e-3 |b|, as numpy.allclose(a, b, rtol=1e-3) counts
  allclose_1e5  the same with its default, rtol=1e-5
  bits          a parameter that the model computes with, in 16 bits or as a code of 8, has another bit
  hash          the digest of master weights, moments and parameters that train prints is another one, or the number of
                applied steps, or the loss scale
  phases        a phase of a step differs from the reference in a bit, or a rank refuses the run

All but the loss look at the state after the steps of the case, 6 or 2 of them. A NaN is seen. A run that ends with an
error needs no check. What no run of train can show (L-BFGS, operations beside the step, what a layer is shown in stage
3, state in codes with scales) is not applicable.
"""

import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from everyday_runs import Ended, Runs, floats, on_host, words_of

CHECKS = ("loss", "sum", "allclose_1e3", "allclose_1e5", "bits", "hash", "phases")
BYTES = {"BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
CURVE = 60
SEEDS = range(2, 10)


def loss(wrong, right, seeds):
    """How far apart two curves are, in spreads of other seeds: the most, and where. Losses are None if not finite."""
    apart = [(math.inf if a is None else abs(a - b) / statistics.stdev(others), -step)
             for step, (a, b, *others) in enumerate(zip(wrong, right, *seeds), 1)]
    most, step = max(apart)
    return {"sees": not most <= 1, "spreads": float(f"{most:.3g}") if math.isfinite(most) else None, "step": -step}


def total(wrong, right):
    # Default formats of printf and Python.
    a, b = (f"{math.fsum(numbers):g}" if all(map(math.isfinite, numbers)) else "nan" for numbers in (wrong, right))
    return {"sees": a != b or a == "nan", "with": a, "without": b}


def allclose(wrong, right, rtol):
    outside = sum(not abs(a - b) <= 1e-8 + rtol * abs(b) for a, b in zip(wrong, right))
    return {"sees": outside > 0, "outside": outside}


def other_bits(wrong, right):
    if wrong is None:  # production shows no parameters
        return {"sees": True, "differ": None}
    assert wrong[0] == right[0] and len(wrong[1]) == len(right[1])
    width = BYTES[right[0]]
    differ = sum(wrong[1][i:i + width] != right[1][i:i + width] for i in range(0, len(right[1]), width))
    return {"sees": differ > 0, "differ": differ}


def phases(finding):
    first = finding["divergence"]
    place = "refused"
    if first:
        place = f"step {first['step']}, {first['phase'] or 'l-bfgs'}, {first['buffer']}"
    if first and finding["case"].startswith("op/"):
        place = f"a call, {first['buffer']}"
    return {"sees": finding["caught"], "exact": finding["exact"], "place": place}


def no_run_shows(finding):
    """The reason why no run of train can show the effect of a fault; "" if one can."""
    if finding["case"].startswith("lbfgs/"):
        return "no run of train makes steps of L-BFGS"
    if finding["case"].startswith("op/"):
        return "no run of train calls these operations of production"
    if re.search(r"_dtype:(fp16|e4m3)", finding["case"]):
        return "train dumps no state that is codes with scales"
    if "/stage3/" in finding["case"] and (finding["divergence"] or {}).get("buffer") in ("leaf", "param_full"):
        return ("in stage 3 the harness makes gradients from the shards' parameters: what a layer was shown has no "
                "consequence")
    return ""


def everyday(runs, fault, case):
    """Results of the checks for one fault, except the last. Ended: the run with the fault ended with an error."""
    words, saved = words_of(case)
    inputs = runs.inputs(fault)
    planted = ("--fault", fault)
    steps = "2" if case.startswith("recorded/") else "6"  # as verify makes them
    train = (lambda *more: runs.resumed(saved, *more)) if saved else (lambda *more: runs.run(more))
    right = runs.train(*inputs, *words, "--steps", steps)
    wrong = train(*inputs, *words, "--steps", steps, *planted)
    a, b = floats(wrong["buffers"]["master"]), floats(right["buffers"]["master"])
    found = {"sum": total(a, b), "allclose_1e3": allclose(a, b, 1e-3), "allclose_1e5": allclose(a, b, 1e-5),
             "bits": other_bits(wrong["buffers"].get("param"), right["buffers"]["param"]),
             "hash": {"sees": wrong["state"] != right["state"]}}
    if "--gradients" in inputs:
        return {"loss": None, **found}
    curve = ("--steps", str(CURVE))
    host = (*inputs, *on_host(words), *curve)
    seeds = [runs.train(*host, "--seed", str(seed))["losses"] for seed in SEEDS]
    wrong = train(*inputs, *words, *curve, *planted)
    return {"loss": loss(wrong["losses"], runs.train(*host)["losses"], seeds), **found}


def output_of(*words):
    """The output of a program; exits with its error if it could not run. 1 is a fault that was not found."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.strip())
    return done.stdout


def record(program, ids, say):
    with tempfile.TemporaryDirectory() as folder:
        say("the project's own check")
        output_of(program, "faults", *ids, "--inputs", folder)
        own = json.loads(output_of(program, "faults", *ids, "--json"))
        runs, rows = Runs(program, folder), []
        for finding in own["faults"]:
            fault, case = finding["id"], finding["case"]
            say(fault)
            row = {"fault": fault, "case": case, "outcome": "trained", "why": ""}
            found = dict.fromkeys(CHECKS)
            why = no_run_shows(finding)
            if why:
                row.update(outcome="not applicable", why=why)
            else:
                try:
                    found.update(everyday(runs, fault, case))
                except Ended as ended:
                    row.update(outcome="stopped", why=str(ended))
            rows.append({**row, **found, "phases": phases(finding)})
    return {"schema": "zeroproof-checks/1", "contract": own["contract"], "curve_steps": CURVE,
            "seeds": list(SEEDS), "faults": rows}


def merged(kept, made, catalogue):
    """The stored record with the new rows, in the order of the catalogue, without rows of other faults."""
    rows = {row["fault"]: row for row in kept["faults"] + made["faults"]}
    if {**kept, "faults": 0} != {**made, "faults": 0}:
        raise ValueError("the record was made with other settings (its rows do not compare); record all of them again")
    return {**kept, "faults": [rows[name] for name in catalogue if name in rows]}


def text_of(record):
    """One line for each fault, so that a diff names the fault."""
    rows = ",\n".join("  " + json.dumps(row) for row in record["faults"])
    head = {name: value for name, value in record.items() if name != "faults"}
    return json.dumps(head)[:-1] + ', "faults": [\n' + rows + "\n]}\n"


def main(arguments):
    if len(arguments) < 2 or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    program, path, *ids = arguments
    if not os.access(program, os.X_OK):
        print(f"everyday_checks.py: {program} is no program (faults are planted by it); ninja -C build zeroproof-faults",
              file=sys.stderr)
        return 2
    path, kept = pathlib.Path(path), None
    if ids and path.exists():
        kept = json.loads(path.read_text())
    made = record(program, ids, lambda what: print(what, file=sys.stderr, flush=True))
    if kept:
        made = merged(kept, made, [line.split()[0] for line in output_of(program, "list", "--faults").splitlines()])
    path.write_text(text_of(made))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
