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
# # 6. Ownership and memory
#
# **Question.** ZeRO splits master weights and moments into shards. Where are the boundaries, does
# it matter, and how much memory is saved?
#
# 20 minutes. An update works element by element, so the owner of an element needs nothing from
# other ranks to update it ([ZeRO:local](../papers/zero.md)). In stage 1 every rank still computes a
# whole gradient; its parts go to their owners, and the updated parameters return:

# %%
import zp  # first: reports missing packages
import zp_lesson06 as lesson

lesson.draw_exchange()

# %% [markdown]
# The assignment of elements to ranks is free, and systems differ: here are the layouts of six, for
# the 12,269 parameters of `byte_gpt_tiny` on four ranks.
#
# **Guess first.** Six systems shard the same training in six different layouts. How many different
# results are there after six steps?

# %%
where = {layout: lesson.owners(layout, ranks=4) for layout in lesson.LAYOUTS}
lesson.draw_owners(where)

# %%
report = lesson.train_with_layouts(lesson.LAYOUTS)
hashes = {case["training"]["trajectory_hash"] for case in report["cases"] if case["status"] == "pass"}
moved = {layout: int((owner != where["contract"]).sum()) for layout, owner in where.items()}
zp.table(("layout", *[f"rank {rank}" for rank in range(4)], "moved"),
         *[(layout, *[int((owner == rank).sum()) for rank in range(4)], moved[layout])
           for layout, owner in where.items()])
print("(elements of each rank; moved: another owner than in the contract's layout)")
print(f"{report['summary']['pass']} runs passed; trajectory: {', '.join(sorted(hashes))}")
zp.claim("6.1", len(hashes) == 1 and report["summary"]["pass"] == 6 and all(list(moved.values())[1:]),
         "six layouts differ in their owners, and have one result, in every bit of every step")

# %% [markdown]
# (The norm has the form `exact` here: `chunk1024` of lesson 5 needs shard boundaries at multiples
# of 1024, and only the contract's own layout has those.)
#
# The assignment has to meet one condition: every element has exactly one owner.
#
# **Your code.** Write the check: how many ranks own each element? A correct function is used in the
# next cell; otherwise the lesson continues with its own.

# %%
import numpy as np


@lesson.blank
def times_owned(ranges_of_ranks, numel):
    """For each of numel elements, the number of ranks that own it.

    ranges_of_ranks has a list for each rank: the ranges (begin, end) of its elements, end excluded.
    """
    times = np.zeros(numel, np.int64)
    return ...  # your code, a few lines


# %%
wrong = {(layout, ranks): int((times_owned(lesson.owned_by(layout, ranks), lesson.NUMEL) != 1).sum())
         for layout in lesson.LAYOUTS for ranks in (1, 2, 3, 5, 8, 64)}
print(f"{len(wrong)} pairs of layout and number of ranks; elements with no owner, or two:", sum(wrong.values()))
zp.claim("6.2", sum(wrong.values()) == 0, "every element has exactly one owner, in each layout, on 1 to 64 ranks")

# %% [markdown]
# **Guess first.** Is it enough that every rank owns `numel // N` elements?

# %%
lesson.draw_remainder()


@lesson.blank
def without_owner(numel, ranks):
    """The number of elements without an owner, if each rank owns numel // ranks of them."""
    return ...  # your code


# %%
lost = {ranks: without_owner(lesson.NUMEL, ranks) for ranks in range(1, 1001)}
zp.table(("ranks", "elements without an owner"), *[(n, lost[n]) for n in (2, 4, 8, 64, 1000)])
print(f"of 1 to 1,000 ranks, {sum(left > 0 for left in lost.values())} lose some")
zp.claim("6.3", all(lost[ranks] > 0 for ranks in (2, 4, 8, 64)),
         "numel // N loses the remainder of the division")

# %% [markdown]
# One parameter of 12,269 that is never updated: no loss curve reveals that. Lesson 1 shows a check
# that does.
#
# Now the memory. Published counts are 16, 18 and 20 bytes per parameter, and none of them is wrong:
# they count different tensors. Here are the program's own classes of memory on rank 0, computed by
# `zeroproof plan`, and the bytes that the production code allocated, measured by `zeroproof train`.

# %%
lesson.draw_memory()
peaks = [(lesson.planned_peak(stage), lesson.measured_peak(stage)) for stage in range(4)]
after = [lesson.after_step(stage) for stage in range(4)]
zp.table(("stage", "master", "moments", "peak, planned", "peak, measured"),
         *[(stage, *[f"{value:,}" for value in (after[stage]["master"], after[stage]["state"], *peaks[stage])])
           for stage in range(4)])
zp.claim("6.4", all(planned == measured for planned, measured in peaks),
         "the measured peak equals the planned one, to the byte, in every stage")

# %% [markdown]
# **Guess first.** From stage 0 to stage 1 on four ranks: which of master, moments, gradients and
# parameters shrink to a quarter?

# %%
largest = lesson.after_step(1, "largest")
zp.table(("bytes on rank 0", "stage 0", "stage 1"),
         *[(name, f"{after[0][name]:,}", f"{after[1][name]:,}") for name in lesson.CLASSES])
ratio = {name: largest[name] / after[0][name] for name in ("master", "state")}
zp.table(("stage 1 / stage 0, largest rank", ""), *[(name, f"{value:.4f}") for name, value in ratio.items()])
same = after[1]["grad_nodes"] == after[0]["grad_nodes"]
zp.claim("6.5", all(0.25 <= value < 0.26 for value in ratio.values()) and same,
         "stage 1 divides master and moments by the number of ranks, and not the nodes of the "
         "gradient sum")

# %% [markdown]
# Slightly more than a quarter: tensors begin at multiples of 1024 (R13), and the padding is sharded
# too. In a model of this size padding is most of the memory; in a model with billions of parameters
# it is negligible.
#
# ## Find it
#
# A fault, modelled on a public library: part of the update is missing. Of which elements, and why
# exactly these?

# %%
case = zp.verify(*lesson.STATE, "--stage", 1, fault="?6")["cases"][0]
print(zp.place(case))
print("  hint:", case["divergence"]["hint"])
mine = ""
zp.guess("?6", mine)

# %% [markdown]
# Names to choose from: `shard-from-unpadded-count`, `uneven-rows-dropped`, `narrow-element-count`,
# `do-nothing`, `shards-of-another-world`.
#
# ## Puzzle 7
#
# Write the contract's own layout yourself, tested on 1 to 1,000 ranks: `python3 notebooks/puzzle
# start shard_map` ([how](puzzles/README.md)). Then design another one: no element is lost, the
# ranks' counts differ by at most one element, and a rank may own nothing; draw it with
# `lesson.draw_owners` as a seventh strip.
#
# ## Further reading
#
# - [plain_stage1.cpp](../reference/zero/plain/plain_stage1.cpp), one page;
#   [shard_map.hpp](../common/layout/shard_map.hpp); the layouts of other systems:
#   [layouts.md](../papers/layouts.md).
# - [ZeRO:memory](../papers/zero.md); published counts: `build/zeroproof plan byte_gpt --count
#   claims`.
