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
import math
import pathlib
import tempfile

import zp  # first: reports missing packages

import numpy as np


def fold(leaves):
    total = leaves[0]
    for leaf in leaves[1:]:
        total = total + leaf
    return total


def ring(leaves, ranks):
    each = len(leaves) // ranks
    sums = [fold(leaves[rank * each:(rank + 1) * each]) for rank in range(ranks)]
    parts = np.array_split(np.arange(leaves[0].size), ranks)
    total = np.empty_like(leaves[0])
    for first, part in enumerate(parts):
        total[part] = fold([sums[(first + hop) % ranks][part] for hop in range(ranks)])
    return total


def tree(leaves):
    leaves = list(leaves)
    while len(leaves) > 1:
        last = leaves[-1:] if len(leaves) % 2 else []  # no right neighbour: unchanged
        leaves = [left + right for left, right in zip(leaves[0::2], leaves[1::2])] + last
    return leaves[0]


def sum_of_the_program(leaves, ranks):
    """zeroproof's sum. SGD with lr 1 from zero gives master = -(sum / M), exact if M is 2^k."""
    config = '[optimizer]\nrule = "sgd"\nlr = 1.0\nmomentum = 0.0\nweight_decay = 0.0\nmax_norm = 0.0\n'
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "leaves.safetensors")
        named = {f"grad.1.{j}.x": leaf for j, leaf in enumerate(leaves)}
        zp.write_tensors(path, {"param.x": np.zeros_like(leaves[0]), **named}, steps=1, micro_batches=len(leaves))
        settings = pathlib.Path(folder, "sgd.toml")
        settings.write_text(config)
        run = ("verify", "--gradients", path, "--config", settings, "--recipe", "sgd", "--dtype", "fp32")
        dump = zp.file_of(*run, "--impl", "host", "--world", f"threads:{ranks}", "--stage", 2, option="--dump")
    return 0 - dump["master.1.x"] * np.float32(len(leaves))


# %% [markdown]
# **Guess first.** Add 1, 0, 2^-24 and 2^-24. What is the result of the fold, and what of the tree?
# (Between 1 and 2, neighbouring fp32 numbers differ by 2^-23, and a tie is rounded to even.)

# %%
four = [np.array([x], np.float32) for x in zp.given("2.1", (1, 0, 2.0**-24, 2.0**-24), (1, 2.0**-24, 0, 2.0**-24))]
exact = math.fsum(float(leaf[0]) for leaf in four)
rows = [(name, zp.hexadecimal(x), float(x) - 1) for name, x in
        (("fold", fold(four)[0]), ("tree", tree(four)[0]), ("zeroproof", sum_of_the_program(four, 2)[0]))]
zp.table(("four leaves", "bits", "above 1"), *rows, ("exact", "", exact - 1))
zp.claim("2.1", fold(four)[0] == 1 and tree(four)[0] == sum_of_the_program(four, 2)[0] == 1 + 2.0**-23 == exact,
         "the fold loses both small leaves, the tree adds them first, and zeroproof has the "
         "tree's bits")

# %% [markdown]
# A constructed example shows that the order can matter. Recorded gradients show whether it does:
# here are those of 64 micro-batches of one step of `byte_gpt_tiny`. The lesson uses the first M of
# them.

# %%
recorded = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--micro-batches", 64, "--steps", 1)
names = recorded.metadata["order"].splitlines()
leaves = [np.concatenate([recorded[f"grad.1.{j}.{name}"].ravel() for name in names]) for j in range(64)]
M = 16
canonical = tree(leaves[:M])
program = sum_of_the_program(leaves[:M], 3)
rounded = np.array([math.fsum(column) for column in np.array(leaves[:M], np.float64).T]).astype(np.float32)
zp.table((f"sum of {M} leaves", f"of {canonical.size:,} elements, different from the tree"),
         ("zeroproof on 3 ranks", zp.different(program, canonical)),
         ("the fold", f"{zp.different(fold(leaves[:M]), canonical):,}"),
         ("exact, rounded once", f"{zp.different(rounded, canonical):,}"))
