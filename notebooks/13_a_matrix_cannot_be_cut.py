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
# # 13. A matrix cannot be cut
#
# **Question.** Muon updates a matrix as a whole, and ZeRO and tensor parallelism cut it. Which rank
# can compute the update, from which elements, and for how many bytes?
#
# 25 minutes, after lesson 6. Five sentences about Muon, each from the documentation, the tests or
# the bugs of public libraries. **Guess first:** which are true?
#
# 1. A shard of a matrix can be orthogonalised on its own.
# 2. The result does not depend on the number of tensor parallel ranks.
# 3. Clipping before Muon has no effect, because Muon divides by the norm.
# 4. Momentum as an average and momentum as a sum give the same update, for the same reason.
# 5. A tolerance of 1e-2 finds the bugs.
#
# ## What Muon does
#
# For each matrix, with the gradient $G$, its momentum $M$ and the weights $W$:
#
# - momentum: $M \leftarrow 0.95 M + 0.05 G$, and then $E = 0.95 M + 0.05 G$;
# - Newton-Schulz: $X = E / |E|$, then five times $X \leftarrow a X + (b A + c A A) X$ with $A = X X^T$;
# - update: $W \leftarrow W - lr \cdot f \cdot X$, with $f = \sqrt{\max(1, rows / columns)}$.
#
# The iteration has the singular vectors of $E$ and replaces each singular value $s$ by
# $a s + b s^3 + c s^5$. Every product is rounded to bf16 (R28). **Guess first.** The singular
# values of a gradient span a factor of 60. What is left of it after five iterations?
#
# **Your code.** Write one iteration. `product(X, Y)` is $X Y^T$ in fp32, with factors rounded to
# bf16, and `bf16(X)` rounds. $A$, the bracket and the new $X$ are rounded to bf16, each once. A correct
# function is used below; otherwise the lesson continues with its own.

# %%
import zp  # first: reports missing packages
import zp_lesson13 as lesson
from zp_lesson13 import bf16, product

import numpy as np


@lesson.blank
def iterate(x, a, b, c):
    """One iteration of Newton-Schulz on a matrix with no more rows than columns."""
    return ...  # your code, two or three lines


# %%
gradient = lesson.matrix()  # 15 x 37, from a training of byte_gpt_tiny
steps = [lesson.normalised(gradient)]
for _ in range(5):
    steps.append(iterate(steps[-1], lesson.A, lesson.B, lesson.C))
lesson.draw_singular_values(steps)

# %% [markdown]
# Momentum and update go element by element, so any rank can do them for its own elements (lesson
# 6). The iteration does not: every element of the result depends on every element of the matrix.
#
# ## A slice
#
# Two rows are enough to see it by hand. The orthogonal factor of a 2 x 2 matrix with rows [p q] and
# [r s] and a positive determinant is the rotation with rows [p+s, q-r] and [r-q, p+s], divided by
# their length. For [3 0] and [3 1] these are [4 -3] and [3 4], divided by 5. A row on its own has
# one singular value, its length: it becomes [1 0], and the other row [3 1] divided by 3.16.

# %%
lesson.draw_two_by_two(np.array([[3, 0], [3, 1]]))

# %% [markdown]
# The rows of the right picture still point nearly the same way. A library orthogonalised the part
# of a matrix that its reduce-scatter had left on a rank (DeepSpeed #7807): here is that for the
# gradient above, with its 15 rows on two ranks.

# %%
whole = lesson.newton_schulz(gradient)
cut = {ranks: lesson.by_parts(ranks)(gradient) for ranks in (1, 2, 4)}
lesson.draw_difference(whole, cut[2], at=[8])
zp.table(("ranks", "distance from the whole", "elements that differ"),
         *[(ranks, f"{lesson.distance(x, whole):.2f}", zp.different(x, whole)) for ranks, x in cut.items()])
zp.claim("13.1", zp.different(cut[1], whole) == 0 and lesson.distance(cut[2], whole) > 0.4,
         "sentence 1 is false: the result of a shard is not the shard of the result, and over 40 % away from it")

# %% [markdown]
# (*Distance* is the norm of the difference over the norm of the correct result.) Shards of a flat
# buffer need not even be rows: a boundary can be inside of one.
#
# Tensor parallel ranks have columns of the matrix. Three ways are in use: each shard on its own;
# all ranks gather the matrix, and each computes all of it; each rank multiplies its columns, and
# the products $A$, which are small, are added over the ranks. In exact arithmetic the last two are
# equal. **Guess first.** And in bits?

# %%
tensor = {ranks: lesson.on_tensor_ranks(ranks) for ranks in (1, 2, 4)}
ways = list(tensor[1])
off = {way: [zp.different(tensor[ranks][way], tensor[1][ways[1]]) for ranks in tensor] for way in ways}
zp.table(("elements that differ, of 555", *[f"TP {ranks}" for ranks in tensor], "distance, TP 4"),
         *[(way, *off[way], f"{lesson.distance(tensor[4][way], tensor[1][ways[1]]):.4f}") for way in ways])
