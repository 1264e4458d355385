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
# # 9. Data, context and tensor parallelism
#
# **Question.** Eight ranks can split the micro-batches, the positions of a sequence, or the columns
# of a matrix, and all three at once. Then every rank has a part of some sums. Which parts are
# added, and by which ranks?
#
# 25 minutes. In a grid DP x CP x TP of ranks, *data* parallel ranks have different micro-batches,
# *context* parallel ranks have different positions of the same micro-batches, *tensor* parallel
# ranks have different columns or rows of the matrices inside layers, and the same copy of
# everything else.

# %%
import zp  # first: reports missing packages
import zp_lesson09 as lesson

lesson.draw_state_groups()

# %% [markdown]
# **Your code.** In which order are the ranks of a grid numbered? Find it in the drawing, where
# DP = CP = TP = 2. A correct function is used below; otherwise the lesson continues with its own.

# %%
@lesson.blank
def rank_number(d, c, t, context, tensor):
    """The number of rank (d, c, t) in a grid with CP = context and TP = tensor."""
    return ...  # your code


# %%
corners = [(d, c, t) for d in range(2) for c in range(2) for t in range(2)]
zp.table(("d, c, t", "rank"), *[(", ".join(map(str, corner)), rank_number(*corner, 2, 2)) for corner in corners])

# %% [markdown]
# ([process_grid.hpp](../common/layout/process_grid.hpp))
#
# **Guess first.** Nine grids of 8 ranks, six steps: how many different results?

# %%
report = lesson.train_on_grids(lesson.GRIDS)
rows = [(lesson.grid_of(case), case["status"], case["training"]["trajectory_hash"]) for case in report["cases"]]
zp.table(("data x context x tensor", "", "trajectory"), *rows)
zp.claim("9.1", report["summary"]["pass"] == len(lesson.GRIDS) == len({grid for grid, _, _ in rows})
         and len({value for _, _, value in rows}) == 1, "nine grids of eight ranks have one result, in every bit")

# %% [markdown]
# (The model has 4 heads: TP ranks share the heads, and a head is never split. The norm has the form
# `exact`, because TP splits the chunks of lesson 5.)
#
# This needs several sums, each over the correct ranks. Here is the plan of a step of the larger
# `byte_gpt` on 2x2x2: *shards* are the ranks that share one state, *tp* those that differ only in
# t.
#
# **Guess first.** Parameters, gradients, the overflow flag, the norm: which of these are sent from
# one TP rank to another?

# %%
sent = lesson.sent_bytes("2x2x2")
zp.table(("bytes a rank sends, 2x2x2", "over shards", "over tp"),
         *[(of, *[f"{sent[of, over]:,}" if (of, over) in sent else "-" for over in ("shards", "tp")])
           for of in dict.fromkeys(of for of, _ in sent)])
over = {group: {of for of, other in sent if other == group} for group in ("shards", "tp")}
zp.claim("9.2", over["shards"] - over["tp"] == {"leaves", "parameters"} and over["tp"] - over["shards"] == {"TP parts"}
         and over["shards"] & over["tp"] == {"scalars", "found_inf", "norm"},
         "leaves and parameters go to ranks of the same t, TP parts across t, scalars, flag and norm over both")

# %% [markdown]
# Context ranks have no group of their own: for the state they act as further data ranks, and their
# parts of a leaf are sent with the leaves (a *leaf* of the sum is a micro-batch gradient). But what
# is a *TP part*? Each TP rank has the whole gradient of its own part of a split matrix. The gain of
# a layer norm is replicated on every TP rank; each of them normalises its own positions (sequence
# parallelism), so each computes only a part of the gain's gradient. If these parts are not added,
# the copies of the gain drift apart.

# %%
lesson.draw_part_groups()

# %% [markdown]
# **Guess first.** Which tensors are *not* split by TP? How many of all parameters is that?

# %%
whole, split = lesson.elements_of("8x1x1"), lesson.elements_of("4x1x2")
parameters = sum(whole.values())
replicated = [name for name in whole if whole[name] == split[name]]
count = sum(whole[name] for name in replicated)
kinds = {one: sum(whole[name] for name in replicated if lesson.kind(name) == one)
                  for one in map(lesson.kind, replicated)}
zp.table(("replicated on every TP rank", "elements"), *[(one, f"{kinds[one]:,}") for one in sorted(kinds)],
         (f"{len(replicated)} of {len(whole)} tensors", f"{count:,} of {parameters:,}"))

# %%
rows = []
for grid in ("4x1x2", "2x2x2", "1x4x2", "2x1x4", "1x2x4"):
    data, context, tensor = map(int, grid.split("x"))
    micro_batches = 8 // data
    by_hand = 4 * count * (tensor - 1) * micro_batches
    rows.append((grid, micro_batches, tensor - 1, lesson.sent_bytes(grid)["TP parts", "tp"], by_hand))
zp.table(("grid", "micro-batches of a rank", "other TP ranks", "TP parts, bytes", "4 bytes x elements x both"),
         *[(*row[:3], f"{row[3]:,}", f"{row[4]:,}") for row in rows])
