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
# other ranks to update it ([ZeRO:local](../papers/zero.md)). The assignment of elements to ranks is
# therefore free, and systems differ: here are the layouts of six, for the 12,269 parameters of
# `byte_gpt_tiny` on four ranks.
#
# **Guess first.** Six systems shard the same training in six different layouts. How many different
# results are there after six steps?

# %%
import re

import zp  # first: reports missing packages

import numpy as np

LAYOUTS = ("contract", "megatron", "deepspeed_flat", "deepspeed_param", "fsdp2", "greedy")
STATE = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--world", "threads:4")
shapes = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1)
names = shapes.metadata["order"].splitlines()
starts = dict(zip(names, np.cumsum([0] + [shapes[f"param.{name}"].size for name in names])))
numel = sum(shapes[f"param.{name}"].size for name in names)


def owners(layout, ranks):
    """The owner of each element, and the number of its owners."""
    plan = zp.json_of("plan", "byte_gpt_tiny", "--owners", "--grid", f"{ranks}x1x1", "--layout", layout)
    owner, times = np.full(numel, -1), np.zeros(numel, int)
    for rank in plan["ranks"]:
        for piece in (piece for part in rank["slices"] for piece in part["pieces"]):
            begin = starts[piece["tensor"]]
            own = slice(begin + piece["tensor_begin"], begin + piece["tensor_end"])
            owner[own] = rank["rank"]
            times[own] += 1
    return owner, times


report = zp.verify(*STATE, "--stage", 1, "--norm", "exact", "--layout", ",".join(zp.given("6.1", LAYOUTS, LAYOUTS[:1])))
hashes = {case["training"]["trajectory_hash"] for case in report["cases"] if case["status"] == "pass"}
where = {layout: owners(layout, 4)[0] for layout in LAYOUTS}
zp.table(("layout", "elements of rank 0, 1, 2, 3", "other owner than in the contract's layout"),
         *[(layout, " ".join(f"{int((owner == rank).sum()):5}" for rank in range(4)),
            f"{int((owner != where['contract']).sum()):,}") for layout, owner in where.items()])
print(f"{report['summary']['pass']} runs passed, trajectory hashes: {', '.join(sorted(hashes))}")
zp.claim("6.1", len(hashes) == 1 and report["summary"]["pass"] == 6
         and all((where[layout] != where["contract"]).any() for layout in LAYOUTS[1:]),
         "six layouts differ in their owners, and have one result, in every bit of every step")

# %% [markdown]
# (The norm has the form `exact` here: `chunk1024` of lesson 5 needs shard boundaries at multiples
# of 1024, and only the contract's own layout has those.)
#
# The assignment has to meet one condition. **Guess first.** Is it enough that every rank owns
# `numel // N` elements?

# %%
worlds = (1, 2, 3, 5, 8, 64)
wrong = {}
for layout in LAYOUTS:
    for ranks in worlds:
        owner, times = owners(layout, ranks)
        times[:zp.given("6.2", 0, 1)] += 1
        wrong[layout, ranks] = int((times != 1).sum())
print(f"{len(wrong)} pairs of layout and number of ranks; elements with no owner, or two:",
      sum(wrong.values()))
zp.claim("6.2", sum(wrong.values()) == 0, "every element has exactly one owner, in each layout, on 1 to 64 ranks")

