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
# # 12. What would have noticed?
#
# **Question.** Nobody looks at everything. Of the checks that people have, which notice which bugs, and what gets past
# all of them?
#
# 25 minutes, after lesson 1. Six checks need nothing of this project: they look at what a run leaves, beside what a run
# without the bug leaves. That is more than one has in practice, where the right run is what nobody has.
#
# | check | looks at | sees a bug if |
# |---|---|---|
# | loss | 60 steps | a loss is further from the right one than the spread of 8 other seeds |
# | sum | master weights | their sum, in the six digits that Python prints, is another one |
# | 1e-3, 1e-5 | master weights | `numpy.allclose` with this `rtol` says no |
# | bits | 16-bit parameters | one of them has another bit |
# | hash | state | a digest of masters, moments and parameters differs, or the scale, or the count of steps |
#
# **Guess first.** Of ten bugs, nearly half of them modelled on one that a public library had, how many does each check
# see? Write six numbers down.
#
# Begin with six bugs in production, one at a time. What they are does not matter yet.

# %%
import json
import math
import pathlib
import re
import tempfile

import zp  # first: it says what is missing

import numpy as np

CHECKS = {"loss": "loss", "sum": "sum", "allclose_1e3": "1e-3", "allclose_1e5": "1e-5", "bits": "bits", "hash": "hash"}
CASE = "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1"
JOB = ("--workload", "byte_gpt_tiny", "--recipe", "adamw", "--dtype", "fp16", "--world", "threads:3", "--stage", 2,
       "--bucket", 4096, "--threads", 1)
SIX = [zp.sealed(seal) for seal in (
    "ZG91YmxlLXVuc2NhbGU=", "ZGVjYXktYWZ0ZXItdXBkYXRl", "ZXBzLXVuZGVyLWJpYXMtY29ycmVjdGlvbg==",
    "cG93ZXItYnktcnVubmluZy1wcm9kdWN0", "bm9ybS1zcXVhcmVkLWluLWZwMzI=", "c2tpcC1rZWVwcy1ub3Jt")]


def left_by(*planted):
    """What six steps leave: master weights, 16-bit parameters, and digest, scale and count of the whole state."""
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
    """Which of the checks see a fault. Whatever is compared with NaN differs."""
    (a, a16, a_state), (b, b16, b_state) = left_by("--fault", fault), right
    return {"loss": not (np.abs(losses(fault=fault) - curve) <= spread).all(),
            "sum": f"{math.fsum(a):g}" != f"{math.fsum(b):g}",
            "allclose_1e3": not np.allclose(a, b, rtol=1e-3),
            "allclose_1e5": not np.allclose(a, b, rtol=1e-5),
            "bits": zp.different(a16, b16) > 0,
            "hash": a_state != b_state}


found = [noticed(fault) for fault in SIX]
zp.table(("bug", *CHECKS.values()), *[(chr(65 + i), *["sees" if row[check] else "." for check in CHECKS])
                                      for i, row in enumerate(found)])

# %% [markdown]
# A staircase. These six were chosen to make one; the same was done with every fault of the project, and written down
# ([checks.md](../papers/checks.md) says how). A record is hearsay until somebody makes a part of it again. Is this that
# part?

# %%
record = json.loads((zp.HERE.parent / "verification" / "bench" / "records" / "everyday_checks.json").read_text())["faults"]
rows = {row["fault"]: row for row in record}
kept = [{check: rows[fault][check]["sees"] for check in CHECKS} for fault in zp.given("12.1", SIX, SIX[::-1])]
print(f"answers compared: {sum(map(len, kept))}, of {len(rows)} faults in the record: {len(kept)}")
zp.claim("12.1", found == kept, "of all six bugs each check says here what it says in the record")

# %%
trained = [row for row in record if row["outcome"] == "trained"]
looked = {check: [row for row in trained if row[check] is not None] for check in CHECKS}
sees = {check: {row["fault"] for row in looked[check] if row[check]["sees"]} for check in CHECKS}
zp.table(("check", "sees", "of", "percent"),
         *[(CHECKS[check], len(sees[check]), len(looked[check]), f"{100 * len(sees[check]) / len(looked[check]):.0f}")
           for check in CHECKS])
for outcome in ("stopped", "not applicable"):
    print(f"{outcome}: {sum(row['outcome'] == outcome for row in record)}")
ladder = zp.given("12.2", list(CHECKS)[1:], list(CHECKS)[:0:-1])
zp.claim("12.2", 10 * len(sees["loss"]) < 6 * len(looked["loss"])
         and all(sees[a] <= sees[b] for a, b in zip(ladder, ladder[1:])),
         "the curve lets four of ten pass, and more; from the sum on, each check sees all that the one before sees")

# %% [markdown]
# *Stopped*: production noticed by itself, because ranks disagreed or a plan was wrong. *Not applicable*: a run of this
# kind cannot show it.
#
# The steps from the sum to the bits are low. Who compares with a right run, after few steps, sees most of what a state
# can show, and a tolerance loses little of it. But where does the right run come from? One that adds in another order
# is not equal (lesson 2), and then a tolerance is all there is. The curve is another kind of check: it needs no right
# run, and it forgives.
#
# **Guess first.** Which bugs does it forgive? And what could a bug be that not even the digest of the state sees?


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
zp.table(("kind of bug", "bugs", "the curve sees"),
         *[(family, len(seen), sum(seen)) for family, seen in sorted(families.items()) if len(seen) >= 5])
