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
# fault. The lesson does not name the fault; it is modelled on a bug of a public library.

# %%
import zp  # first: reports missing packages

import numpy as np

STEPS = 60
FAULT = zp.sealed("cmVwbGljYXRlZC1jb3VudGVkLXBlci1yYW5r")
CONFIG = '[run]\ninitial_state = "zero"\noverflow_step = 0\n'
JOB = ("--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--stage", 0, "--steps", STEPS)


def losses(run):
    """Mean loss of each step, in nats per byte."""
    return np.array([step["loss"] for step in run])


one = zp.train(*JOB, config=CONFIG, fault=FAULT)
other = zp.train(*JOB, config=CONFIG)
rows = [(n, f"{one[n - 1]['loss']:.4f}", f"{other[n - 1]['loss']:.4f}") for n in range(10, STEPS + 1, 10)]
zp.table(("step", "one run", "the other"), *rows)

# %% [markdown]
# **Guess first.** Which of the two runs is broken? Would you have stopped it? Write your answer
# down before you continue.
#
# Two runs that differ only in the seed of their initial parameters also differ in loss. This spread
# is the usual, unstated yardstick: a change of the loss that is smaller than the effect of another
# seed is taken for noise.

# %%
seeds = np.array([losses(zp.train(*JOB, config=CONFIG + f"seed = {seed}\n")) for seed in range(2, 10)])
spread = seeds.std(axis=0, ddof=1)
apart = np.abs(zp.given("1.1", losses(one), losses(one) + 1) - losses(other)) / spread
zp.table(("distance of the two runs", "spreads of 8 seeds"),
         (f"largest, in step {apart.argmax() + 1}", f"{apart.max():.2f}"),
         ("median over the steps", f"{np.median(apart):.2f}"), ("in the last step", f"{apart[-1]:.2f}"))
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
suspect = zp.given("1.2", one, other)
first = {}
for name in ("grad_sum", "exp_avg", "exp_avg_sq", "master", "param_shard"):
    first[name] = next((a["step"] for a, b in zip(suspect, other) if a["sums"][name] != b["sums"][name]), "never")
zp.table(("digests of", "first differ in step"), *first.items())
zp.claim("1.2", first["master"] == 1 and first["grad_sum"] == 2,
         "in step 1 the gradients are correct and the master weights are wrong; from step 2 on "
         "all are wrong")

# %% [markdown]
# There are five more phases between the sum of gradients and the master weights. `zeroproof verify`
# runs each phase next to the reference, compares every buffer bit by bit, and passes the
# reference's values on to the next phase. The first difference is therefore *in* the phase where it
# is found, and not a consequence of an earlier one.

# %%
CASE = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--world", "threads:4", "--impl", "host")
planted = zp.given("1.3", FAULT, "sum-instead-of-mean")
case = zp.verify(*CASE, "--stage", 0, config=CONFIG, fault=planted)["cases"][0]
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
zp.claim("1.4", got == zp.given("1.4", 4, 3) * want,
         "the limb is exactly 4 times the correct one, and there are 4 ranks")

# %%
whole = [row for row in case["training"]["phases"] if row["against"] == "reference"]
order = [row["buffer"] for row in whole]
before = whole[:order.index(verdict["buffer"])]
shown = whole[:order.index("clip_coef") + 1]
zp.table(("phase", "buffer", "compared", "differing"),
         *[(row["phase"], row["buffer"], f"{row['compared']:,}", row["differing"]) for row in shown])
zp.claim("1.5", all(row["compared"] > 0 and row["differing"] == zp.given("1.5", 0, 1) for row in before),
         "every buffer compared before it is equal in every bit")

# %%
fig, (curves, path) = zp.figure(1, 2, height=3.2)
steps = np.arange(1, STEPS + 1)
curves.fill_between(steps, losses(other) - spread, losses(other) + spread, color="#d9d9d9", label="spread of 8 seeds")
curves.plot(steps, losses(other), label="correct")
curves.plot(steps, losses(one), label="with the fault")
curves.set(xlabel="step", ylabel="loss, nats per byte", title="loss curve")
curves.legend()
places = np.arange(len(whole))
share = [max(row["differing"] / row["compared"], 0.004) for row in whole]
path.barh(places, share, color=["#b34700" if row["differing"] else "#3a6ea5" for row in whole])
path.set(yticks=places, xlabel="share of the elements that differ", title="bit comparison",
         xlim=(0, 1.05))
path.set_yticklabels([row["buffer"] for row in whole])
path.invert_yaxis()
zp.show(fig, "Left: the loss curves of both runs coincide, inside the spread of seeds. Right: the "
             "share of "
             "elements that differ, for each buffer in the order of a step: only buffers of "
             "phase norm.")

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
print(zp.answer(mine, "cmVwbGljYXRlZC1jb3VudGVkLXBlci1yYW5r"))

# %% [markdown]
# ## Puzzle 1: three verdicts
#
# Three other faults in stage 2, and the place where each was found. Name their causes:
# `bf16-accumulator` (partial sums are kept in bf16), `accumulator-overwritten` (a later micro-batch
# overwrites the sum), `sum-instead-of-mean`, `double-unscale` (the loss scale is removed twice),
# `found-inf-not-global` (every rank detects overflow on its own shard only),
# `last-bucket-not-gathered`.

# %%
SEALS = ("YmYxNi1hY2N1bXVsYXRvcg==", "c3VtLWluc3RlYWQtb2YtbWVhbg==", "Zm91bmQtaW5mLW5vdC1nbG9iYWw=")
answers = ("", "", "")
for number, (seal, text) in enumerate(zip(SEALS, answers), 1):
    print(f"verdict {number}: {zp.place(zp.verify(*CASE, '--stage', 2, fault=zp.sealed(seal))['cases'][0])}")
    print(f"  your answer: {zp.answer(text, seal)}")

# %% [markdown]
# ## Further reading
#
# - `build/zeroproof-faults explain NAME` shows the bug reports a fault is modelled on;
#   `build/zeroproof-faults faults NAME` runs the case that must find it.
# - The phase with the fault: [grad_norm.cpp](../reference/gradients/grad_norm.cpp), based on
#   [Norm:limbs](../papers/summation.md) and [Clip:coef](../papers/clipping.md). Lesson 5 covers it.
# - What must be equal on all ranks, and what must not: [ZeRO:replicas](../papers/zero.md).
