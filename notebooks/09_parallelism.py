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
# everything else. Rank (d, c, t) has the number (d CP + c) TP + t
# ([process_grid.hpp](../common/layout/process_grid.hpp)).
#
# **Guess first.** Nine grids of 8 ranks, six steps: how many different results?

# %%
import zp  # first: reports missing packages

import numpy as np

GRIDS = ("8x1x1", "4x2x1", "4x1x2", "2x4x1", "2x2x2", "2x1x4", "1x8x1", "1x4x2", "1x2x4")
RUN = ("byte_gpt_tiny", "--recipe", "adamw+model:even", "--norm", "exact", "--dtype", "bf16", "--impl", "host",
       "--world", "threads:8", "--stage", 2)
report = zp.verify(*RUN, "--grid", ",".join(zp.given("9.1", GRIDS, GRIDS[:1])))
rows = [(case["id"].split("grid:")[1], case["status"], case["training"]["trajectory_hash"]) for case in report["cases"]]
zp.table(("data x context x tensor", "", "trajectory"), *rows)
zp.claim("9.1", report["summary"]["pass"] == len(GRIDS) == len({grid for grid, _, _ in rows})
         and len({value for _, _, value in rows}) == 1, "nine grids of eight ranks have one result, in every bit")

# %% [markdown]
# (`model:even` has 4 heads: TP ranks share the heads, and a head is never split. The norm has the
# form `exact`, because TP splits the chunks of lesson 5.)
#
# This needs several sums, each over the correct ranks. Here is the plan of a step of the larger
# `byte_gpt` on 2x2x2: *shards* are the ranks that share one state, *tp* those that differ only in
# t.
#
# **Guess first.** Parameters, gradients, the overflow flag, the norm: which of these are sent from
# one TP rank to another?


# %%
def plan_of(grid):
    """The traffic of a rank in a step of stage 2 with 8 micro-batches."""
    plan = zp.json_of("plan", "byte_gpt", "--grid", grid, "--stage", 2, "--micro-batches", 8)
    return plan["stages"][0]["largest"]["traffic"]


traffic = plan_of(zp.given("9.2", "2x2x2", "2x4x1"))
moves = list(dict.fromkeys(row["of"] for row in traffic))
sent = {(row["of"], row["over"]): row["sent_bytes"] for row in traffic}
zp.table(("bytes a rank sends, 2x2x2", "over shards", "over tp"),
         *[(of, *[f"{sent[of, over]:,}" if (of, over) in sent else "-" for over in ("shards", "tp")]) for of in moves])
over = {group: {of for of, other in sent if other == group} for group in ("shards", "tp")}
zp.claim("9.2", over["shards"] - over["tp"] == {"leaves", "parameters"} and over["tp"] - over["shards"] == {"TP parts"}
         and over["shards"] & over["tp"] == {"scalars", "found_inf", "norm"},
         "leaves and parameters go to ranks of the same t, TP parts across t, scalars, flag and "
         "norm over both")

# %% [markdown]
# Context ranks have no group of their own: for the state they act as further data ranks, and their
# parts of a leaf are sent with the leaves (a *leaf* of the sum is a micro-batch gradient). But what
# is a *TP part*? Each TP rank has the whole gradient of its own part of a split matrix. The gain of
# a layer norm is replicated on every TP rank; each of them normalises its own positions (sequence
# parallelism), so each computes only a part of the gain's gradient. If these parts are not added,
# the copies of the gain drift apart.
#
# **Guess first.** Which tensors are *not* split by TP? How many of all parameters is that?


# %%
def elements_of(grid):
    """Elements of each tensor on a TP rank; ranks that share its state; elements they own."""
    ranks = zp.json_of("plan", "byte_gpt", "--owners", "--grid", grid)["ranks"]
    count = {}
    for piece in (piece for rank in ranks for part in rank["slices"] for piece in part["pieces"]):
        count[piece["tensor"]] = count.get(piece["tensor"], 0) + piece["tensor_end"] - piece["tensor_begin"]
    return count, len(ranks), sum(rank["numel"] for rank in ranks)


whole, _, numel = elements_of("8x1x1")
split, _, _ = elements_of("4x1x2")
replicated = [name for name in whole if whole[name] == split[name]]
replicated_numel = sum(whole[name] for name in replicated)
kinds = {}
for name in replicated:
    kind = name.split(".", 1)[1] if name.startswith("block") else name
    kinds[kind] = kinds.get(kind, 0) + whole[name]
zp.table(("replicated on every TP rank", "elements"),
         *[(kind, f"{elements:,}") for kind, elements in sorted(kinds.items())],
         (f"{len(replicated)} of {len(whole)} tensors", f"{replicated_numel:,} of {numel:,}"))
