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
# # 7. Communication volume
#
# **Question.** "ZeRO-2 saves memory and costs nothing", "all stages communicate the same". How many
# bytes does a rank send in a step, and for which data?
#
# 25 minutes. `zeroproof plan` computes the bytes of every collective of a step; tests of this
# project compare these numbers with the bytes actually sent. Here is a model of 16 tensors of 2^20
# elements on 8 ranks: fp32 gradients, bf16 parameters.
#
# **Guess first.** A step has 64 micro-batches. Order the stages 0, 1, 2 and 3 by the bytes that a
# rank sends.

# %%
import zp  # first: reports missing packages
import zp_lesson07 as lesson

counts = (8, 16, 32, 64, 128)
bytes_of = {m: [lesson.per_parameter(stage, m) for stage in range(4)] for m in counts}
zp.table(("micro-batches", *[f"stage {stage}" for stage in range(4)]),
         *[(m, *[f"{value:.2f}" for value in values]) for m, values in bytes_of.items()])
print("bytes per parameter that a rank sends in a step, times 8/7 (a rank sends nothing to itself)")
few = bytes_of[8]
zp.claim("7.1", abs(few[1] - few[2]) < 0.01 and few[3] > few[2] + 1,
         "with one micro-batch per rank, stages 1 and 2 send the same, and stage 3 sends more")

# %%
lesson.draw_kinds(micro_batches=(8, 64))

# %% [markdown]
# The sentence about ZeRO-2 is true in the first row. Stage 2 sends the gradient of each micro-batch
# at once, because it does not keep gradients of elements it does not own; stage 1 keeps the sum of
# its own micro-batches and sends it once.
#
# **Guess first.** By what factor does stage 2 send more than stage 1 with 64 micro-batches on 8
# ranks?

# %%
many = bytes_of[64]
zp.table(("64 micro-batches", "bytes per parameter", "relative to stage 1"),
         *[(f"stage {stage}", f"{value:.2f}", f"{value / many[1]:.2f}") for stage, value in enumerate(many)])
lesson.draw_growth(counts)
zp.claim("7.2", many[2] > 5 * many[1] and many[3] > 10 * many[1],
         "with 8 micro-batches per rank, stage 2 sends over 5 times and stage 3 over 10 times as "
         "much as stage 1")

# %% [markdown]
# All of it can be counted by hand. With $M$ micro-batches, $N$ ranks and $n$ units (here: tensors),
# per parameter:
#
# - the sum of gradients, 4 bytes: once in stages 0 and 1, $M/N$ times in stages 2 and 3; stage 0
#   also sends the sum back, 4 more bytes;
# - parameters, 2 bytes: once in stages 1 and 2; in stage 3 for every micro-batch, forward and
#   backward, except for the last unit, which is kept between the passes: $2n - 1$ gathers of $n$
#   units ([ZeRO:units](../papers/zero.md)).
#
# **Your code.** Write these sentences as a function. A correct function is used below; otherwise
# the lesson continues with its own.

# %%
@lesson.blank
def bytes_by_hand(stage, micro_batches, ranks, units):
    """The bytes per parameter that a rank sends in a step, without the factor (N - 1) / N."""
    return ...  # your code, a line for each stage


# %%
differences = []
for m in counts:
    for stage in range(4):
        by_hand = bytes_by_hand(stage, m, lesson.RANKS, lesson.TENSORS) * lesson.P * (lesson.RANKS - 1) / lesson.RANKS
        differences.append(lesson.sent(stage, m, *lesson.BULK) - round(by_hand))
rest = max(lesson.sent(stage, m) - lesson.sent(stage, m, *lesson.BULK) for m in counts for stage in range(4))
print(f"{len(differences)} plans; bytes by which the count differs: {max(map(abs, differences))}")
print(f"everything else that ranks send (scalars, the overflow flag, 23 words of a norm): {rest:,} bytes")
zp.claim("7.3", not any(differences), "four formulas give the bytes of the plan exactly")

