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
# # 2. Sums have an order
#
# **Question.** Gradients of 16 micro-batches are added. Does the order matter?
#
# 25 minutes. A sum of floats is rounded after every addition, so `(a + b) + c` and `a + (b + c)`
# are two different numbers. Here are three ways to add M leaves (a *leaf* of the sum is the
# gradient of one micro-batch), one fp32 addition at a time:
#
# - the **fold**: `grad += leaf`, as in every training loop;
# - the **ring**: each of W ranks folds its own M/W leaves; the sums travel around the ring and
#   every rank adds its own; every W-th part of the gradient starts at another rank;
# - the **tree**: neighbours are added, then neighbours of these sums, and so on (rule R11 of the
#   [contract](../common/CONTRACT.md)).

# %%
import zp  # first: reports missing packages
import zp_lesson02 as lesson

import numpy as np

lesson.draw_orders()

# %% [markdown]
# **Your code.** Write fold and tree. `leaves` is a list of fp32 arrays of one shape; `a + b` of two
# such arrays rounds every element once. Correct functions are used below; otherwise the lesson
# continues with its own.

# %%
@lesson.blank
def fold(leaves):
    """Adds leaf after leaf, from the first to the last."""
    return ...  # your code


@lesson.blank
def tree(leaves):
    """Adds neighbours until one sum is left; the last of an odd number has no neighbour and moves up."""
    return ...  # your code


# %%
def ring(leaves, ranks):
    each = len(leaves) // ranks
    sums = [fold(leaves[rank * each:(rank + 1) * each]) for rank in range(ranks)]
    total = np.empty_like(leaves[0])
    for first, part in enumerate(np.array_split(np.arange(total.size), ranks)):
        total[part] = fold([sums[(first + hop) % ranks][part] for hop in range(ranks)])
    return total


# %% [markdown]
# **Guess first.** Add 1, 0, 2^-24 and 2^-24. What is the result of the fold, and what of the tree?
# (Between 1 and 2, neighbouring fp32 numbers differ by 2^-23, and a tie is rounded to even.)

# %%
four = lesson.leaves_of(1, 0, 2.0**-24, 2.0**-24)
sums = {"fold": fold(four)[0], "tree": tree(four)[0], "zeroproof": lesson.sum_of_the_program(four, ranks=2)[0]}
exact = lesson.exact(four)[0]
zp.table(("four leaves", "bits", "above 1"), *[(name, zp.hexadecimal(x), float(x) - 1) for name, x in sums.items()],
         ("exact", "", exact - 1))
zp.claim("2.1", sums["fold"] == 1 and sums["tree"] == sums["zeroproof"] == 1 + 2.0**-23 == exact,
         "the fold loses both small leaves, the tree adds them first, and zeroproof has the "
         "tree's bits")

# %% [markdown]
# A constructed example shows that the order can matter. Recorded gradients show whether it does:
# here are those of 64 micro-batches of one step of `byte_gpt_tiny`. The lesson uses the first M of
# them.

# %%
M = 16
leaves = lesson.recorded_leaves()
canonical, folded = tree(leaves[:M]), fold(leaves[:M])
program = lesson.sum_of_the_program(leaves[:M], ranks=3)
rounded = lesson.exact(leaves[:M]).astype(np.float32)
zp.table((f"sum of {M} leaves", "elements different from the tree"),
         *[(name, f"{zp.different(total, canonical):,}") for name, total in
           (("zeroproof on 3 ranks", program), ("the fold", folded), ("exact, rounded once", rounded))])
zp.claim("2.2", zp.different(program, canonical) == 0 and zp.different(folded, canonical) > 0,
         "zeroproof's sum equals the tree in every element, and the fold is a different sum")

# %% [markdown]
# Neither is the exact sum, and the tree is not claimed to be more accurate *here* (see below). Its
# advantage is an order that does not depend on the number of ranks.
#
# **Guess first.** A library adds with a ring. The same 16 leaves are distributed over 2, 4 and 8
# ranks. In how many elements does the result change when only the number of ranks changes?

# %%
worlds = (2, 4, 8)
rings = {ranks: ring(leaves[:M], ranks) for ranks in worlds}
zp.table(("ring on", "from the tree", *[f"from the ring on {ranks}" for ranks in worlds]),
         *[(f"{ranks} ranks", f"{zp.different(total, canonical):,}",
            *[f"{zp.different(total, other):,}" for other in rings.values()]) for ranks, total in rings.items()])
print(f"(different elements, of {canonical.size:,})")
zp.claim("2.3", all(zp.different(rings[a], rings[b]) > 0 for a in worlds for b in worlds if a != b),
         "the ring's bits change with the number of ranks, for every pair of them")

