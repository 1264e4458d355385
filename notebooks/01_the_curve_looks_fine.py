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
# # 1. The curve looks fine
#
# **Question.** The optimizer has a bug. How would you notice?
#
# 20 minutes; no other lesson is required first. A small transformer (`byte_gpt_tiny`) is trained on
# four ranks, twice: by the production code of this project, and by the same code with a planted
# fault. The fault is called `?1` here: finding its name is the exercise at the end. It is modelled
# on a bug of a public library.

# %%
import zp  # first: reports missing packages
import zp_lesson01 as lesson

import numpy as np

one, other = lesson.train(fault="?1"), lesson.train()
losses = [lesson.losses(run) for run in (one, other)]
zp.table(("step", "one run", "the other"),
         *[(n, *[f"{loss[n - 1]:.4f}" for loss in losses]) for n in range(10, lesson.STEPS + 1, 10)])
lesson.draw_curves(*losses)

# %% [markdown]
# **Guess first.** Which of the two runs is broken? Would you have stopped it? Write your answer
# down before you continue.
#
# Two runs that differ only in the seed of their initial parameters also differ in loss. This spread
# is the usual, unstated yardstick: a change of the loss that is smaller than the effect of another
# seed is taken for noise.
#
# **Your code.** Complete `distance`, and run the cell. A correct function is used in the next cell;
# otherwise the lesson continues with its own.

# %%
@lesson.blank
def distance(one, other, spread):
    """How far two curves are apart in each step, in units of the spread (three arrays)."""
    return ...  # your code


# %%
spread = lesson.losses_of_seeds().std(axis=0, ddof=1)
apart = distance(losses[0], losses[1], spread)
zp.table(("distance of the two runs", "spreads of 8 seeds"),
         (f"largest, in step {apart.argmax() + 1}", f"{apart.max():.2f}"),
         ("median over the steps", f"{np.median(apart):.2f}"), ("in the last step", f"{apart[-1]:.2f}"))
lesson.draw_distance(apart)
zp.claim("1.1", apart.max() < 1,
         "in every step the two runs differ by less than the spread of the seeds")

# %% [markdown]
# So the curve is fine, and the optimizer is not: "one run" has the fault. The loss depends on the
# fault only through everything computed after it, and Adam hides many faults. It divides a gradient
# by the past magnitude of gradients, so a factor that is the same in every step cancels
# ([Adam:alg1](../papers/adam.md)); the distance above is the part that does not cancel.
#
# The alternative is to compare bits. The [contract](../common/CONTRACT.md) defines every bit of a
# step, so a digest is enough to check a buffer. `zeroproof train` writes digests to its log for
# every step: of the sum of gradients, the moments, the master weights and the parameters.
#
# **Guess first.** In which step do digests differ for the first time?

# %%
@lesson.blank
def first_difference(one, other):
    """The first step, counted from 1, in which two lists of digests differ, or "never"."""
    return ...  # your code


# %%
first = {name: first_difference(lesson.digests(one, name), lesson.digests(other, name)) for name in lesson.BUFFERS}
zp.table(("digests of", "first differ in step"), *first.items())
lesson.draw_digests(one, other)
zp.claim("1.2", first["master"] == 1 and first["grad_sum"] == 2,
         "in step 1 the gradients are correct and the master weights are wrong; from step 2 on "
         "all are wrong")

# %% [markdown]
# There are five more phases between the sum of gradients and the master weights. `zeroproof verify`
# runs each phase next to the reference, compares every buffer bit by bit, and passes the
# reference's values on to the next phase. The first difference is therefore *in* the phase where it
# is found, and not a consequence of an earlier one.

# %%
case = lesson.next_to_reference(fault="?1")
verdict = case["divergence"]
print(zp.place(case))
zp.claim("1.3", verdict["step"] == 1 and verdict["phase"] == "norm", "the first difference is in step 1, in the norm")

# %% [markdown]
# The norm is not a sum of floats here. Squares are added as integers, digit by digit (rule R12).
# The number above is one of those digits, a *limb*, so it can be compared without rounding error.
#
# **Guess first.** By what factor is it wrong? Which number of this run equals that factor?

# %%
got, want = zp.number(verdict["candidate"]), zp.number(verdict["reference"])
print(f"got / want = {got} / {want} = {got / want}")
zp.claim("1.4", got == 4 * want, "the limb is exactly 4 times the correct one, and there are 4 ranks")

# %%
whole = lesson.compared_buffers(case)
order = [row["buffer"] for row in whole]
before = whole[:order.index(verdict["buffer"])]
zp.table(("phase", "buffer", "compared", "differing"),
         *[(row["phase"], row["buffer"], f"{row['compared']:,}", row["differing"])
           for row in whole[:order.index("clip_coef") + 1]])
lesson.draw_comparison(case)
zp.claim("1.5", all(row["compared"] > 0 and row["differing"] == 0 for row in before),
         "every buffer compared before it is equal in every bit")

# %% [markdown]
# (In lock-step `clip_coef` and all later buffers are equal again, because they are computed from
# the reference's norm. Only the phase with the fault differs.)
#
# ## Find it
#
# A limb is 4 times too large on 4 ranks, in stage 0, where every rank has the whole gradient. Which
# of these faults is it? Put its name into `mine` and run the cell.
#
# | name | effect |
# |---|---|
# | `norm-squared-in-fp32` | the sum of squares is kept in fp32 |
# | `replicated-counted-per-rank` | the norm adds a replicated gradient once per rank |
# | `norm-differs-across-ranks` | one rank clips by the norm of its own shard |
# | `sum-instead-of-mean` | micro-batch gradients are summed, not averaged |

# %%
mine = ""
zp.guess("?1", mine)

# %% [markdown]
# ## Puzzle 1: three verdicts
#
# Three other faults in stage 2, and the place where each was found. Name their causes:
# `bf16-accumulator` (partial sums are kept in bf16), `accumulator-overwritten` (a later micro-batch
# overwrites the sum), `sum-instead-of-mean`, `double-unscale` (the loss scale is removed twice),
# `found-inf-not-global` (every rank detects overflow on its own shard only),
# `last-bucket-not-gathered`.

# %%
mine = {"?1a": "", "?1b": "", "?1c": ""}
for fault, answer in mine.items():
    print(zp.place(lesson.next_to_reference(fault, stage=2)))
    zp.guess(fault, answer)

# %% [markdown]
# ## Further reading
#
# - `build/zeroproof-faults explain NAME` shows the bug reports a fault is modelled on;
#   `build/zeroproof-faults faults NAME` runs the case that must find it.
# - The phase with the fault: [grad_norm.cpp](../reference/gradients/grad_norm.cpp), based on
#   [Norm:limbs](../papers/summation.md) and [Clip:coef](../papers/clipping.md). Lesson 5 covers it.
# - What must be equal on all ranks, and what must not: [ZeRO:replicas](../papers/zero.md).
