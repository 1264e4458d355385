# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 12. Which check finds which bug?
#
# **Question.** No one checks everything. Which of the usual checks detect which bugs, and which
# bugs pass all of them?
#
# 25 minutes, after lesson 1. Six checks need nothing of this project: they compare the results of a
# run with those of a correct run. That is more than practice offers, where no correct run is
# available.
#
# | check | input | detects a bug if |
# |---|---|---|
# | loss | 60 steps | a loss differs from the correct one by more than the spread of 8 other seeds |
# | sum | master weights | their sum, in the six digits that Python prints, differs |
# | 1e-3, 1e-5 | master weights | `numpy.allclose` with this `rtol` returns false |
# | bits | 16-bit parameters | one of them differs in a bit |
# | hash | state | a digest of masters, moments and parameters, scale or step count differs |
#
# **Guess first.** Of ten bugs, nearly half of them modelled on a bug of a public library, how many
# does each check detect? Write six numbers down.
#
# The first experiment plants six bugs in production, one at a time. Their names are not needed yet.

# %%
import json
import math
import pathlib
import re
import tempfile

import zp  # first: reports missing packages

import numpy as np

CHECKS = {"loss": "loss", "sum": "sum", "allclose_1e3": "1e-3", "allclose_1e5": "1e-5", "bits": "bits", "hash": "hash"}
CASE = "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1"
JOB = ("--workload", "byte_gpt_tiny", "--recipe", "adamw", "--dtype", "fp16", "--world", "threads:3", "--stage", 2,
       "--bucket", 4096, "--threads", 1)
SIX = [zp.sealed(seal) for seal in (
    "ZG91YmxlLXVuc2NhbGU=", "ZGVjYXktYWZ0ZXItdXBkYXRl", "ZXBzLXVuZGVyLWJpYXMtY29ycmVjdGlvbg==",
    "cG93ZXItYnktcnVubmluZy1wcm9kdWN0", "bm9ybS1zcXVhcmVkLWluLWZwMzI=", "c2tpcC1rZWVwcy1ub3Jt")]


def left_by(*planted):
    """Results of six steps: masters, 16-bit parameters, and digest, scale and count."""
    with tempfile.TemporaryDirectory() as folder:
        dump, log = pathlib.Path(folder, "dump"), pathlib.Path(folder, "log")
        said = zp.run("train", *JOB, "--steps", 6, "--dump", dump, "--log", log, *planted, name="zeroproof-faults")
        kept, last = zp.tensors(dump), json.loads(log.read_text().splitlines()[-1])
    master, param = (np.concatenate([kept[name].ravel() for name in kept if name.startswith(kind)])
                     for kind in ("master.", "param."))
    digest = re.search(r"^state (\w+)", said, re.M)[1]
    return master, param, (digest, last["loss_scale_log2"], last["applied_steps"])


def losses(*words, fault=""):
    run = zp.train(*JOB, "--steps", 60, *words, fault=fault)
    return np.array([np.nan if step["loss"] is None else step["loss"] for step in run])


right, curve = left_by(), losses()
spread = np.array([losses("--seed", seed) for seed in range(2, 10)]).std(axis=0, ddof=1)


def noticed(fault):
    """Which of the checks detect a fault. Every comparison with NaN counts as a difference."""
    (a, a16, a_state), (b, b16, b_state) = left_by("--fault", fault), right
    return {"loss": not (np.abs(losses(fault=fault) - curve) <= spread).all(),
            "sum": f"{math.fsum(a):g}" != f"{math.fsum(b):g}",
            "allclose_1e3": not np.allclose(a, b, rtol=1e-3),
            "allclose_1e5": not np.allclose(a, b, rtol=1e-5),
            "bits": zp.different(a16, b16) > 0,
            "hash": a_state != b_state}


found = [noticed(fault) for fault in SIX]
zp.table(("bug", *CHECKS.values()),
         *[(chr(65 + i), *["found" if row[check] else "." for check in CHECKS])
           for i, row in enumerate(found)])

# %% [markdown]
# The rows form a staircase. These six bugs were chosen for it; the same was done with every fault
# of the project, and recorded ([checks.md](../papers/checks.md) describes how). A record needs to
# be reproduced. The next cell compares it with the six rows above.