zp.claim("9.3", all(planned == by_hand for *_, planned, by_hand in rows),
         "TP ranks add the parts of replicated tensors, once for every micro-batch, and nothing else")

# %% [markdown]
# There are now three sums: over t (parts of replicated tensors), over c (parts of a leaf), and over
# micro-batches (lesson 2). All are sums of floats. Does their order matter? CP x TP parts make a
# leaf, M leaves make the gradient; in the contract's order (R11) all of them are leaves of one
# larger tree, parts first:

# %%
lesson.draw_parts(micro_batches=4, context=2)

# %% [markdown]
# **Guess first.** A rank could save messages: sum its parts over all its micro-batches, and add the
# sum of the other CP rank once per step. How many of 4,096 elements change?
#
# **Your code.** Write the contract's order with the `tree` of lesson 2, which adds a list of
# arrays.

# %%
@lesson.blank
def parts_first(parts, tree):
    """The gradient of parts[m][c], part c of micro-batch m: each leaf, then the sum of the leaves."""
    return ...  # your code


# %%
M, CP = 7, 2
parts = lesson.random_parts(M, CP)
one_tree = lesson.tree(list(parts.reshape(M * CP, -1)))
parts_last = lesson.tree([lesson.tree(list(parts[:, c])) for c in range(CP)])
changed = [zp.different(total, one_tree) for total in (parts_first(parts, lesson.tree), parts_last)]
zp.table((f"{M} micro-batches in {CP} parts", "different from one tree"), ("parts first", changed[0]),
         ("parts last", f"{changed[1]:,}"))
case = lesson.train_on_grids(["2x2x2"], fault="tp-parts-after-the-sum", steps=1)["cases"][0]
print(f"production that adds TP parts after the sum over micro-batches:\n{zp.place(case)}")
zp.claim("9.4", changed[0] == 0 < changed[1] and case["divergence"]["phase"] == "reduce",
         "parts first is one tree, with the same bits on every grid; parts last is a different sum")

# %% [markdown]
# (Parts first is *one* tree only for a power of two of parts; the contract allows 1, 2, 4 and 8.)
#
# Now the norm: every square counts once. The state of a TP rank is shared by its DP x CP ranks,
# each of which owns a slice.
#
# **Guess first.** Add the elements that all 8 ranks of 2x2x2 own. Is the result the number of
# parameters? Write it as a function of the number of TP ranks.

# %%
@lesson.blank
def owned_by_all(parameters, replicated, tensor):
    """The elements that all ranks own together; `replicated` of the parameters are on every TP rank."""
    return ...  # your code


# %%
rows = []
for grid in lesson.GRIDS:
    tensor, (ranks, owned) = int(grid.split("x")[2]), lesson.sharing(grid)
    rows.append((grid, ranks, owned, owned * tensor, owned_by_all(parameters, count, tensor)))
zp.table(("grid", "ranks share a state", "they own", "all 8 own", "more than parameters"),
         *[(grid, ranks, f"{owned:,}", f"{total:,}", f"{total - parameters:,}")
           for grid, ranks, owned, total, _ in rows])
lesson.draw_owned([(grid, total) for grid, _, _, total, _ in rows], parameters)
zp.claim("9.5", all(total == formula for *_, total, formula in rows),
         "with TP the ranks own more elements than the model has: replicated ones once more per other TP rank")

# %% [markdown]
# So "every rank adds the squares of the elements it owns" is wrong if TP is 2 or more, and correct
# on every grid without TP: a test on data parallel ranks alone does not detect it.
#
# ## Find it
#
# One fault, three grids of 8 ranks. What do the factors mean? And why are they not integers?

# %%
for case in lesson.train_on_grids(["4x2x1", "2x2x2", "2x1x4"], fault="?9", steps=1)["cases"]:
    print(lesson.grid_of(case), case["status"])
    if case["status"] != "pass":
        print(f"{zp.place(case)}\n  hint: {case['divergence']['hint']}")
mine = ""
zp.guess("?9", mine)

# %% [markdown]
# Names to choose from: `replicated-counted-per-rank`, `replica-counted-as-shard`,
# `tp-parts-not-combined`, `short-pieces-counted-twice`, `cp-in-divisor`.
#
# ## Puzzle 10
#
# Write `groups(rank, dp, cp, tp, replicated)`: the ranks whose parts a rank adds, the ranks with
# which it shares a sum, and whether it counts a tensor in the norm: `python3 notebooks/puzzle start
# groups` ([how](puzzles/README.md)). And one on paper: the mean of R6 divides by the number of
# micro-batches. By what does it divide on 1x8x1, and which check would detect a divisor that is 8
# times larger? (`build/zeroproof-faults explain cp-in-divisor`)
#
# ## Further reading
#
# - [tp_parts.cpp](../reference/zero/sharded/tp_parts.cpp), [cp_parts.cpp](../reference/zero/sharded/cp_parts.cpp),
#   [placement.cpp](../reference/zero/sharded/placement.cpp): less than a page each.
# - R11, R12 and R18 of the [contract](../common/CONTRACT.md); what must be equal on which ranks,
#   and what must not: [ZeRO:replicas](../papers/zero.md).