# %% [markdown]
# Does the tree of lesson 2 cost anything? A ring sends each part of the sum once around the ranks:
# $(N-1)/N$ of the gradient. The tree sends maximal nodes: one per rank if $M/N$ is a power of two,
# otherwise more. Here are the nodes of 20 micro-batches on 4 ranks:

# %%
lesson.draw_nodes(count=20, ranks=4)

# %% [markdown]
# **Guess first.** 4 ranks, 16 micro-batches: how many bytes more than a ring? And with 20
# micro-batches?
#
# **Your code.** Count the nodes of a block: aligned groups of 1, 2, 4, ... leaves, as few as
# possible. A group of 4 begins at a multiple of 4.

# %%
@lesson.blank
def count_nodes(a, b):
    """The number of nodes that a rank with leaves a, a + 1, ..., b - 1 sends."""
    return ...  # your code, a few lines


# %%
rows, ring = [], 4 * lesson.P * 3 // 4
for m in (4, 16, 20, 28, 64):
    nodes = [count_nodes(m * rank // 4, m * (rank + 1) // 4) for rank in range(4)]
    rows.append((m, nodes, lesson.sent(1, m, "nodes", ranks=4)))
zp.table(("micro-batches", "nodes of rank 0, 1, 2, 3", "ring", "tree, largest rank"),
         *[(m, " ".join(map(str, nodes)), f"{ring:,}", f"{planned:,}") for m, nodes, planned in rows])
lesson.draw_ring_and_tree([(m, ring, planned) for m, _, planned in rows])
zp.claim("7.4", all(planned == max(nodes) * ring for _, nodes, planned in rows),
         "the tree sends as much as a ring, times a rank's nodes: one if M / N is a power of two")

# %% [markdown]
# Results that do not depend on the number of ranks cost no extra bytes with 4, 16 or 64
# micro-batches on 4 ranks, and triple the reduction with 20. The number of nodes is bounded:
# [ZeRO:nodes](../papers/zero.md).
#
# **Guess first.** Stage 0 sends sums back, stage 2 sends every micro-batch gradient, stage 3 sends
# parameters many times. In how many bits do the four results differ?

# %%
report = lesson.train_in_stages("0,1,2,3")
hashes = {case["training"]["trajectory_hash"] for case in report["cases"]}
print(f"{report['summary']['pass']} stages pass, with trajectory {', '.join(hashes)}")
zp.claim("7.5", report["summary"]["pass"] == 4 and len(hashes) == 1,
         "the stages send different data and have one result")

# %% [markdown]
# (Communication can overlap with computation, and memory may be the scarce resource. These counts
# say only how much is sent.)
#
# ## Find it
#
# One rank receives wrong parameters. Compare the two patterns bit by bit: `got ^ want`. Which kind
# of fault leaves this trace, and which kind does not?

# %%
case = zp.verify(*lesson.RUN, "--stage", 2, fault="?7")["cases"][0]
print(zp.place(case))
got, want = zp.number(case["divergence"]["candidate"]), zp.number(case["divergence"]["reference"])
print(f"  got ^ want = {got ^ want:#06x}")
mine = ""
zp.guess("?7", mine)

# %% [markdown]
# Names to choose from: `last-bucket-not-gathered`, `transport-corrupts-a-line`,
# `no-gather-after-load`, `reduce-reads-other-buffer`, `no-master`.
#
# ## Puzzle 8
#
# Write the reduction of stage 1 yourself, in bits and within bytes, messages and memory of the
# plan: `python3 notebooks/puzzle start reduce` ([how](puzzles/README.md)). And one on paper: with
# 20 micro-batches on 4 ranks every rank has a block of 5. Another assignment of micro-batches to
# ranks, still 5 each, needs fewer nodes: find one, and count its nodes. (`--order strided` is not
# it.)
#
# ## Further reading
#
# - [gradient_exchange.cpp](../reference/zero/sharded/gradient_exchange.cpp), and one page per stage:
#   [plain_stage2.cpp](../reference/zero/plain/plain_stage2.cpp),
#   [plain_stage3.cpp](../reference/zero/plain/plain_stage3.cpp).
# - [ZeRO:volume, ZeRO:nodes, ZeRO:exchange](../papers/zero.md); `build/zeroproof plan --help`.