# %% [markdown]
# A correct run on 8 ranks is therefore no bit-exact test of a run on 4 ranks: the comparison needs
# a tolerance, and faults can hide within a tolerance.
#
# The tree does not depend on which rank holds which leaf. A rank that holds leaves `[a, b)` adds
# what it can and sends the rest: the *maximal nodes* of its block. The receiver of the nodes of all
# ranks, in order, continues the additions (the routine of R11).

# %%
lesson.draw_nodes(count=16, ranks=3)
print("a rank with leaves 5 to 10 sends the nodes",
      [(level, index) for level, index, _ in lesson.block_of(leaves, 5, 11)])

# %%
changed = {(m, ranks): zp.different(lesson.combined(lesson.blocks_of(leaves[:m], ranks)), tree(leaves[:m]))
           for m in (1, 7, 16, 61) for ranks in range(1, 17)}
print(f"{len(changed)} sums, of 1, 7, 16 and 61 leaves on 1 to 16 ranks; changed elements:",
      sum(changed.values()))
trees = {f"tree, {ranks}": lesson.combined(lesson.blocks_of(leaves[:M], ranks)) for ranks in worlds}
lesson.draw_changes(canonical, {**trees, **{f"ring, {ranks}": total for ranks, total in rings.items()}})
zp.claim("2.4", sum(changed.values()) == 0, "the tree's bits are the same for every number of ranks")

# %% [markdown]
# **Guess first.** In the fold of M leaves, a leaf passes through up to M - 1 roundings, in the tree
# through log2 M (rounded up). Which error is smaller for M = 64, and by how much?
#
# The bound is [Sum:tree](../papers/summation.md): with $u = 2^{-24}$, $v = u/(1+u)$ and $h$ the
# height of the tree, the error is at most $\lambda_h = (1+v)^h - 1$ times the sum of magnitudes.
# For the fold, $M - 1$ replaces $h$ ([Sum:left](../papers/summation.md)).

# %%
counts = [2, 3, 5, 8, 16, 32, 64]
ways = {"tree": tree, "fold": fold}
errors = {name: [lesson.error(way(leaves[:m]), leaves[:m]) for m in counts] for name, way in ways.items()}
bounds = {"tree": [lesson.bound((m - 1).bit_length()) for m in counts], "fold": [lesson.bound(m - 1) for m in counts]}
zp.table(("M", "tree: error", "bound", "fold: error", "bound"),
         *[(m, f"{errors['tree'][i]:.2f}", f"{bounds['tree'][i]:.0f}", f"{errors['fold'][i]:.2f}",
            f"{bounds['fold'][i]:.0f}") for i, m in enumerate(counts)])
lesson.draw_errors(counts, errors, bounds)
zp.claim("2.5", all(e <= b for name in ways for e, b in zip(errors[name], bounds[name])),
         "every error is below the bound of its order, in units of u times the sum of magnitudes")

# %% [markdown]
# Both errors are far below their bounds, and the fold's error grows faster, as its bound does.
# Accuracy is welcome, but it is not the reason for the tree: its bits depend only on the leaves.
# ([The notes](../papers/summation.md) have the same figure for sums of positive numbers.)
#
# ## Find it
#
# A fault in the reduction, on 2 ranks with contiguous blocks of 7 micro-batches: rank 0 has leaves
# 0 to 2, rank 1 has leaves 3 to 6. The sum is wrong by one unit in the last place, in some
# elements. So the order of additions is different. Which order is it? Put an order into `mine`
# whose tree (or fold) has the bits of the wrong sum, and explain how the ranks come to it.

# %%
case, element = lesson.wrong_sum()
print(zp.place(case))
mine = [0, 1, 2, 3, 4, 5, 6]
lesson.try_order(mine, tree, fold)

# %% [markdown]
# ## Puzzles 2 and 3
#
# Write both functions yourself, from the contract: `python3 notebooks/puzzle start add_tree`, `...
# start maximal_nodes`, then `... check` ([how](puzzles/README.md)). And one on paper: a rank with
# leaves `[5, 11)` sends four nodes, which are printed above. Which blocks of six leaves need only
# two nodes, and why does no block need only one? [ZeRO:nodes](../papers/zero.md) has the answer and
# its proof.
#
# ## Further reading
#
# - The tree as the recursion that defines it: [grad_sum.cpp](../reference/gradients/grad_sum.cpp);
#   distributed over ranks: [tree_stack.cpp](../reference/gradients/tree_stack.cpp).
# - Why this project never uses a ring, and sums that need no order at all: [Sum:ring,
#   Sum:binned](../papers/summation.md).