# %%
elements = zp.given("6.3", numel, 720720)
lost = {ranks: elements - ranks * (elements // ranks) for ranks in range(1, 1001)}
zp.table(("ranks", "elements without an owner, if each rank owns numel // N"),
         *[(n, lost[n]) for n in (2, 4, 8, 64, 1000)])
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
plan = zp.json_of("plan", "byte_gpt_tiny", "--grid", "4x1x1", "--micro-batches", 7, "--bucket", 4096)
job = ("train", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--windows", "off",
       "--steps", 3)
rows, differences, after = [], [], {}
for stage in range(4):
    rank0 = plan["stages"][stage]["smallest"]
    assert rank0["data_rank"] == 0
    measured = int(re.search(r"([\d,]+) bytes on rank 0", zp.run(*job, "--stage", stage))[1].replace(",", ""))
    gradient = rank0["at_peak_of_sum"]["grad"] if stage < 3 else 0  # of the model
    planned = rank0["total_peak"] - gradient + zp.given("6.4", 0, 1)
    differences.append(measured - planned)
    after[stage] = rank0["after_step"]
    shown = after[stage]["master"], after[stage]["state"], planned, measured
    rows.append((stage, *[f"{value:,}" for value in shown]))
zp.table(("stage", "master", "moments", "peak, planned", "peak, measured"), *rows)
zp.claim("6.4", differences == [0, 0, 0, 0],
         "the measured peak equals the planned one, to the byte, in every stage")

# %% [markdown]
# **Guess first.** From stage 0 to stage 1 on four ranks: which of master, moments, gradients and
# parameters shrink to a quarter?

# %%
classes = ("master", "state", "param_shard", "param_full", "grad_nodes", "grad_sum")
largest = plan["stages"][zp.given("6.5", 1, 0)]["largest"]["after_step"]
ratio = {name: largest[name] / after[0][name] for name in ("master", "state")}
zp.table(("bytes on rank 0", "stage 0", "stage 1"),
         *[(name, f"{after[0][name]:,}", f"{after[1][name]:,}") for name in classes])
zp.table(("stage 1 / stage 0, largest rank", ""), *[(name, f"{value:.4f}") for name, value in ratio.items()])
same = after[1]["grad_nodes"] == after[0]["grad_nodes"]
zp.claim("6.5", all(0.25 <= value < 0.26 for value in ratio.values()) and same,
         "stage 1 divides master and moments by the number of ranks, and not the nodes of the "
         "gradient sum")

# %% [markdown]
# Slightly more than a quarter: tensors begin at multiples of 1024 (R13), and the padding is sharded
# too. In a model of this size padding is most of the memory; in a model with billions of parameters
# it is negligible.

# %%
fig, (left, right) = zp.figure(1, 2, height=3.4)
strips = np.array([where[layout] for layout in LAYOUTS])
left.imshow(strips, aspect="auto", cmap="Greys", interpolation="nearest", vmin=-1, vmax=4)
left.set_yticks(range(6), LAYOUTS)
left.set(xlabel="element", title="owners: ranks 0 (light) to 3")
bottom = np.zeros(4)
shades = ("#222222", "#5a5a5a", "#9a9a9a", "#c8c8c8", "#b34700", "#e0a070")
for name, shade, hatch in zip(classes, shades, ("", "", "", "//", "", "xx")):
    height = np.array([after[stage][name] for stage in range(4)]) / 1000
    right.bar(range(4), height, bottom=bottom, color=shade, hatch=hatch, edgecolor="white", label=name)
    bottom += height
right.set(xlabel="stage", ylabel="kB on rank 0 after a step", title="memory", xticks=range(4))
right.legend(fontsize=7)
zp.show(fig, "Left: strips of the elements of six layouts, shaded by the rank that owns them: blocks, interleaved "
             "pieces, whole tensors. Right: bytes on rank 0 in stages 0 to 3 by class: the state shrinks in stage 1.")

# %% [markdown]
# ## Find it
#
# A fault, modelled on a public library: part of the update is missing. Of which elements, and why
# exactly these?

# %%
seal = "c2hhcmQtZnJvbS11bnBhZGRlZC1jb3VudA=="
case = zp.verify(*STATE, "--stage", 1, fault=zp.sealed(seal))["cases"][0]
print(zp.place(case))
print("  hint:", case["divergence"]["hint"])
mine = ""
print(zp.answer(mine, seal))

# %% [markdown]
# Names to choose from: `shard-from-unpadded-count`, `uneven-rows-dropped`, `narrow-element-count`,
# `do-nothing`, `shards-of-another-world`.
#
# ## Puzzle 7
#
# Write the contract's own layout yourself, tested on 1 to 1,000 ranks: `python3 notebooks/puzzle
# start shard_map` ([how](puzzles/README.md)). Then design another one: no element is lost, the
# ranks' counts differ by at most one element, and a rank may own nothing; draw it with `owners` as
# a seventh strip.
#
# ## Further reading
#
# - [plain_stage1.cpp](../reference/zero/plain/plain_stage1.cpp), one page;
#   [shard_map.hpp](../common/layout/shard_map.hpp); the layouts of other systems:
#   [layouts.md](../papers/layouts.md).
# - [ZeRO:memory](../papers/zero.md); published counts: `build/zeroproof plan byte_gpt --count
#   claims`.
