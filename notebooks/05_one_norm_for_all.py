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
# # 5. One norm for all
#
# **Question.** Gradient clipping needs one number, the length of the whole gradient, and no rank has the whole
# gradient. What can go wrong with one number?
#
# 25 minutes. With `N` the norm, every element is multiplied by `min(1, max_norm / (N + 1e-6))`
# ([Clip:coef](../papers/clipping.md)). A wrong norm shortens *every* gradient by the wrong factor, on every rank.
#
# **Guess first.** A gradient has the elements 1e20, 1 and 1. All are finite fp32 numbers. The squares are added in
# fp32, as a kernel might do it. What is the norm, and what is left of the gradient?

# %%
import math
import pathlib
import random
import tempfile
from fractions import Fraction

import zp  # first: it says what is missing

import numpy as np

MAX_NORM = 0.52


def clip_coef(norm):
    """R12: in fp64, then rounded to fp32 once."""
    q = np.float64(MAX_NORM) / (np.float64(norm) + np.float64(1e-6))
    return np.float32(q if q < 1 else 1)


def norm_of_the_program(gradient):
    """grad_norm and clip_coef of a step with this gradient, from the program."""
    with tempfile.TemporaryDirectory() as folder:
        path, settings = pathlib.Path(folder, "leaf.safetensors"), pathlib.Path(folder, "settings.toml")
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
zp.table(("norm of 1e20, 1, 1", "norm", "clip_coef", "what becomes of 1e20"),
         ("in fp32", in_fp32, clip_coef(in_fp32), gradient[0] * clip_coef(in_fp32)),
         ("zeroproof", norm, f"{coef:.3g}", f"{gradient[0] * np.float32(coef):.3g}"))
zp.claim("5.1", np.isinf(in_fp32) and clip_coef(in_fp32) == 0 and math.isfinite(norm) and coef > 0,
         "in fp32 the norm of a finite gradient is infinite, and clipping then erases all of it, with no warning")

# %% [markdown]
# The square of an fp32 number has at most 48 significant bits and fits into fp64 with room to spare
# ([Norm:chunk](../papers/summation.md)), so fp64 is enough against overflow. It is not enough for ranks to agree: fp64
# sums are rounded too, and lesson 2 holds for them.
#
# Rule R12 therefore changes the number system on the way. 1024 neighbours are added in fp64, in one fixed order: a
# *chunk*, which never lies on two ranks. Every chunk value is an integer multiple of 2^-352, and from there on integers
# are added. Here is all of it, in numpy and Python's integers; `Fraction` makes no rounding.


# %%
def chunk_values(tensor):
    """32 lanes add the squares of 1024 elements in fp64, then the lanes are folded; R12, form chunk1024."""
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
    """What a chunk adds to the sum: an integer of units 2^-352."""
    units = Fraction(float(chunk)) * 2**352
    assert units.denominator == 1
    return int(units)


def limbs(total):
    """The integer as 21 digits of 32 bits, as ranks send it."""
    return [(total >> (32 * i)) & 0xFFFFFFFF for i in range(21)]


def norm_of(total):
    """Rounded to fp64 once (division of integers is, in Python), then a correctly rounded root."""
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
zp.claim("5.2", all(equal), "thirty lines of numpy have the program's norm in every bit, in every step")

# %% [markdown]
# **Guess first.** Deal the chunks of step 1 to 1 to 8 ranks, in a hundred random orders. How many different norms come
# out if the ranks add floats (fp64)? How many if they add integers?

# %%
chunks = np.array([chunk for g in gradients(1).values() for chunk in chunk_values(g)])
cards = random.Random(5)


def dealt(add):
    """Sums of a hundred ways to deal the chunks to ranks; each rank adds its own, then the ranks' sums are added."""
    results = set()
    for way in range(100):
        order = list(range(len(chunks)))
        cards.shuffle(order)
        total = None
        for hand in np.array_split(order, 1 + way % 8):
            own = None
            for i in hand:
                own = add(chunks[i], None) if own is None else add(chunks[i], own)
            total = own if total is None else total + own
        results.add(total)
    return results


floats = dealt(lambda chunk, total: chunk if total is None else total + chunk)
integers = dealt(zp.given("5.3", lambda chunk, total: as_integer(chunk) + (total or 0),
                          lambda chunk, total: chunk if total is None else total + chunk))
zp.table(("a hundred ways", "different sums"), ("of floats", len(floats)), ("of integers", len(integers)))
zp.claim("5.3", len(floats) > 1 and len(integers) == 1, "floats have an order and integers have none")

# %% [markdown]
# **Guess first.** With `max_norm = 0.52` a log shows the norm 0.5628. Is clipping broken?

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
zp.table(("step", "norm that is reported", "norm after clipping"), *rows)
zp.claim("5.4", len(clipped) > 0 and all(right), "the reported norm is that before clipping; after it max_norm holds")