zp.claim("13.2", off[ways[0]][1] > 500 and off[ways[2]][1] > 0 and sum(off[ways[1]] + off[ways[3]]) == 0,
         "sentence 2 is false: shards on their own and sums rounded on each rank depend on TP; sums in fixed "
         "blocks (R27) do not")

# %% [markdown]
# ## Who owns a matrix
#
# ZeRO cuts a flat buffer, so it cuts matrices. Here are two blocks of `byte_gpt` on four ranks:

# %%
lesson.draw_owners(ranks=4)
several = sum(len({rank for rank, _, _ in own}) > 1 for own in lesson.pieces(4).values())
inside = sum(begin % lesson.shapes()[name][1] > 0 for name, own in lesson.pieces(4).items() for _, begin, _ in own)
print(f"{several} of {len(lesson.shapes())} matrices are on several ranks; {inside} boundaries are inside of a row")

# %% [markdown]
# Either every rank with an element of a matrix gets all of it and computes it, or one rank does.
# Which one? *Round robin*: matrix i belongs to rank i mod N. *Longest processing time first*: the
# costliest matrix first, each to the rank with the least cost so far. (An iteration costs the
# longer extent times the square of the shorter.)
#
# **Guess first.** `byte_gpt` has 24 matrices, four costs of 1 and two of 4 per block. On six
# ranks, which of the three is balanced?
#
# **Your code.** Write longest processing time first. Of equal costs the earlier comes first, of
# equal ranks the lowest.

# %%
@lesson.blank
def longest_first(costs, ranks):
    """A list with the owner of each matrix."""
    return ...  # your code, a few lines


# %%
costs = [lesson.cost(shape) for shape in lesson.shapes().values()]
maps = {"every": [{rank for rank, _, _ in own} for own in lesson.pieces(6).values()],
        "round robin": [[i % 6] for i in range(len(costs))],
        "longest first": [[owner] for owner in longest_first(costs, 6)]}
works = {name: lesson.work(owners, 6) for name, owners in maps.items()}
lesson.draw_balance(works)
zp.table(("owners", "largest rank / mean"),
         *[(name, f"{max(of) * 6 / sum(costs):.2f}") for name, of in works.items()])

# %% [markdown]
# ## Bytes
#
# **Guess first.** A matrix of 8 elements is on two ranks, 4 on each. How many bytes does each send,
# if both compute it? And if rank 1 computes it, and sends results back?
#
# **Your code.** Elements travel in fp32, 4 bytes each.

# %%
@lesson.blank
def sent(elements, owner):
    """The bytes that each rank sends for one matrix.

    elements: of the matrix on each rank. owner None: every rank that has elements gets all others.
    Otherwise the owner gets them, and each rank gets the results for its own elements.
    """
    return ...  # your code, a few lines


# %%
found = lesson.schemes(sent, longest_first, ranks=8)
numel = sum(rows * columns for rows, columns in lesson.LARGE)
zp.table(("24 blocks of width 2048, eight ranks", "bytes sent per element", "GB", "10^12 products"),
         *[(name, f"{size / numel:.2f}", f"{size / 1e9:.2f}", f"{count / 1e12:.2f}")
           for name, (size, count) in found.items()])
lesson.draw_schemes(found)

# %% [markdown]
# These are bytes beyond those of ZeRO-1 (lesson 7), on the rank that sends the most. Data parallel
# ranks: the first way sends every matrix to everyone; with owners, only there and back. Megatron's
# layer-wise optimizer gives whole matrices to ranks, so the sum of gradients already arrives there,
# and only parameters are gathered, as always: nothing more is sent, but a rank's memory depends on
# whole matrices (it accepts up to 1.3 times the mean).
#
# Tensor parallel ranks: adding $A$ in every iteration saves products, and no bytes. A ring sends
# $2 \cdot 2$ bytes per element of $A$, five times: 20 for each of the square of the shorter extent.
# It is cheaper than the gather if the longer extent is over five times the shorter.
#
# ## Two settings without an effect?
#
# **Guess first.** Newton-Schulz divides by the norm. Does a clip coefficient change the result: the
# same one in every step? Another one in each step? A very small one?

# %%
plain = lesson.after_clip([1] * 5)
clipped = {"1/8 in every step": [0.125] * 5, "in the last step 0.1": [1] * 4 + [0.1],
           "those of a norm of 0.52": lesson.clip_coefs(), "1e-9 in every step": [1e-9] * 5}
last = {name: lesson.after_clip(coefs)[-1] for name, coefs in clipped.items()}
zp.table(("clip coefficient", "distance", "norm of the result"),
         ("1", "", f"{np.linalg.norm(plain[-1]):.2f}"),
         *[(name, f"{lesson.distance(x, plain[-1]):.3f}", f"{np.linalg.norm(x):.2f}") for name, x in last.items()])
away = {name: lesson.distance(x, plain[-1]) for name, x in last.items()}
zp.claim("13.3", away["1/8 in every step"] == 0 and min(away["in the last step 0.1"], away["1e-9 in every step"]) > 0.2,
         "sentence 3 is false: clipping changes how much each gradient counts in the momentum, and a tiny one "
         "reaches the smallest divisor")