# %%
record = json.loads((zp.HERE.parent / "verification" / "bench" / "records" / "everyday_checks.json").read_text())["faults"]
rows = {row["fault"]: row for row in record}
kept = [{check: rows[fault][check]["sees"] for check in CHECKS} for fault in zp.given("12.1", SIX, SIX[::-1])]
print(f"answers compared: {sum(map(len, kept))}, of {len(rows)} faults in the record: {len(kept)}")
zp.claim("12.1", found == kept, "for all six bugs each check has the result in the record")

# %%
trained = [row for row in record if row["outcome"] == "trained"]
looked = {check: [row for row in trained if row[check] is not None] for check in CHECKS}
sees = {check: {row["fault"] for row in looked[check] if row[check]["sees"]} for check in CHECKS}
zp.table(("check", "found", "of", "percent"),
         *[(CHECKS[check], len(sees[check]), len(looked[check]), f"{100 * len(sees[check]) / len(looked[check]):.0f}")
           for check in CHECKS])
for outcome in ("stopped", "not applicable"):
    print(f"{outcome}: {sum(row['outcome'] == outcome for row in record)}")
ladder = zp.given("12.2", list(CHECKS)[1:], list(CHECKS)[:0:-1])
zp.claim("12.2", 10 * len(sees["loss"]) < 6 * len(looked["loss"])
         and all(sees[a] <= sees[b] for a, b in zip(ladder, ladder[1:])),
         "the curve misses over four of ten; from the sum on, each check finds all bugs of the "
         "check before it")

# %% [markdown]
# *Stopped*: production detected the bug itself, because ranks disagreed or a plan was wrong. *Not
# applicable*: a run of this kind cannot contain it.
#
# The differences between the sum and the bits are small. A comparison with a correct run after few
# steps detects most bugs that change the state, and a tolerance loses little. But it needs a
# correct run. One that adds in another order is not equal (lesson 2), and then a tolerance is the
# only option. The curve is a different kind of check: it needs no correct run, and it misses more.
#
# **Guess first.** Which bugs does it miss? And which bugs does even the digest of the state miss?


# %%
def listed():
    """Name, and class and summary, of every fault."""
    for line in zp.run("list", "--faults").splitlines():
        name, _, family, _, summary = re.match(r"(\S+)\s+(\S+)\s+(.{16}) (\S+)\s+(.*)", line).groups()
        yield name, (family.strip(), summary)


faults = dict(listed())
families = {}
for row in looked["loss"]:
    families.setdefault(faults[row["fault"]][0], []).append(row["loss"]["sees"])
zp.table(("kind of bug", "bugs", "found by the curve"),
         *[(family, len(seen), sum(seen)) for family, seen in sorted(families.items()) if len(seen) >= 5])
groups = families[zp.given("12.3", "param-group", "scaling")]
zp.claim("12.3", len(groups) >= 5 and not any(groups),
         "of the bugs in the settings of a parameter group (lr, decay, eps, frozen or not) the "
         "curve finds none")

# %%
past = [row["fault"] for row in trained if not any(row["fault"] in sees[check] for check in CHECKS)]
print(f"trained, and found by none of the six: {len(past)}")
for name in past:
    print(f"- {faults[name][1]}\n  {rows[name]['phases']['place']}")

# %% [markdown]
# Three kinds: reported values that no computation uses; writes outside of the numbers, into memory
# of another owner; and bugs without an effect *in this run*, which is no guarantee for the next.
#
# The seventh check is the one of all lessons: every phase of a step next to the reference, every
# buffer of the contract, on every rank.


# %%
def next_to_reference(*words):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        zp.run("verify", CASE, *words, "--report", f"json:{report}", name="zeroproof-faults", may_end_with=(0, 1))
        return json.loads(report.read_text())["cases"][0]


places = []
for letter, fault in zip("ABCDEF", zp.given("12.4", SIX, [*SIX[:5], SIX[0]])):
    first = next_to_reference("--fault", fault)["divergence"]
    places.append(f"step {first['step']}, {first['phase']}, {first['buffer']}")
    print(f"{letter}: {places[-1]}\n   {faults[fault][1]}")
