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
# # 10. Resuming on another number of ranks
#
# **Question.** A run on five ranks is stopped and continues on three. Which data must the files
# contain so that the result is the same?
#
# 25 minutes. The owner of an element does not influence its value (lesson 6), so a shard can move
# to another rank between two steps: this is *resharding*. Here production makes three steps on W
# ranks, saves its shards and is destroyed; created again on W' ranks, it reads the files and makes
# three more steps. Every buffer of these is compared with a reference that never stopped.
#
# **Guess first.** W and W' from 1 to 6: 36 pairs. Other ranks compute the gradient sum of a step,
# from other micro-batches. In how many of the 36 do the results differ in any bit?

# %%
import zp  # first: reports missing packages
import zp_lesson10 as lesson

import numpy as np

cases, status = lesson.resume_all_pairs(fault="")
lesson.draw_pairs(status)
compared, differing = [sum(case[what] for case in cases) for what in ("compared", "differing")]
print(f"{compared:,} elements compared, {differing:,} differ")
zp.claim("10.1", list(status.values()) == ["pass"] * 36 and compared > 0 and differing == 0,
         "from every number of ranks to every other, a resumed run equals the uninterrupted one "
         "in every bit")

# %% [markdown]
# This requires two rules: the sum of gradients has one order, whichever ranks add (lesson 2), and
# the norm is a sum of integers (lesson 5). A library that adds around a ring has other bits after
# such a resume, so a wrong resume cannot be distinguished from a sum in another order.
#
# Now the files themselves. `zeroproof train` writes them, and `zeroproof checkpoint` reads them.
# Five ranks save the strip above, and three read the strip below:

# %%
lesson.draw_pieces((5, 3))

# %% [markdown]
# **Guess first.** Each of five ranks saves a file of its own. Which information must a file contain
# besides the values, so that each of three ranks can find its elements?
#
# **Your code.** A rank needs the elements from `begin` to `end - 1`. From which files does it read
# which of them? A correct function is used below; otherwise the lesson continues with its own.

# %%
@lesson.blank
def needed(begin, end, files):
    """The parts to read, as (rank, begin, end), in the order of `files`.

    files: for each piece its rank, first element and length, as (rank, first, numel). Parts without
    elements are left out.
    """
    return ...  # your code, a few lines


# %%
reads = {rank: [part for begin, end in lesson.ranges_of(3, rank) for part in needed(begin, end, lesson.pieces(5))]
         for rank in range(3)}
zp.table(("rank of three", "elements", *[f"of old rank {old}" for old in range(5)]),
         *[(rank, sum(end - begin for _, begin, end in parts),
            *[sum(end - begin for one, begin, end in parts if one == old) for old in range(5)])
           for rank, parts in reads.items()])

# %%
end = {ranks: lesson.resume(ranks) for ranks in lesson.WORLDS}
zp.table(("ranks", "stage", "pieces", f"digest after step {lesson.STEPS}"),
         *[(ranks, lesson.stage_of(ranks), len(lesson.pieces(ranks)), end[ranks][:8]) for ranks in end])
_, uninterrupted = lesson.uninterrupted()
print(f"uninterrupted run: {uninterrupted[:8]}")
zp.claim("10.2", set(end.values()) == {uninterrupted},
         "through files too, on 1 to 6 ranks, in three stages, all runs end in one state")

# %% [markdown]
# A piece records its tensor, its first element there and its length; it does not record "rank 2 of
# 5". A reader requests elements, not ranks. (Rank 0 of five owns nothing: every bucket is
# partitioned on its own, in multiples of 1024, and has only four of these.)
#
# The saved values are master, both moments and the counters. **Guess first.** No file contains the
# bf16 parameters. Why can they be omitted? And why can the master not be omitted, if the parameters
# are saved instead?

# %%
state, rounding = lesson.state(), zp.to_bf16
rebuilt = {**state, **{name: rounding(value) for name, value in lesson.masters(state).items()}}
changed = lesson.changed_elements(rebuilt)
numel = sum(value.size for value in lesson.masters(state).values())
recast = sum(zp.different(zp.to_bf16(rebuilt[name]), zp.to_bf16(state[name])) for name in lesson.masters(state))
print(f"masters rebuilt from bf16: {changed:,} of {numel:,} differ; parameters cast from them: {recast} differ")

# %%
off, same_end = lesson.resume_with(rebuilt)
spread = lesson.spread_of_seeds()
typical = float(np.median(spread))
zp.table(("difference of losses", "first", "largest", "median over steps"),
         ("master from bf16", f"{off[0]:g}", f"{off.max():.6f}", f"{np.median(off):.6f}"),
         ("two seeds", "", f"{spread.max():.6f}", f"{typical:.6f}"))