zp.claim("2.2", zp.different(zp.given("2.2", program, fold(leaves[:M])), canonical) == 0
         and zp.different(fold(leaves[:M]), canonical) > 0,
         "zeroproof's sum equals the tree in every element, and the fold is a different sum")

# %% [markdown]
# Neither is the exact sum, and the tree is not claimed to be more accurate *here* (see below). Its
# advantage is an order that does not depend on the number of ranks.
#
# **Guess first.** A library adds with a ring. The same 16 leaves are distributed over 2, 4 and 8
# ranks. In how many elements does the result change when only the number of ranks changes?

# %%
worlds = (2, 4, 8)
rings = {ranks: zp.given("2.3", ring, lambda leaves, ranks: tree(leaves))(leaves[:M], ranks) for ranks in worlds}
zp.table(("ring on", "different from the tree", *[f"from the ring on {ranks}" for ranks in worlds]),
         *[(f"{ranks} ranks", f"{zp.different(total, canonical):,}",
            *[f"{zp.different(total, other):,}" for other in rings.values()]) for ranks, total in rings.items()])
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
def push(stack, level, index, value):
    """Pushes a node, then adds neighbours while the top two are the halves of one node."""
    stack.append((level, index, value))
    while len(stack) > 1 and stack[-1][1] % 2 == 1 and stack[-2][:2] == (stack[-1][0], stack[-1][1] - 1):
        (level, index, right), (_, _, left) = stack.pop(), stack.pop()
        stack.append((level + 1, index // 2, left + right))


def block_of(leaves, begin, end):
    stack = []
    for j in range(begin, end):
        push(stack, 0, j, leaves[j])
    return stack


def tree_over_ranks(leaves, ranks):
    stack = []
    blocks = [block_of(leaves, len(leaves) * rank // ranks, len(leaves) * (rank + 1) // ranks) for rank in range(ranks)]
    for block in zp.given("2.4", blocks, blocks[::-1]):
        for node in block:
            push(stack, *node)
    total = stack.pop()[2]
    while stack:
        total = stack.pop()[2] + total
    return total


changed = {(m, ranks): zp.different(tree_over_ranks(leaves[:m], ranks), tree(leaves[:m]))
           for m in (1, 7, 16, 61) for ranks in range(1, 17)}
print(f"{len(changed)} sums, of 1, 7, 16 and 61 leaves on 1 to 16 ranks; changed elements:",
      sum(changed.values()))
print("a rank with leaves 5 to 10 sends the nodes",
      [(level, index) for level, index, _ in block_of(leaves, 5, 11)])
zp.claim("2.4", sum(changed.values()) == 0, "the tree's bits are the same for every number of ranks")

# %% [markdown]
# **Guess first.** In the fold of M leaves, a leaf passes through up to M - 1 roundings, in the tree
# through log2 M (rounded up). Which error is smaller for M = 64, and by how much?
#
# The bound is [Sum:tree](../papers/summation.md): with $u = 2^{-24}$, $v = u/(1+u)$ and $h$ the
# height of the tree, the error is at most $\lambda_h = (1+v)^h - 1$ times the sum of magnitudes.
# For the fold, $M - 1$ replaces $h$ ([Sum:left](../papers/summation.md)).

# %%
u = 2.0**-24
errors = {"tree": [], "fold": []}
counts = [2, 3, 5, 8, 16, 32, 64]
for m in counts:
    wide = np.array(leaves[:m], np.float64).T
    some = np.abs(wide).sum(axis=1) > 0
    truth = np.array([math.fsum(column) for column in wide[some]])
    size = np.abs(wide[some]).sum(axis=1)
    for name, add in (("tree", tree), ("fold", fold)):
        total = add(leaves[:m])
        total = zp.given("2.5", total, zp.to_bf16(total))
        errors[name].append(float(np.max(np.abs(total[some] - truth) / (u * size))))
bounds = {"tree": [math.ceil(math.log2(m)) for m in counts], "fold": [m - 1 for m in counts]}
zp.table(("M", *[f"{name}: {what}" for name in errors for what in ("largest error", "bound")]),
         *[(m, *[f"{value[i]:.2f}" if value is errors[name] else value[i] for name in errors
                 for value in (errors[name], bounds[name])]) for i, m in enumerate(counts)])
lambdas = {name: [((1 + u / (1 + u))**h - 1) / u for h in bounds[name]] for name in bounds}
zp.claim("2.5", all(e <= b for name in errors for e, b in zip(errors[name], lambdas[name])),
         "every error is below the bound of its order, in units of u times the sum of magnitudes")

# %% [markdown]
# Both errors are far below their bounds, and the fold's error grows faster, as its bound does.
# Accuracy is welcome, but it is not the reason for the tree: its bits depend only on the leaves.
# ([The notes](../papers/summation.md) have the same figure for sums of positive numbers.)

# %%
fig, (left, right) = zp.figure(1, 2, height=3.2)
for name, marker in (("tree", "o"), ("fold", "s")):
    left.plot(counts, errors[name], marker=marker, label=f"{name}, largest error")
    left.plot(counts, bounds[name], color="#8a8a8a", linestyle="-" if name == "tree" else "--", label=f"{name}, bound")
left.set(xscale="log", yscale="log", xlabel="micro-batches M", ylabel="error / (u * sum of magnitudes)")
left.set_title("error")
left.set_xticks(counts, [str(m) for m in counts])
left.minorticks_off()
left.legend(fontsize=7)
some = slice(9000, 9240)
strips = [*[(f"tree, {ranks}", tree_over_ranks(leaves[:M], ranks)) for ranks in worlds],
          *[(f"ring, {ranks}", rings[ranks]) for ranks in worlds]]
picture = np.array([zp.bits(total[some]) != zp.bits(canonical[some]) for _, total in strips])
right.imshow(picture, aspect="auto", cmap="Greys", interpolation="nearest", extent=(some.start, some.stop, 5.5, -0.5))
right.set_yticks(range(6), [name for name, _ in strips])
right.set(xlabel="element", title=f"different from the tree, M = {M}")
zp.show(fig, "Left: largest errors of tree and fold against M, both far below their bounds. Right: strips of elements "
             "that change with the number of ranks: none for the tree, and different ones for "
             "each ring.")

# %% [markdown]
# ## Find it
#
# A fault in the reduction, on 2 ranks with contiguous blocks of 7 micro-batches: rank 0 has leaves
# 0 to 2, rank 1 has leaves 3 to 6. The sum is wrong by one unit in the last place, in some
# elements. So the order of additions is different. Which order is it? Put an order into `mine`
# whose tree (or fold) has the bits of the wrong sum, and explain how the ranks come to it.

# %%
fault = zp.sealed("c2VuZGVycy1zaGFyZS1hLXN0YWNr")
run = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--steps", 1, "--world", "threads:2")
case = zp.verify(*run, "--stage", 2, "--order", "contiguous", fault=fault)["cases"][0]
print(zp.place(case))
seven = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1)
at = case["divergence"]["parameter"], tuple(int(i) for i in case["divergence"]["coordinates"].strip("[]").split(","))
element = [seven[f"grad.1.{j}.{at[0]}"][at[1]] for j in range(7)]
mine = [0, 1, 2, 3, 4, 5, 6]
found = {name: zp.hexadecimal(add([element[j] for j in mine])) for name, add in (("tree", tree), ("fold", fold))}
print("your order", found, "-> found" if case["divergence"]["candidate"].split()[0] in found.values() else "-> not yet")

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
