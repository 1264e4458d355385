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
import zp  # first: reports missing packages
import zp_lesson05 as lesson

import numpy as np

gradient = np.array([1e20, 1, 1], np.float32)
in_fp32 = lesson.norm_in_fp32(gradient)
norms = {"in fp32": (in_fp32, lesson.clip_coef(in_fp32)), "zeroproof": lesson.norm_of_the_program(gradient)}
zp.table(("norm of 1e20, 1, 1", "norm", "clip_coef", "1e20 after clipping"),
         *[(name, norm, f"{coef:.3g}", f"{gradient[0] * coef:.3g}") for name, (norm, coef) in norms.items()])
norm, coef = norms["zeroproof"]
zp.claim("5.1", np.isinf(in_fp32) and norms["in fp32"][1] == 0 and np.isfinite(norm) and coef > 0,
         "in fp32 the norm of a finite gradient is infinite, and clipping sets all of it to 0")

# %% [markdown]
# The square of an fp32 number has at most 48 significant bits and always fits into fp64
# ([Norm:chunk](../papers/summation.md)), so fp64 prevents overflow. It does not make ranks agree:
# fp64 sums are rounded too, and depend on their order (lesson 2).
#
# Rule R12 therefore switches from floats to integers. 1024 neighbours are added in fp64, in one
# fixed order: a *chunk*, which is never split over two ranks. Every chunk value is an integer
# multiple of 2^-352, and from there on integers are added. Ranks send the integer as *limbs*,
# digits of 32 bits.

# %%
lesson.draw_norm()

# %% [markdown]
# **Your code.** Write both steps. `squares` has 32 rows of 32 squares in fp64. First the rows are
# added, from the first to the last, which gives 32 lanes. Then the upper half of the lanes is added
# to the lower half (lane 0 and lane 16, 1 and 17, ...), until one is left. Correct functions are
# used below; otherwise the lesson continues with its own.

# %%
@lesson.blank
def chunk_value(squares):
    """The sum of the squares of a chunk, an fp64 number, in the order above."""
    return ...  # your code


@lesson.blank
def limbs(total):
    """A Python integer as a list of 21 digits of 32 bits, the lowest digit first."""
    return ...  # your code


# %%
def chunks_of_step(gradients):
    return [chunk for g in gradients.values() for chunk in lesson.chunks_of(g, chunk_value)]


ours = {}
for step in lesson.STEPS:
    integers = [lesson.as_integer(chunk) for chunk in chunks_of_step(lesson.gradients(step))]
    ours[step] = lesson.norm_of(sum(integers))
zp.table(("step", "norm, here", "norm, zeroproof", "norm"),
         *[(step, zp.hexadecimal(norm), zp.hexadecimal(lesson.norm_in_dump(step)), f"{norm:.6f}")
           for step, norm in ours.items()])
zp.claim("5.2", all(zp.different(norm, lesson.norm_in_dump(step)) == 0 for step, norm in ours.items()),
         "a few lines of numpy give zeroproof's norm in every bit, in every step")

# %% [markdown]
# **Guess first.** Distribute the chunks of step 1 over 1 to 8 ranks, in a hundred random orders.
# How many different norms result if the ranks add floats (fp64)? How many if they add integers?

# %%
chunks = chunks_of_step(lesson.gradients(1))
as_integers = [lesson.as_integer(chunk) for chunk in chunks]
floats = lesson.distributed(chunks, lambda a, b: a + b)
integers = lesson.distributed(as_integers, lambda a, b: a + b)
zp.table(("a hundred distributions", "different sums"), ("of floats", len(floats)),
         ("of integers", len(integers)))
lesson.draw_limbs(chunks)
zp.claim("5.3", len(floats) > 1 and len(integers) == 1,
         "sums of floats depend on the order, sums of integers do not")

# %% [markdown]
# Each bar is one chunk, 53 bits long. Adding integers never rounds: distant bits are stored in
# different limbs. Ranks exchange only 23 numbers per step (21 limbs, and the counts of NaN and
# infinity).
#
# **Guess first.** With `max_norm = 0.52` a log contains the norm 0.5628. Is clipping broken?

# %%
rows = []
for step in lesson.STEPS:
    coef = lesson.coef_in_dump(step)
    if coef < 1:
        after = {name: g * coef for name, g in lesson.gradients(step).items()}
        total = sum(map(lesson.as_integer, chunks_of_step(after)))
        rows.append((step, lesson.norm_in_dump(step), lesson.norm_of(total)))
zp.table(("step", "reported norm", "norm after clipping"), *[(step, f"{a:.9f}", f"{b:.9f}") for step, a, b in rows])
lesson.draw_clipping(rows)
zp.claim("5.4", len(rows) > 0 and all(reported > lesson.MAX_NORM >= after for _, reported, after in rows),
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
counts = {steps: lesson.differing_after(steps, fault="sum-instead-of-mean") for steps in (1, 5)}
zp.table(("elements that differ", *[f"after step {steps}" for steps in counts]),
         *[(buffer, *[f"{of[buffer]:,}" for of in counts.values()]) for buffer in counts[1]])
lesson.draw_differing(counts)
zp.claim("5.5", counts[1]["param"] == 0 and counts[1]["exp_avg"] > 0,
         "after a step with gradients 7 times too large every parameter is correct, and the "
         "moments are not")

# %% [markdown]
# A comparison of parameters after a step, with a tolerance or in bits, finds nothing; a comparison
# of moments finds it at once; a comparison phase by phase finds it in `step_scalars`, before
# anything is added (the second verdict of puzzle 1).
#
# ## Find it
#
# A limb is exactly twice its correct value, and the whole sum of squares is 1.339 times too large.
# Limb 6 is one of the lowest: which tensors have a nonzero value there? What do they have in common
# that a kernel might treat separately?

# %%
case, factor = lesson.wrong_limb()
print(f"{zp.place(case)}\n  sum of squares, wrong / correct: {factor:.3f}")
for name, g in lesson.gradients(1).items():
    digits = limbs(sum(map(lesson.as_integer, lesson.chunks_of(g))))
    if digits[6]:
        print(f"  {name} {list(g.shape)} has {digits[6]:#x} in limb 6")
mine = ""
zp.guess("?5", mine)

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
