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
# # 5. One norm for all ranks
#
# **Question.** Gradient clipping needs one number, the norm of the whole gradient, and no rank has
# the whole gradient. What can go wrong?
#
# 25 minutes. With norm `N`, every element is multiplied by `min(1, max_norm / (N + 1e-6))`
# ([Clip:coef](../papers/clipping.md)). A wrong norm scales *every* gradient by the wrong factor, on
# every rank.
#
# **Guess first.** A gradient has the elements 1e20, 1 and 1, all of them finite fp32 numbers. The
# squares are added in fp32, as in a simple kernel. What is the norm, and what remains of the
# gradient?

# %%
import math
import pathlib
import random
import tempfile
from fractions import Fraction

import zp  # first: reports missing packages

import numpy as np

MAX_NORM = 0.52


def clip_coef(norm):
    """R12: in fp64, then rounded to fp32 once."""
    q = np.float64(MAX_NORM) / (np.float64(norm) + np.float64(1e-6))
    return np.float32(q if q < 1 else 1)


def norm_of_the_program(gradient):
    """zeroproof's grad_norm and clip_coef of a step with this gradient."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "gradient.safetensors")
        settings = pathlib.Path(folder, "settings.toml")
        zp.write_tensors(path, {"grad.1.0.x": gradient}, steps=1, micro_batches=1)
        settings.write_text(f"[optimizer]\nmax_norm = {MAX_NORM}\n")
        run = ("verify", "--gradients", path, "--config", settings, "--recipe", "adamw", "--dtype", "fp32")
        dump = zp.file_of(*run, "--stage", 2, "--impl", "host", "--world", "threads:2", option="--dump")
    return dump["grad_norm.1"].item(), dump["clip_coef.1"].item()


gradient = np.array([zp.given("5.1", 1e20, 1e10), 1, 1], np.float32)
with np.errstate(over="ignore"):
    x = gradient[0] * gradient[0], gradient[1] * gradient[1], gradient[2] * gradient[2]
    in_fp32 = np.sqrt((x[0] + x[1]) + x[2])
norm, coef = norm_of_the_program(gradient)
zp.table(("norm of 1e20, 1, 1", "norm", "clip_coef", "1e20 after clipping"),
         ("in fp32", in_fp32, clip_coef(in_fp32), gradient[0] * clip_coef(in_fp32)),
         ("zeroproof", norm, f"{coef:.3g}", f"{gradient[0] * np.float32(coef):.3g}"))
zp.claim("5.1", np.isinf(in_fp32) and clip_coef(in_fp32) == 0 and math.isfinite(norm) and coef > 0,
         "in fp32 the norm of a finite gradient is infinite, and clipping sets all of it to 0 "
         "without warning")

# %% [markdown]
# The square of an fp32 number has at most 48 significant bits and always fits into fp64
# ([Norm:chunk](../papers/summation.md)), so fp64 prevents overflow. It does not make ranks agree:
# fp64 sums are rounded too, and depend on their order (lesson 2).
#
# Rule R12 therefore switches from floats to integers. 1024 neighbours are added in fp64, in one
# fixed order: a *chunk*, which is never split over two ranks. Every chunk value is an integer
# multiple of 2^-352, and from there on integers are added. Here is the complete computation, in
# numpy and Python's integers; `Fraction` is exact.


# %%
def chunk_values(tensor):
    """R12, form chunk1024: 32 lanes add the squares of 1024 elements in fp64, then are added."""
    wide = np.zeros(-(-tensor.size // 1024) * 1024)
    wide[:tensor.size] = tensor.ravel()  # exact; elements past the end count +0
    rows = wide.reshape(-1, 32, 32)
    lanes = np.zeros((len(rows), 32))
    for s in range(32):
        lanes = lanes + rows[:, s, :] * rows[:, s, :]
    width = 16
    while width:
        lanes = lanes[:, :width] + lanes[:, width:2 * width]
        width //= 2
    return lanes[:, 0]


def as_integer(chunk):
    """A chunk as an integer number of units 2^-352."""
    units = Fraction(float(chunk)) * 2**352
    assert units.denominator == 1
    return int(units)


def limbs(total):
    """The integer as 21 digits of 32 bits, the form that ranks send."""
    return [(total >> (32 * i)) & 0xFFFFFFFF for i in range(21)]


def norm_of(total):
    """One rounding to fp64 (Python's division of integers), then a correctly rounded root."""
    return math.sqrt(total / 2**352)


def tree(leaves):
    leaves = list(leaves)
    while len(leaves) > 1:
        last = leaves[-1:] if len(leaves) % 2 else []
        leaves = [left + right for left, right in zip(leaves[0::2], leaves[1::2])] + last
    return leaves[0]


recorded = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16")
names = recorded.metadata["order"].splitlines()
run = ("verify", "byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--world", "self")
dump = zp.file_of(*run, "--stage", 1, "--dump-steps", "1,2,4,5,6", option="--dump")  # step 3 overflows, on purpose


def gradients(step):
    """g1 of R6: the mean over the micro-batches of a step, tensor by tensor."""
    inv_scale = dump[f"step_scalars.inv_scale.{step}"]
    return {name: tree([recorded[f"grad.{step}.{j}.{name}"] for j in range(7)]) * inv_scale for name in names}


rows, equal = [], []
for step in (1, 2, 4, 5, 6):
    chunks = [chunk for g in gradients(step).values() for chunk in chunk_values(g)]
    ours = np.float64(norm_of(sum(as_integer(zp.given("5.2", chunk, np.float32(chunk))) for chunk in chunks)))
    theirs, coef = dump[f"grad_norm.{step}"].reshape(()), dump[f"clip_coef.{step}"].item()
    equal.append(zp.different(ours, theirs) == 0)
    rows.append((step, zp.hexadecimal(ours), zp.hexadecimal(theirs), f"{ours:.6f}", f"{coef:.6f}"))
zp.table(("step", "norm, here", "norm, zeroproof", "norm", "clip_coef"), *rows)
zp.claim("5.2", all(equal),
         "thirty lines of numpy give zeroproof's norm in every bit, in every step")

# %% [markdown]
# **Guess first.** Distribute the chunks of step 1 over 1 to 8 ranks, in a hundred random orders.
# How many different norms result if the ranks add floats (fp64)? How many if they add integers?

# %%
chunks = np.array([chunk for g in gradients(1).values() for chunk in chunk_values(g)])
chance = random.Random(5)


def distributed(add):
    """Sums of a hundred random distributions: each rank adds its chunks, then sums are added."""
    results = set()
    for trial in range(100):
        order = list(range(len(chunks)))
        chance.shuffle(order)
        total = None
        for own_chunks in np.array_split(order, 1 + trial % 8):
            own = None
            for i in own_chunks:
                own = add(chunks[i], None) if own is None else add(chunks[i], own)
            total = own if total is None else total + own
        results.add(total)
    return results


floats = distributed(lambda chunk, total: chunk if total is None else total + chunk)
integers = distributed(zp.given("5.3", lambda chunk, total: as_integer(chunk) + (total or 0),
                                lambda chunk, total: chunk if total is None else total + chunk))
zp.table(("a hundred distributions", "different sums"), ("of floats", len(floats)),
         ("of integers", len(integers)))
zp.claim("5.3", len(floats) > 1 and len(integers) == 1,
         "sums of floats depend on the order, sums of integers do not")

# %% [markdown]
# **Guess first.** With `max_norm = 0.52` a log contains the norm 0.5628. Is clipping broken?

# %%
coefs = {step: np.float32(dump[f"clip_coef.{step}"].item()) for step in (1, 2, 4, 5, 6)}
clipped = [step for step in coefs if coefs[step] < 1]
rows, right = [], []
for step in clipped:
    after = {name: g * zp.given("5.4", coefs[step], np.float32(1)) for name, g in gradients(step).items()}
    norm = norm_of(sum(as_integer(chunk) for g in after.values() for chunk in chunk_values(g)))
    reported = dump[f"grad_norm.{step}"].item()
    right.append(reported > MAX_NORM >= norm)
    rows.append((step, f"{reported:.9f}", f"{norm:.9f}"))
zp.table(("step", "reported norm", "norm after clipping"), *rows)
zp.claim("5.4", len(clipped) > 0 and all(right),
         "the reported norm is the one before clipping; afterwards the norm is at most max_norm")

# %% [markdown]
# The norm after clipping is slightly *below* `max_norm`: that is the effect of the `1e-6` in the
# formula, and correct.
#
# Clipping can also hide a bug. A bug that multiplies the whole gradient by a constant is divided
# out by the norm if clipping is active. Here production omits the mean and steps with the *sum*
# over 7 micro-batches.
#
# **Guess first.** Gradients are 7 times too large, and clipping is active in both runs. How many of
# the 12,269 bf16 parameters differ after the first step?

# %%
config = '[run]\ninitial_state = "zero"\noverflow_step = 0\n'
job = ("--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--stage", 1, "--max-norm", MAX_NORM)


def after(steps, fault):
    return zp.trained(*job, "--steps", steps, config=config, fault=fault)


fault = zp.given("5.5", "sum-instead-of-mean", "decay-after-update")
buffers, counts = ("param", "master", "exp_avg", "exp_avg_sq"), {}
for steps in (1, 5):
    correct, wrong = after(steps, ""), after(steps, fault)
    for buffer in buffers:
        of = [name for name in correct if name.startswith(buffer + ".")]
        counts[buffer, steps] = sum(zp.different(correct[name], wrong[name]) for name in of)
zp.table(("elements that differ", "after step 1", "after step 5"),
         *[(buffer, *[f"{counts[buffer, steps]:,}" for steps in (1, 5)]) for buffer in buffers])
zp.claim("5.5", counts["param", 1] == 0 and counts["exp_avg", 1] > 0,
         "after a step with gradients 7 times too large every parameter is correct, and the "
         "moments are not")

# %% [markdown]
# A comparison of parameters after a step, with a tolerance or in bits, finds nothing; a comparison
# of moments finds it at once; a comparison phase by phase finds it in `step_scalars`, before
# anything is added (the second verdict of puzzle 1).

# %%
fig, axes = zp.figure(height=2.8)
total = [as_integer(chunk) for chunk in chunks if chunk > 0]
for rank in range(4):
    for units in total[rank::4]:
        top = units.bit_length() - 352
        axes.plot([top - 53, top], [rank, rank], color="#000000", linewidth=5, linestyle="-", alpha=0.25)
for i in range(22):
    axes.axvline(32 * i - 352, color="#c8c8c8", linewidth=0.6, linestyle="-")
for bit, what in ((-298, "smallest\nsquare"), (133, "1e20\nsquared"), (256, "largest\nsquare")):
    axes.axvline(bit, color="#b34700", linewidth=1)
    axes.text(bit + 4, -0.75, what, ha="left", va="bottom", fontsize=8, color="#b34700")
axes.set(xlim=(-360, 330), ylim=(3.6, -1.6), xlabel="exponent of two (a grey line every 32 bits: 21 limbs)")
axes.set_yticks(range(4), [f"rank {rank}" for rank in range(4)])
zp.show(fig, "A scale of 21 limbs of 32 bits from 2^-352 to 2^320. The chunks of step 1, on four "
             "ranks, are drawn as "
             "bars of 53 bits below 1; the smallest and the largest square of fp32 are inside "
             "the scale.")

# %% [markdown]
# Each bar is one chunk, 53 bits long. Adding integers never rounds: distant bits are stored in
# different limbs. Ranks exchange only 23 numbers per step (21 limbs, and the counts of NaN and
# infinity).
#
# ## Find it
#
# A limb is exactly twice its correct value, and the whole sum of squares is 1.339 times too large.
# Limb 6 is one of the lowest: which tensors have a nonzero value there? What do they have in common
# that a kernel might treat separately?

# %%
fault = zp.sealed("c2hvcnQtcGllY2VzLWNvdW50ZWQtdHdpY2U=")
case = zp.verify(*run[1:-2], "--world", "threads:4", "--stage", 2, "--steps", 1, fault=fault)["cases"][0]
print(zp.place(case))
norms = [zp.train(*job, "--steps", 1, config=config, fault=planted)[0]["grad_norm"] for planted in (fault, "")]
print(f"  sum of squares, wrong / correct: {(norms[0] / norms[1])**2:.3f}")
for name, g in gradients(1).items():
    digits = limbs(sum(as_integer(chunk) for chunk in chunk_values(g)))
    if digits[6]:
        print(f"  {name} {list(g.shape)} has {digits[6]:#x} in limb 6")
mine = ""
print(zp.answer(mine, "c2hvcnQtcGllY2VzLWNvdW50ZWQtdHdpY2U="))

# %% [markdown]
# Names to choose from: `norm-squared-in-fp32`, `norm-differs-across-ranks`,
# `replicated-counted-per-rank`, `short-pieces-counted-twice`, `inf-norm-takes-root`. (Why is the
# gradient of these tensors so small? A bias of all keys adds the same amount to every score of a
# query, and softmax is invariant to it: the gradient is rounding error.)
#
# ## Puzzle 6
#
# Write it yourself, on virtual ranks, in bits and within the bytes of the plan: `python3
# notebooks/puzzle start unscale`, then `... start clip` ([how](puzzles/README.md)). And one on
# paper: in stage 0 every rank has all elements and counts all; with tensor parallelism some tensors
# are replicated on every rank and others are split. Which rank counts which elements, so that every
# square is counted once? R12 answers it in one sentence; then look at the fault
# `replica-counted-as-shard` (`build/zeroproof-faults explain replica-counted-as-shard`).
#
# ## Further reading
#
# - [grad_norm.cpp](../reference/gradients/grad_norm.cpp),
#   [limb_deposit.cpp](../reference/gradients/limb_deposit.cpp),
#   [clip.cpp](../reference/gradients/clip.cpp).
# - Why nothing overflows and no bit is lost: [Norm:limbs, Norm:range,
#   Norm:carry](../papers/summation.md). What clipping guarantees:
#   [Clip:coef](../papers/clipping.md).