# %% [markdown]
# A constant power of two changes no bit. A coefficient of its own in each step changes the mixture
# of old and new gradients. And divisors are at least 1e-7: below it the update fades (Megatron-LM
# #5394).
#
# The average (`ema`) is $0.95 M + 0.05 G$, the sum (`heavy_ball`) $0.95 M + G$, which is 20 times as
# large. A page of documentation and the code next to it have disagreed about the two. **Guess
# first.** Do the results of two matrices of 73,984 elements differ, if a run uses one or the other?
# And if a run of five steps changes in the last step?

# %%
by_family = {family: [lesson.direction([g], [family]) for g in lesson.large_gradients()]
             for family in ("ema", "heavy ball")}
one, other = [lesson.flat(map(lesson.newton_schulz, by_family[family])) for family in by_family]
exact = [lesson.direction(lesson.large_gradients()[:1], [family], np.float64) for family in by_family]
kept, changed = [lesson.flat(lesson.newton_schulz(lesson.direction(gradients, ["ema"] * 4 + [last]))
                             for gradients in lesson.small_gradients()) for last in by_family]
zp.table(("momentum", "elements", "that differ", "distance"),
         ("heavy ball for ema", one.size, zp.different(one, other), f"{lesson.distance(other, one):.4f}"),
         ("heavy ball in the last step", kept.size, zp.different(kept, changed), f"{lesson.distance(changed, kept):.4f}"))
zp.claim("13.4", lesson.distance(exact[1] * (1 - 0.95), exact[0]) < 1e-12 and zp.different(one, other) > 0
         and lesson.distance(changed, kept) > 0.1,
         "sentence 4 is false: equal in exact arithmetic, not in bits, and a state of one is wrong for the other")

# %% [markdown]
# ## Why 1e-6 becomes 1e-2
#
# Libraries compare Muon with tolerances of 1e-2 and more, one with 0.40. A gradient that is summed
# in another order differs by about 1e-6. **Guess first.** What becomes of that in five iterations?

# %%
rows = lesson.perturbed(count=20, size=1e-6)
lesson.draw_perturbed(rows)
same = int((rows["bf16"][:, -1] == 0).sum())
print(f"{same} of 20 changes vanish in the rounding to bf16; the largest distance of the others is "
      f"{rows['bf16'][:, -1].max():.3f}")

# %% [markdown]
# With bf16 factors, a change of 1e-6 mostly vanishes. Otherwise one element rounds to the next bf16
# value, 1/256 away, and each iteration multiplies small singular values by up to 3.4, errors
# included. So correct programs, with sums in different orders, are 1e-2 apart. The last experiment
# puts correct variants and bugs on one axis: twelve matrices after five steps. **Guess first.** Where
# is the line between them?

# %%
found = lesson.distances()
lesson.draw_tolerance(found, limit=1e-2)
zp.table(("variant", "", "distance", "elements that differ"),
         *[(name, "correct" if name in lesson.CORRECT else "bug", f"{far:.4f}", f"{count:,}")
           for name, (far, count) in found.items()])
refused = [name for name in lesson.CORRECT if found[name][0] > 1e-2]
accepted = [name for name in lesson.BUGS if found[name][0] <= 1e-2]
zp.claim("13.5", len(refused) >= 2 and len(accepted) >= 2 and all(count for _, count in found.values()),
         "sentence 5 is false: 1e-2 refuses correct variants and accepts bugs; with fixed roundings every bug "
         "differs in bits, and the correct program does not")

# %% [markdown]
# No line exists. Rounding decides more than some bugs do, so a check needs the roundings too: R27
# and R28 fix every one, and the comparison is of bits again.
#
# ## Find it
#
# A fault in the update, after five steps without decay: matrices, the elements that differ, and how
# much further they should have moved. Which matrices are wrong, and by which factor?

# %%
zp.table(("matrix", "shape", "elements that differ", "correct move / move"), *lesson.find_it())
mine = ""
zp.guess("?13", mine)

# %% [markdown]
# Names to choose from: `orthogonalised-slice`, `scale-of-the-shard`, `scaled-decay`,
# `no-nesterov`, `four-iterations`.
#
# ## Puzzle 15
#
# Repair a sharded Muon, which is correct on one rank: `python3 notebooks/puzzle start muon`
# ([how](puzzles/README.md)). Bits, bytes, messages and the number of matrices that a rank
# orthogonalises are checked, for shards whose boundaries are anywhere. And one on paper: on which
# numbers of ranks is round robin balanced for `byte_gpt`?
#
# ## Further reading
#
# - [R27 and R28](../common/CONTRACT.md), [muon.hpp](../common/contracts/muon.hpp),
#   [newton_schulz.hpp](../common/contracts/newton_schulz.hpp): seven published sets of polynomials;
#   [matrix_owners.hpp](../common/layout/matrix_owners.hpp).
# - [muon.md](../papers/muon.md): [Muon:slice, Muon:clip, Muon:gram](../papers/muon.md), who computes
#   what in ten libraries, and errata 57 to 64.
# - The same in numpy: [matrices.py](puzzles/judge/matrices.py).
