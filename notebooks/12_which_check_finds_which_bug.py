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
# | sum | master weights | their sum, in the six digits that Python's format `g` prints, differs |
# | 1e-3, 1e-5 | master weights | `numpy.allclose` with this `rtol` returns false |
# | bits | 16-bit parameters | one of them differs in a bit |
# | hash | state | a digest of masters, moments and parameters, scale or step count differs |
#
# **Guess first.** Of ten bugs, nearly half of them modelled on a bug of a public library, how many
# does each check detect? Write six numbers down.
#
# **Your code.** Write the first two checks. Correct functions are used below; otherwise the lesson
# continues with its own.

# %%
import math  # for your code, as numpy

import zp  # first: reports missing packages
import zp_lesson12 as lesson

import numpy as np


@lesson.blank
def loss_differs(losses, correct, spread):
    """Whether a loss is further from the correct one than the spread; a NaN always is."""
    return ...  # your code


# %%
@lesson.blank
def sum_differs(master, correct):
    """Whether the sums (math.fsum) of two arrays differ when printed with the format g."""
    return ...  # your code


# %% [markdown]
# The first experiment plants six bugs in production, one at a time. Their names are not needed yet.

# %%
found = [lesson.noticed(fault, loss_differs, sum_differs) for fault in lesson.SIX]
lesson.draw_six(found)

# %% [markdown]
# The rows form a staircase. These six bugs were chosen for it; the same was done with every fault
# of the project, and recorded ([checks.md](../papers/checks.md) describes how). A record needs to
# be reproduced. The next cell compares it with the six rows above.

# %%
kept = [{check: lesson.row_of(fault)[check]["sees"] for check in lesson.CHECKS} for fault in lesson.SIX]
print(f"answers compared: {sum(map(len, kept))}, of {len(lesson.record())} faults in the record: {len(kept)}")
zp.claim("12.1", found == kept, "for all six bugs each check has the result in the record")

# %%
seen = {check: lesson.found_by(check) for check in lesson.CHECKS}
zp.table(("check", "found", "of", "percent"),
         *[(lesson.CHECKS[check], len(bugs), of, f"{100 * len(bugs) / of:.0f}") for check, (bugs, of) in seen.items()])
lesson.draw_shares({check: (len(bugs), of) for check, (bugs, of) in seen.items()})
for outcome in ("stopped", "not applicable"):
    print(f"{outcome}: {sum(row['outcome'] == outcome for row in lesson.record())}")
ladder = [seen[check][0] for check in list(lesson.CHECKS)[1:]]
zp.claim("12.2", 10 * len(seen["loss"][0]) < 6 * seen["loss"][1] and all(a <= b for a, b in zip(ladder, ladder[1:])),
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
kinds = lesson.found_by_the_curve()
lesson.draw_kinds(kinds)
groups = kinds["param-group"]
zp.claim("12.3", len(groups) >= 5 and not any(groups),
         "of the bugs in the settings of a parameter group (lr, decay, eps, frozen or not) the "
         "curve finds none")

# %%
past = [row for row in lesson.trained() if not any(row["fault"] in bugs for bugs, _ in seen.values())]
print(f"trained, and found by none of the six: {len(past)}")
for row in past:
    print(f"- {lesson.summary(row['fault'])}\n  {row['phases']['place']}")

# %% [markdown]
# Three kinds: reported values that no computation uses; writes outside of the numbers, into memory
# of another owner; and bugs without an effect *in this run*, which is no guarantee for the next.
#
# The seventh check is the one of all lessons: every phase of a step next to the reference, every
# buffer of the contract, on every rank.

# %%
places = [lesson.place_of(lesson.next_to_reference(fault)) for fault in lesson.SIX]
for fault, place in zip(lesson.SIX, places):
    print(f"{fault[-1]}: {place}\n   {lesson.summary(fault)}")
exact = [row["phases"]["exact"] for row in lesson.record()]
print(f"in the record: {sum(exact)} of {len(exact)} found, "
      "each at its exact step, phase, rank, buffer and elements")
lesson.draw_all()
zp.claim("12.4", places == [lesson.row_of(fault)["phases"]["place"] for fault in lesson.SIX] and all(exact),
         "the comparison by phases finds all bugs, each at its place, also those that pass the "
         "other six checks")

# %% [markdown]
# ## Find it
#
# Six bugs in the same case, none of them from above. `verify --blind N` plants the N-th bug that
# this case can have, without naming it. Run the cell, write your guesses into `mine`, and run it
# again.

# %%
mine = {3: "", 4: "", 7: "", 8: "", 14: "", 21: ""}
for number, answer in mine.items():
    print(f"blind {number}: {zp.place(lesson.blind(number))}")
    lesson.judge(number, answer)

# %% [markdown]
# Names to choose from: `accumulator-overwritten`, `bf16-accumulator`, `default-differs`,
# `found-inf-not-global`, `last-bucket-not-gathered`, `moments-in-half`, `no-gather-after-load`,
# `no-master`, `norm-differs-across-ranks`, `one-counter-for-subgroups`,
# `replicated-counted-per-rank`, `short-pieces-counted-twice`, `sum-instead-of-mean`,
# `transport-corrupts-a-line`.
#
# ## Puzzle 13
#
# The same in a shell, without a list of names, with any number that the case has (`lesson.CASE` is
# its id; this needs `zeroproof-faults` from a build). Name the phase, the rank and the cause before
# you run `reveal`. How often do you need a second run?
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
