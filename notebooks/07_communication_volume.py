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
import pathlib
import tempfile

import zp  # reports missing packages

RANKS, TENSORS = 8, 16
MODEL = f'[[tensor]]\nname = "block{{i}}.weight"\nshape = [1024, 1024]\nrepeat = {TENSORS}\n'
P = TENSORS * 2**20


def plan_of(micro_batches, ranks=RANKS):
    """The plan of a step: for each stage, the traffic of the largest rank."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.toml")
        path.write_text(MODEL)
        plan = zp.json_of("plan", path, "--grid", f"{ranks}x1x1", "--micro-batches", micro_batches)
    return [stage["largest"]["traffic"] for stage in plan["stages"]]


def sent(traffic, *what):
    """Bytes of the collectives for these data; of all collectives without a name."""
    return sum(row["sent_bytes"] for row in traffic if not what or row["of"] in what)


counts = (8, 16, 32, 64, 128)
per_parameter = {m: [sent(stage) / P * RANKS / (RANKS - 1) for stage in plan_of(m)] for m in counts}
zp.table(("micro-batches", *[f"stage {stage}" for stage in range(4)]),
         *[(m, *[f"{value:.2f}" for value in values]) for m, values in per_parameter.items()])
print("bytes per parameter that a rank sends in a step, times 8/7 (a rank sends nothing to itself)")
few = per_parameter[zp.given("7.1", 8, 64)]
zp.claim("7.1", abs(few[1] - few[2]) < 0.01 and few[3] > few[2] + 1,
         "with one micro-batch per rank, stages 1 and 2 send the same, and stage 3 sends more")

# %% [markdown]
# The sentence about ZeRO-2 is true in the first row. Stage 2 sends the gradient of each micro-batch
# at once, because it does not keep gradients of elements it does not own; stage 1 keeps the sum of
# its own micro-batches and sends it once.
#
# **Guess first.** By what factor does stage 2 send more than stage 1 with 64 micro-batches on 8
# ranks?

# %%
many = per_parameter[zp.given("7.2", 64, 8)]
zp.table(("64 micro-batches", "bytes per parameter", "relative to stage 1"),
         *[(f"stage {stage}", f"{value:.2f}", f"{value / many[1]:.2f}") for stage, value in enumerate(many)])
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

# %%
def by_hand(m):
    each, visits = m / RANKS, (2 * TENSORS - 1) / TENSORS
    whole = [4 + 4, 4 + 2, 4 * each + 2, 4 * each + 2 * each * visits]
    return [round(value * P * (RANKS - 1) / RANKS) for value in whole]


bulk = ("nodes", "leaves", "sums", "parameters", "units")
differences = []
for m in counts:
    planned = [sent(stage, *bulk) for stage in plan_of(m)]
    differences += [one - other for one, other in zip(planned, by_hand(zp.given("7.3", m, m + 8)))]
rest = max(sent(stage) - sent(stage, *bulk) for m in counts for stage in plan_of(m))
print(f"{len(differences)} plans; bytes by which the count differs: {max(map(abs, differences))}")
print("everything else that ranks send (scalars, the overflow flag, 23 words of a norm):",
      f"{rest:,} bytes")
zp.claim("7.3", not any(differences), "four formulas give the bytes of the plan exactly")

# %% [markdown]
# Does the tree of lesson 2 cost anything? A ring sends each part of the sum once around the ranks:
# $(N-1)/N$ of the gradient. The tree sends maximal nodes: one per rank if $M/N$ is a power of two,
# otherwise more.
#
# **Guess first.** 4 ranks, 16 micro-batches: how many bytes more than a ring? And with 20
# micro-batches?


# %%
def nodes_of_block(a, b):
    """Number of nodes that a rank with leaves [a, b) sends."""
    count = 0
    while a < b:
        level = 0
        while a % 2**(level + 1) == 0 and a + 2**(level + 1) <= b:
            level += 1
        a, count = a + 2**level, count + 1
    return count


rows, right = [], []
for m in (4, 16, 20, 28, 64):
    ring = 4 * P * 3 // 4
    blocks = [nodes_of_block(m * rank // 4, m * (rank + 1) // 4) for rank in range(4)]
    planned = sent(plan_of(m, ranks=4)[1], "nodes")
    right.append(planned == max(blocks) * ring + zp.given("7.4", 0, 4))
    rows.append((m, " ".join(map(str, blocks)), f"{ring:,}", f"{planned:,}"))
zp.table(("micro-batches", "nodes of rank 0, 1, 2, 3", "ring", "tree, largest rank"), *rows)
zp.claim("7.4", all(right),
         "the tree sends as much as a ring, times a rank's nodes: one if M / N is a power of two")

# %% [markdown]
# Results that do not depend on the number of ranks cost no extra bytes with 4, 16 or 64
# micro-batches on 4 ranks, and triple the reduction with 20. The number of nodes is bounded:
# [ZeRO:nodes](../papers/zero.md).
#
# **Guess first.** Stage 0 sends sums back, stage 2 sends every micro-batch gradient, stage 3 sends
# parameters many times. In how many bits do the four results differ?

# %%
stages = zp.given("7.5", "0,1,2,3", "0,1,2")
run = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--world", "threads:4",
       "--windows", "off")
report = zp.verify(*run, "--stage", stages)
hashes = {case["training"]["trajectory_hash"] for case in report["cases"]}
print(f"{report['summary']['pass']} stages pass, with trajectory {', '.join(hashes)}")
zp.claim("7.5", report["summary"]["pass"] == 4 and len(hashes) == 1,
         "the stages send different data and have one result")

# %%
fig, axes = zp.figure(height=3.2)
for stage, marker in zip(range(4), "osd^"):
    axes.plot(counts, [per_parameter[m][stage] for m in counts], marker=marker, label=f"stage {stage}")
axes.set(xscale="log", yscale="log", xlabel="micro-batches of a step, on 8 ranks")
axes.set_ylabel("bytes per parameter, times 8/7")
axes.set_xticks(counts, [str(m) for m in counts])
axes.set_yticks([6, 10, 20, 50, 100], ["6", "10", "20", "50", "100"])
axes.minorticks_off()
axes.legend()
zp.show(fig, "Bytes that a rank sends per parameter and step against micro-batches: stages 0 and 1 stay at 8 and 6, "
             "stages 2 and 3 grow in proportion to the micro-batches, to 66 and 126 at 128 micro-batches.")

# %% [markdown]
# (Communication can overlap with computation, and memory may be the scarce resource. These counts
# say only how much is sent.)
#
# ## Find it
#
# One rank receives wrong parameters. Compare the two patterns bit by bit: `got ^ want`. Which kind
# of fault leaves this trace, and which kind does not?

# %%
seal = "dHJhbnNwb3J0LWNvcnJ1cHRzLWEtbGluZQ=="
case = zp.verify(*run, "--stage", 2, fault=zp.sealed(seal))["cases"][0]
print(zp.place(case))
pair = zp.number(case["divergence"]["candidate"]), zp.number(case["divergence"]["reference"])
print(f"  got ^ want = {pair[0] ^ pair[1]:#06x}")
mine = ""
print(zp.answer(mine, seal))

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