groups = families[zp.given("12.3", "param-group", "scaling")]
zp.claim("12.3", len(groups) >= 5 and not any(groups),
         "of the bugs in how a group of parameters is trained, rate, decay, eps, or not at all, the curve sees none")

# %%
past = [row["fault"] for row in trained if not any(row["fault"] in sees[check] for check in CHECKS)]
print(f"trained, and seen by none of the six: {len(past)}")
for name in past:
    print(f"- {faults[name][1]}\n  {rows[name]['phases']['place']}")

# %% [markdown]
# Three sorts: what is reported and not computed with; what is wrong beside the numbers, in memory that is not theirs;
# and what did no harm *in this run*, which is no promise for the next.
#
# The seventh check is the one that all lessons used: every phase of a step beside the reference, every buffer that the
# contract names, on every rank.


# %%
def beside_the_reference(*words):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        zp.run("verify", CASE, *words, "--report", f"json:{report}", name="zeroproof-faults", may_end_with=(0, 1))
        return json.loads(report.read_text())["cases"][0]


places = []
for letter, fault in zip("ABCDEF", zp.given("12.4", SIX, [*SIX[:5], SIX[0]])):
    first = beside_the_reference("--fault", fault)["divergence"]
    places.append(f"step {first['step']}, {first['phase']}, {first['buffer']}")
    print(f"{letter}: {places[-1]}\n   {faults[fault][1]}")
exact = sum(row["phases"]["exact"] for row in record)
print(f"in the record: {exact} of {len(record)} found, at the step, phase, rank, buffer and elements where they are")
zp.claim("12.4", places == [rows[fault]["phases"]["place"] for fault in SIX] and exact == len(record),
         "phase by phase all are seen, those that get past the other six too, each at its place")

# %%
fig, axes = zp.figure(height=2.6)
columns = [*CHECKS, "phases"]
marks = [[0.4 if row[check] is None else float(row[check]["sees"]) for check in columns] for row in trained]
matrix = np.array(sorted(marks, key=lambda row: (-sum(row), [-mark for mark in row]))).T
axes.imshow(matrix, aspect="auto", cmap="Greys", vmin=-0.12, vmax=1.25, interpolation="nearest")
axes.set(xlabel="bugs, those that most checks see on the left; dark: seen, grey: a run without losses",
         yticks=range(len(columns)))
axes.set_yticklabels([CHECKS.get(check, check) for check in columns])
axes.set_yticks(np.arange(len(columns) - 1) + 0.5, minor=True)
axes.grid(which="minor", axis="y", color="white", linewidth=3)
axes.tick_params(which="both", left=False)
for y, row in enumerate(matrix):
    axes.text(len(trained) + 1, y, np.count_nonzero(row == 1), va="center")
axes.spines[:].set_visible(False)
zp.show(fig, "A matrix: a row for each check, from the loss above to phases below, a column for each bug, dark where "
             "the check sees it. Half of the first row is dark, more of each row below, and all of the last.")

# %% [markdown]
# ## Find it
#
# Six bugs in the same case, none of them from above. `verify --blind N` plants the N-th that this case can have, and
# does not say which. Run the cell, write what you think each is into `mine`, and run it again.

# %%
mine = {3: "", 4: "", 7: "", 8: "", 14: "", 21: ""}
for number in mine:
    name = zp.run("reveal", number, CASE, name="zeroproof-faults").split()[0]
    verdict = "no answer yet" if not mine[number] else "right" if mine[number] == name else "not that one; look again"
    print(f"blind {number}: {zp.place(beside_the_reference('--blind', number))}\n  your answer: {verdict}")

# %% [markdown]
# Names to choose from: `accumulator-overwritten`, `bf16-accumulator`, `default-differs`, `found-inf-not-global`,
# `last-bucket-not-gathered`, `moments-in-half`, `no-gather-after-load`, `no-master`, `norm-differs-across-ranks`,
# `one-counter-for-subgroups`, `replicated-counted-per-rank`, `short-pieces-counted-twice`, `sum-instead-of-mean`,
# `transport-corrupts-a-line`.
#
# ## Puzzle 13
#
# The same in a shell, where nobody suggests names, with any number that the case has (`CASE` is the id in the first
# cell). Name the phase, the rank and the cause before you let it be revealed. How often do you need a second run?
#
# ```
# build/zeroproof-faults verify CASE --blind 10
# build/zeroproof-faults reveal 10 CASE
# ```
#
# ## Puzzle 14: the end
#
# Put your puzzles together into a ZeRO of your own, which reads recorded gradients and prints the hash that the
# programs print: on 1, 2, 3, 5 and 8 ranks, in every stage, with bf16 and with fp16. [README.md](README.md) has the
# commands, and [minizero.py](minizero.py) is ours; look at it when yours is right, or when you are stuck. When the
# hashes agree, you know what every rank holds, computes and sends, to the bit.
#
# ## From here
#
# - [checks.md](../papers/checks.md): the table, fault by fault, and what each check is;
#   [everyday_checks.py](../verification/bench/research/everyday_checks.py) makes it. Errata 16 and 56 are about two of the six.
# - An optimizer of your own, beside the reference: `zeroproof verify --expect`, or a
#   [plug-in](../verification/interfaces/plugin/README.md).
# - [adam.cpp](../reference/update/adam.cpp), where the staircase begins, and [Adam:power](../papers/adam.md), where
#   it ends.