exact = sum(row["phases"]["exact"] for row in record)
print(f"in the record: {exact} of {len(record)} found, "
      "each at its exact step, phase, rank, buffer and elements")
zp.claim("12.4", places == [rows[fault]["phases"]["place"] for fault in SIX] and exact == len(record),
         "the comparison by phases finds all bugs, each at its place, also those that pass the "
         "other six checks")

# %%
fig, axes = zp.figure(height=2.6)
columns = [*CHECKS, "phases"]
marks = [[0.4 if row[check] is None else float(row[check]["sees"]) for check in columns] for row in trained]
matrix = np.array(sorted(marks, key=lambda row: (-sum(row), [-mark for mark in row]))).T
axes.imshow(matrix, aspect="auto", cmap="Greys", vmin=-0.12, vmax=1.25, interpolation="nearest")
axes.set(xlabel="bugs, found by most checks on the left; dark: found, grey: a run without losses",
         yticks=range(len(columns)))
axes.set_yticklabels([CHECKS.get(check, check) for check in columns])
axes.set_yticks(np.arange(len(columns) - 1) + 0.5, minor=True)
axes.grid(which="minor", axis="y", color="white", linewidth=3)
axes.tick_params(which="both", left=False)
for y, row in enumerate(matrix):
    axes.text(len(trained) + 1, y, np.count_nonzero(row == 1), va="center")
axes.spines[:].set_visible(False)
zp.show(fig, "A matrix: a row for each check, from the loss above to phases below, a column for each bug, dark where "
             "the check finds it. Half of the first row is dark, more of each row below, and all "
             "of the last.")

# %% [markdown]
# ## Find it
#
# Six bugs in the same case, none of them from above. `verify --blind N` plants the N-th bug that
# this case can have, without naming it. Run the cell, write your guesses into `mine`, and run it
# again.

# %%
mine = {3: "", 4: "", 7: "", 8: "", 14: "", 21: ""}
for number in mine:
    name = zp.run("reveal", number, CASE, name="zeroproof-faults").split()[0]
    verdict = "correct" if mine[number] == name else "wrong; try again"
    print(f"blind {number}: {zp.place(next_to_reference('--blind', number))}")
    print(f"  your answer: {verdict if mine[number] else 'no answer yet'}")

# %% [markdown]
# Names to choose from: `accumulator-overwritten`, `bf16-accumulator`, `default-differs`,
# `found-inf-not-global`, `last-bucket-not-gathered`, `moments-in-half`, `no-gather-after-load`,
# `no-master`, `norm-differs-across-ranks`, `one-counter-for-subgroups`,
# `replicated-counted-per-rank`, `short-pieces-counted-twice`, `sum-instead-of-mean`,
# `transport-corrupts-a-line`.
#
# ## Puzzle 13
#
# The same in a shell, without a list of names, with any number that the case has (`CASE` is the id
# in the first cell). Name the phase, the rank and the cause before you run `reveal`. How often do
# you need a second run?
#
# ```
# build/zeroproof-faults verify CASE --blind 10
# build/zeroproof-faults reveal 10 CASE
# ```
#
# ## Puzzle 14: the whole optimizer
#
# Combine your puzzles into a ZeRO of your own, which reads recorded gradients and prints the
# trajectory hash of the programs: on 1, 2, 3, 5 and 8 ranks, in every stage, with bf16 and with
# fp16. [README.md](README.md) has the commands, and [minizero.py](minizero.py) is our solution;
# read it when yours is correct, or if you are stuck. When the hashes agree, your model of every
# rank's data, computation and messages is correct to the bit.
#
# ## Further reading
#
# - [checks.md](../papers/checks.md): the table by fault, and the definition of each check;
#   [everyday_checks.py](../verification/bench/research/everyday_checks.py) computes it.
#   Errata 16 and 56 are about two of the six.
# - An optimizer of your own next to the reference: `zeroproof verify --expect`, or a
#   [plug-in](../verification/interfaces/plugin/README.md).
# - [adam.cpp](../reference/update/adam.cpp) and [Adam:power](../papers/adam.md): the code and the
#   rule behind bugs B to D.