# %% [markdown]
# What remains is a little *below* `max_norm`: that is the `1e-6` in the formula, and right.
#
# Clipping is also a good place to hide. A bug that multiplies the whole gradient by a constant is divided out again by
# the norm, if clipping binds. Here production forgets the mean and steps with the *sum* over 7 micro-batches.
#
# **Guess first.** Gradients are 7 times too large, clipping binds in both runs. How many of the 12,269 bf16 parameters
# differ after the first step?

# %%
config = '[run]\ninitial_state = "zero"\noverflow_step = 0\n'
job = ("--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--stage", 1, "--max-norm", MAX_NORM)


def after(steps, fault):
    return zp.trained(*job, "--steps", steps, config=config, fault=fault)


fault = zp.given("5.5", "sum-instead-of-mean", "decay-after-update")
buffers, counts = ("param", "master", "exp_avg", "exp_avg_sq"), {}
for steps in (1, 5):
    right, wrong = after(steps, ""), after(steps, fault)
    for buffer in buffers:
        of = [name for name in right if name.startswith(buffer + ".")]
        counts[buffer, steps] = sum(zp.different(right[name], wrong[name]) for name in of)
zp.table(("elements that differ", "after step 1", "after step 5"),
         *[(buffer, *[f"{counts[buffer, steps]:,}" for steps in (1, 5)]) for buffer in buffers])
zp.claim("5.5", counts["param", 1] == 0 and counts["exp_avg", 1] > 0,
         "after a step with gradients 7 times too large every parameter is right, and the moments are not")

# %% [markdown]
# Who compares parameters after a step, with a tolerance or in bits, sees nothing; who compares moments sees it at once;
# and who compares phase by phase sees it in `step_scalars`, before anything is added (the second verdict of puzzle 1).

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
zp.show(fig, "A ruler of 21 limbs of 32 bits from 2^-352 to 2^320. The chunks of step 1, on four ranks, lie on it as "
             "bars of 53 bits below 1; the smallest and the largest square that fp32 has are inside the ruler.")

# %% [markdown]
# Each bar is one chunk, 53 bits long. Adding integers never rounds: bits that lie far apart simply stand on different
# limbs. 23 numbers a step (21 limbs, and counts of NaN and infinity) are all that ranks have to tell each other.
#
# ## Find it
#
# A limb is exactly twice what it should be, and the sum of squares as a whole is 1.339 times too large. Limb 6 is far
# down: which tensors have anything there? What do they have in common that a kernel might treat apart?

# %%
fault = zp.sealed("c2hvcnQtcGllY2VzLWNvdW50ZWQtdHdpY2U=")
case = zp.verify(*run[1:-2], "--world", "threads:4", "--stage", 2, "--steps", 1, fault=fault)["cases"][0]
print(zp.place(case))
norms = [zp.train(*job, "--steps", 1, config=config, fault=planted)[0]["grad_norm"] for planted in (fault, "")]
print(f"  sum of squares, wrong / right: {(norms[0] / norms[1])**2:.3f}")
for name, g in gradients(1).items():
    digits = limbs(sum(as_integer(chunk) for chunk in chunk_values(g)))
    if digits[6]:
        print(f"  {name} {list(g.shape)} has {digits[6]:#x} in limb 6")
mine = ""
print(zp.answer(mine, "c2hvcnQtcGllY2VzLWNvdW50ZWQtdHdpY2U="))

# %% [markdown]
# The names to choose from: `norm-squared-in-fp32`, `norm-differs-across-ranks`, `replicated-counted-per-rank`,
# `short-pieces-counted-twice`, `inf-norm-takes-root`. (Why is the gradient of these tensors so small? A bias of all
# keys moves every score of a query by the same amount, and softmax does not see it: what is left is rounding.)
#
# ## Puzzle 6
#
# Write it yourself, on virtual ranks, in bits and within the bytes of the plan:
# `python3 notebooks/puzzle start unscale`, then `... start clip` ([how](puzzles/README.md)). And one on paper: in stage
# 0 every rank has all elements and counts all; with tensor parallelism some tensors lie whole on every rank and others
# are cut. Who counts what, so that every square is counted once? R12 answers it in one sentence; then look at the fault
# `replica-counted-as-shard` (`build/zeroproof-faults explain replica-counted-as-shard`).
#
# ## From here
#
# - [grad_norm.cpp](../reference/gradients/grad_norm.cpp), [limb_deposit.cpp](../reference/gradients/limb_deposit.cpp),
#   [clip.cpp](../reference/gradients/clip.cpp).
# - That nothing overflows and nothing falls off: [Norm:limbs, Norm:range, Norm:carry](../papers/summation.md). What
#   clipping promises: [Clip:coef](../papers/clipping.md).