zp.claim("10.3", changed == numel and recast == 0 and off[0] == 0 and 0 < off.max() < typical / 10 and not same_end,
         "a master from bf16 differs in every element, and losses differ by under a tenth of two "
         "seeds' difference")

# %% [markdown]
# Parameters are the rounded master: they can be recomputed from it, and it cannot be recomputed
# from them.
#
# After how many steps does the loss curve show the difference? Here: never. The parameters are the
# same at first, so the first loss is; later differences are smaller than those between two seeds.
# The error is real all the same: up to half an ulp of bf16, in each element, at each resume. A run
# that resumes after every step has no master at all, and lesson 3 shows the consequence.
#
# **Guess first.** A resume omits a moment instead, which then begins at zero. Which omission does a
# curve show: the first moment or the second?
#
# **Your code.** Omit it. Tensors are named BUFFER.NAME: `exp_avg.head.weight`,
# `exp_avg_sq.head.weight`.

# %%
@lesson.blank
def omit(tensors, buffer):
    """A dictionary of the same tensors, in which every tensor of this buffer is zero."""
    return ...  # your code


# %%
curves = {"master from bf16": off}
for buffer in ("exp_avg", "exp_avg_sq"):
    curves[f"no {buffer}"], _ = lesson.resume_with(omit(state, buffer))
zp.table(("difference of losses", f"step {lesson.STOPPED + 1}", f"step {lesson.STOPPED + 2}", "largest", "above"),
         *[(name, *[f"{value:.6f}" for value in (curve[0], curve[1], curve.max())], f"{(curve > typical).sum()} steps")
           for name, curve in curves.items()])
lesson.draw_losses(curves, spread)
first, second = curves["no exp_avg"], curves["no exp_avg_sq"]
zp.claim("10.4", second[0] == first[0] == 0 and second.max() > 10 * first.max() and second[1] == second.max()
         and 0 < first.max() < spread.max(), "without the second moment the next loss jumps; without "
         "the first it stays within that of two seeds")

# %% [markdown]
# The first moment is only a direction and recovers quickly. **Guess first.** With a second moment
# of zero, a step divides by the contribution of the new gradient alone, a few times too small for
# most elements. Why does the loss explode?

# %%
moved, second_moment = lesson.step_after(omit(state, "exp_avg_sq"))
unseen = second_moment == 0
zp.table((f"step {lesson.STOPPED + 1}", "elements", "median move", "largest move"),
         *[(name, f"{own.sum():,}", f"{np.median(moved[own]):.4f}", f"{moved[own].max():.4f}")
           for name, own in (("gradient not 0", ~unseen), ("gradient 0", unseen))])
lesson.draw_moves(moved, unseen)

# %% [markdown]
# An embedding row whose byte does not occur in the batch has gradient zero, and some others have a
# very small one; but they have a first moment. It is divided by $\sqrt 0 + \epsilon$, or not much
# more ([Adam:alg1](../papers/adam.md)).
#
# ## Find it
#
# Another resume, on the same number of ranks. Look at the wrong buffer and at the number of its
# wrong elements. Was everything saved? And which values were read?

# %%
print(zp.place(lesson.resume_fault()))
mine = ""
zp.guess("?10", mine)

# %% [markdown]
# Names to choose from: `resume-forgets-moment`, `resume-shifts-index`,
# `resume-saves-rounded-masters`, `resume-forgets-steps`, `resume-reaches-first-rank-alone`.
#
# ## Puzzle 11
#
# Write `reshard(shards, buckets, ranks)`: the arrays of the old ranks become those of the new ones,
# in bits, for all pairs of 1 to 6: `python3 notebooks/puzzle start reshard`
# ([how](puzzles/README.md)). And one on paper: rank i continues as rank i, and elements that stay
# on their rank are not sent. Count the elements sent from 5 to 4, from 5 to 3 and from 6 to 3
# ranks. Which change is the cheapest? And does it matter which three of the six ranks continue?
#
# ## Further reading
#
# - [checkpoint](../common/checkpoint), described in
#   [common/io](../common/io/README.md#checkpoints); [adam.cpp](../reference/update/adam.cpp): the
#   use of counters and moments.
# - [MP:master](../papers/mixed_precision.md), [Adam:bias](../papers/adam.md),
#   [ZeRO:local](../papers/zero.md).