differences, rows = [], []
for grid in ("4x1x2", "2x2x2", "1x4x2", "2x1x4", "1x2x4"):
    data, context, tensor = map(int, grid.split("x"))
    planned = sum(row["sent_bytes"] for row in plan_of(grid) if row["of"] == "TP parts")
    by_hand = 4 * zp.given("9.3", replicated_numel, numel) * (tensor - 1) * (8 // data)
    differences.append(planned - by_hand)
    rows.append((grid, 8 // data, tensor - 1, f"{planned:,}", f"{by_hand:,}"))
zp.table(("grid", "micro-batches of a rank", "other TP ranks", "TP parts, bytes", "4 bytes x elements x both"), *rows)
zp.claim("9.3", not any(differences),
         "TP ranks add the parts of replicated tensors, once for every micro-batch, and nothing "
         "else")

# %% [markdown]
# There are now three sums: over t (parts of replicated tensors), over c (parts of a leaf), and over
# micro-batches (lesson 2). All are sums of floats. Does their order matter? CP x TP parts make a
# leaf, M leaves make the gradient; in the contract's order (R11) all of them are leaves of one
# larger tree, parts first.
#
# **Guess first.** A rank could save messages: sum its parts over all its micro-batches, and add the
# sum of the other CP rank once per step. How many of 4,096 elements change?


# %%
def tree(leaves):
    leaves = list(leaves)
    while len(leaves) > 1:
        last = leaves[-1:] if len(leaves) % 2 else []
        leaves = [left + right for left, right in zip(leaves[0::2], leaves[1::2])] + last
    return leaves[0]


M, CP = 7, zp.given("9.4", 2, 3)
parts = np.random.default_rng(9).standard_normal((M, CP, 4096)).astype(np.float32)
one_tree = tree(parts.reshape(M * CP, 4096))
parts_first = tree([tree(leaf) for leaf in parts])
parts_last = tree([tree(parts[:, c]) for c in range(CP)])
zp.table((f"{M} micro-batches in {CP} parts", "different elements"),
         (f"one tree of {M * CP} leaves", 0), ("parts first", zp.different(parts_first, one_tree)),
         ("parts last", f"{zp.different(parts_last, one_tree):,}"))
case = zp.verify(*RUN, "--grid", "2x2x2", "--steps", 1, fault="tp-parts-after-the-sum")["cases"][0]
print("production that adds TP parts after the sum over micro-batches:")
print(zp.place(case))
zp.claim("9.4", zp.different(parts_first, one_tree) == 0 and zp.different(parts_last, one_tree) > 0
         and case["divergence"]["phase"] == "reduce",
         "parts first is one tree, with the same bits on every grid; parts last is a different sum")

# %% [markdown]
# (Parts first is *one* tree only for a power of two of parts; the contract allows 1, 2, 4 and 8.)
#
# Now the norm: every square counts once. The state of a TP rank is shared by its DP x CP ranks,
# each of which owns a slice.
#
# **Guess first.** Add the elements that all 8 ranks of 2x2x2 own. Is the result the number of
# parameters?

# %%
rows, right = [], []
for grid in GRIDS:
    tensor = int(grid.split("x")[2])
    _, sharing, owned = elements_of(grid)
    total = owned * tensor
    right.append(total == numel + zp.given("9.5", tensor - 1, tensor) * replicated_numel)
    rows.append((grid, sharing, f"{owned:,}", f"{total:,}", f"{total - numel:,}"))
zp.table(("grid", "ranks share a state", "they own", "all 8 own", "more than parameters"), *rows)
zp.claim("9.5", all(right),
         "with TP the ranks own more elements than the model has: replicated ones once more per "
         "other TP rank")

# %% [markdown]
# So "every rank adds the squares of the elements it owns" is wrong if TP is 2 or more, and correct
# on every grid without TP: a test on data parallel ranks alone does not detect it.

# %%
fig, grid_of_axes = zp.figure(2, 2, height=5.6)
ranks = [(d, c, t) for d in range(2) for c in range(2) for t in range(2)]
at = {(d, c, t): (c + 0.42 * d, t + 0.34 * d) for d, c, t in ranks}
groups = {"compute the same micro-batches: same d": lambda d, c, t: d,
          "add their parts of a leaf: same d and t": lambda d, c, t: (d, t),
          "add TP parts of replicated tensors: same d and c": lambda d, c, t: (d, c),
          "share master, moments and sums: same t": lambda d, c, t: t}
shades = (("#000000", "white"), ("#e0a070", "black"), ("#3a6ea5", "white"), ("#ffffff", "black"))
for axes, (title, group) in zip(grid_of_axes.ravel(), groups.items()):
    names = sorted({group(*rank) for rank in ranks})
    for one in ranks:
        for other in ranks:
            if one < other and sum(a != b for a, b in zip(one, other)) == 1:
                same = group(*one) == group(*other)
                color, width = ("#000000", 3) if same else ("#c8c8c8", 0.8)
                axes.plot(*zip(at[one], at[other]), color=color, linewidth=width, linestyle="-", zorder=1)
    for d, c, t in ranks:
        shade, ink = shades[names.index(group(d, c, t))]
        axes.scatter(*at[d, c, t], s=420, color=shade, edgecolor="black", zorder=2)
        axes.text(*at[d, c, t], str((d * 2 + c) * 2 + t), color=ink, ha="center", va="center", zorder=3)
    axes.set_title(title, fontsize=9)
    axes.set(xlim=(-0.3, 1.75), ylim=(-0.35, 1.65), xlabel="c: context rank (back: d = 1)", ylabel="t: tensor rank",
             xticks=(0, 1), yticks=(0, 1))
zp.show(fig, "Four cubes of the ranks 0 to 7 of a grid 2x2x2. Thick edges join ranks of one group: four ranks of the "
             "same d, pairs along c, pairs along t, and four ranks of the same t.")

# %% [markdown]
# ## Find it
#
# One fault, three grids of 8 ranks. What do the factors mean? And why are they not integers?

# %%
seal = "cmVwbGljYS1jb3VudGVkLWFzLXNoYXJk"
cases = zp.verify(*RUN, "--grid", "4x2x1,2x2x2,2x1x4", "--steps", 1, fault=zp.sealed(seal))["cases"]
for case in cases:
    print(case["id"].split("grid:")[1], case["status"])
    if case["status"] != "pass":
        print(zp.place(case))
        print("  hint:", case["divergence"]["hint"])
mine = ""
print(zp.answer(mine, seal))

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
