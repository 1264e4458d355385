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
# # 8. Gathered parameters
#
# **Question.** In stage 3 no rank has the whole model. A rank gathers a part, computes with it and
# releases it. How often, how much at a time, and what happens when a released part is read?
#
# 25 minutes. A model is split into *units*, neighbouring tensors that are used together
# ([ZeRO:units](../papers/zero.md)). Before a unit computes, its owners send it to every rank:
# *gather*. After this *visit* it is *released*. Papers state that parameters are sent twice per
# step in stage 3, once for the forward and once for the backward pass.
#
# **Guess first.** 3 units, 2 ranks, 4 micro-batches. How often does a rank gather a unit in one
# step?

# %%
import re

import zp  # first: reports missing packages

import numpy as np
from matplotlib.patches import Rectangle


def reduction(ranks, micro_batches):
    """Messages, memory and visits while gradients are computed and added; and the model's units."""
    words = ("--stage", 3, "--steps", 1, "--world", ranks, "--micro-batches", micro_batches)
    trace = zp.json_of("trace", *words)
    return next(p for p in trace["steps"][0]["phases"] if p["phase"] == "reduce"), trace["layout"]["units"]


rows, right = [], []
for ranks, micro_batches in ((2, 4), (2, 5), (3, 5), (4, 5), (4, 1)):
    reduce, units = reduction(ranks, micro_batches)
    times, batches = [], []
    for rank in range(ranks):
        calls = {m["call"] for m in reduce["messages"] if m["what"] == "parameters" and rank in (m["from"], m["to"])}
        times.append(len(calls))
        batches.append(len({v["micro_batch"] for v in reduce["visits"] if v["rank"] == rank} - {None}))
    micro_steps = -(-micro_batches // ranks)
    each = zp.given("8.1", 2 * len(units) - 1, 2 * len(units))
    right += [count == each * micro_steps for count in times]
    rows.append((ranks, micro_batches, " ".join(map(str, batches)), micro_steps, " ".join(map(str, times))))
print(f"{len(units)} units: {', '.join(unit['name'] for unit in units)}")
zp.table(("ranks", "micro-batches", "of them on rank 0, 1, ..", "micro-steps", "gathers of rank 0, 1, .."), *rows)
zp.claim("8.1", all(right),
         "a rank takes part in 2 n - 1 gathers in a micro-step of n units, even without a "
         "micro-batch")

# %% [markdown]
# Not 2 n: the last unit of the forward pass is the first of the backward pass, and is kept between
# them. And not once per micro-batch: a gather needs every owner, so a rank without a micro-batch
# executes all visits together with the others. If it does not, the other ranks wait forever.
#
# **Guess first.** How many units does a rank hold at the same time?

# %%
weight = {unit["name"]: 2 * (unit["end"] - unit["begin"]) for unit in units}  # bf16
zp.table(("unit", "bytes"), *weight.items())
held = {}
for ranks in (2, 3, 4):
    for micro_batches in (1, 4, 7):
        for event in reduction(ranks, micro_batches)[0]["memory"]:
            if event["class"] == zp.given("8.2", "param_full", "grad"):
                held[ranks, event["rank"]] = max(held.get((ranks, event["rank"]), 0), event["bytes"])
zp.table(("ranks", "most bytes of units on rank 0, 1, .."),
         *[(ranks, " ".join(str(held.get((ranks, rank), 0)) for rank in range(ranks))) for ranks in (2, 3, 4)])
model = zp.json_of("plan", "byte_gpt", "--grid", "1x1x1")["model"]
grids = {ranks: zp.json_of("plan", "byte_gpt", "--grid", f"{ranks}x1x1")["stages"] for ranks in (2, 8, 64)}
classes = ("param_shard", "param_full")
zp.table(("byte_gpt: bytes on the largest rank", *[f"{ranks} ranks" for ranks in grids]),
         *[(f"stage {stage} {name}", *[f"{stages[stage]['largest']['peak'][name]:,}" for stages in grids.values()])
           for stage in (2, 3) for name in classes])
full = {stages[3]["largest"]["peak"]["param_full"] for stages in grids.values()}
zp.claim("8.2", set(held.values()) == {max(weight.values())} and full == {2 * model["largest_unit"]},
         "a rank has one unit at a time, so gathered parameters take the size of the largest "
         "unit, on any number of ranks")

# %% [markdown]
# The largest unit determines the memory: more ranks make the shard smaller, but not the gathered
# unit.
#
# Now a released unit is read. Its memory may still be allocated and still contain the old values:
# then the bug has no effect until the memory is reused. This project fills a released unit with
# NaN.
#
# **Guess first.** A model releases a unit after its forward pass and reads it again in the backward
# pass, without a gather. Where is this detected first: in which step, in which visit?

# %%
RUN = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--world", "threads:3")
case = zp.verify(*RUN, "--stage", 3, fault=zp.given("8.3", "unit-read-after-release", "units-swapped"))["cases"][0]
print(zp.place(case))
first = case["divergence"]
got = zp.from_bf16(np.uint16(zp.number(re.search("got (0x[0-9a-f]+)", first["what"])[1])))
zp.claim("8.3", first["step"] == 1 and "backward" in first["what"] and bool(np.isnan(got)),
         "a unit read after its release is NaN, so the first visit that reads it is reported")

# %% [markdown]
# Unit 3 is the last one, and the first one read in the backward pass.
#
# While a unit computes, the network is idle. *Prefetch* gathers the next unit in the meantime, so
# two units are in memory. `zeroproof train` measures the memory of a rank, with and without
# prefetch.
#
# **Guess first.** What does prefetch cost: twice the memory? One more unit? Nothing?

# %%
plan = zp.json_of("plan", "byte_gpt_tiny", "--owners", "--grid", "1x1x1")  # one rank owns all tensors, in their order
numel, weights = {}, {}
for piece in (piece for part in plan["ranks"][0]["slices"] for piece in part["pieces"]):
    numel[piece["tensor"]] = piece["tensor_end"]
for name, elements in numel.items():
    block = re.match(r"block\d+", name)
    unit = block[0] if block else "head" if len(weights) > 1 else "embedding"
    weights[unit] = weights.get(unit, 0) + 2 * (-(-elements // 1024) * 1024)  # bf16; tensors begin at 1024s (R13)
zp.table(("unit", "bytes"), *[(unit, f"{size:,}") for unit, size in weights.items()])
sizes = list(weights.values())
two = zp.given("8.4", max(a + b for a, b in zip(sizes, sizes[1:])), max(sizes))


def peak(ranks, bucket, *words):
    job = ("train", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1, "--stage", 3)
    said = zp.run(*job, "--world", f"threads:{ranks}", "--bucket", bucket, *words)
    return int(re.search(r"([\d,]+) bytes on rank 0", said)[1].replace(",", ""))


rows, more = [], {}
for ranks in (2, 3, 4):
    for bucket in (262144, 4096):
        alone, overlapped = peak(ranks, bucket), peak(ranks, bucket, "--overlap")
        more[ranks, bucket] = overlapped - alone
        counts = alone, overlapped, overlapped - alone
        rows.append((f"{ranks} ranks, buckets of {bucket:,}", *[f"{count:,}" for count in counts]))
zp.table(("peak of rank 0, bytes", "one unit", "prefetch", "more"), *rows)
zp.claim("8.4", all(more[ranks, 262144] == two - max(sizes) for ranks in (2, 3, 4)),
         "with one bucket, prefetch costs one more unit: the largest two neighbours minus the "
         "largest one")

# %% [markdown]
# With one large bucket the gradients of all units stay until the last one is ready, and the
# difference is the second unit. With small buckets a gradient is sent early, and with overlap two
# visits later: that is the rest of the difference.
#
# **Guess first.** With prefetch, computing as soon as parameters arrive, and sending during other
# computations: how many bits of six steps change?

# %%
plain = zp.verify(*RUN, "--stage", "0,1,2,3")["cases"]
early = zp.verify(*[zp.given("8.5", word, "adam") if word == "adamw" else word for word in RUN], "--stage", "2,3",
                  "--overlap")["cases"]
hashes = [case["training"]["trajectory_hash"] for case in plain + early]
rows = [(f"stage {case['training']['stage']}{', overlap' * (case in early)}", case["status"], value)
        for case, value in zip(plain + early, hashes)]
zp.table(("", "", "trajectory"), *rows)
zp.claim("8.5", len(hashes) == 6 and len(set(hashes)) == 1 and all(case["status"] == "pass" for case in plain + early),
         "gathering units, and gathering them early, changes no bit")

# %%
reduce, units = reduction(4, 5)
names = [unit["name"] for unit in units]
done = [[event for event in reduce["visits"] if event["rank"] == rank] for rank in range(4)]
columns = sum(event["event"] == "gather" for event in done[0])
fig, axes = zp.figure(height=4.2)
for rank, events in enumerate(done):
    column = -1
    for event in events:
        row = rank * (len(units) + 0.6) + event["unit"]
        if event["event"] == "gather":
            column, letters = column + 1, ""
        elif event["event"] in ("forward", "backward"):
            letters += event["event"][0].upper()
        else:
            axes.add_patch(Rectangle(
                (column + 0.04, row - 0.46), 0.92, 0.92, facecolor="#3a6ea5" if letters else "#ffffff",
                edgecolor="#3a6ea5" if letters else "#8a8a8a", hatch="" if letters else "////"))
            axes.text(column + 0.5, row, " ".join(letters), color="#ffffff", ha="center", va="center", weight="bold")
ticks = [rank * (len(units) + 0.6) + unit for rank in range(4) for unit in range(len(units))]
axes.set_yticks(ticks, [f"rank {rank}  {name}" if name == names[0] else name for rank in range(4) for name in names])
axes.set_xticks([column + 0.5 for column in range(columns)], [str(column + 1) for column in range(columns)])
axes.axvline(columns / 2, color="#000000", linewidth=1)
axes.set(xlim=(0, columns), ylim=(max(ticks) + 0.7, -0.7), xlabel="visit of the step (a gather begins each)")
axes.set_title("unit on each rank: F, B: passes it computes, hatched: gathered for other ranks",
               fontsize=9)
zp.show(fig, "Four ranks, three units, ten visits of a step with five micro-batches. In each "
             "visit every rank has one "
             "unit: embed, block, head, block, embed, twice. In the second half only rank 0 "
             "computes.")

# %% [markdown]
# ## Find it
#
# A fault, modelled on a public one. Step 1 is correct in every bit; the difference below comes
# later. What is special about step 1? Where did the wrong number occur before?

# %%
seal = "c3RhbGUtdW5pdA=="
print(zp.place(zp.verify(*RUN, "--stage", 3, fault=zp.sealed(seal))["cases"][0]))
recorded = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1)
print(f"before step 1 the element was {zp.to_bf16(recorded['param.token_embedding.weight'])[0, 0]:.4f}")
mine = ""
print(zp.answer(mine, seal))

# %% [markdown]
# Names to choose from: `units-swapped`, `stale-unit`, `persistent-not-refreshed`,
# `unit-read-after-release`, `no-gather-after-load`.
#
# ## Puzzle 9
#
# Release is a choice: a unit that is kept from its forward to its backward visit is not gathered
# again. Given four units of these sizes and a memory budget of 13, write the schedule that gathers
# the fewest elements. A word is an action (g gather, f forward, b backward, r release) and the
# unit's number. The check is below; `plain` is the schedule of this lesson. For any sizes and
# budgets, with prefetch, it is a function to write: `python3 notebooks/puzzle start schedule`
# ([how](puzzles/README.md)).

# %%
SIZES, BUDGET = (4, 7, 2, 6), 13


def judged(schedule):
    """The cost of a schedule, or its first error."""
    present, peak, gathered, computed = set(), 0, 0, []
    if not schedule:
        return "no schedule yet"
    for place, word in enumerate(schedule.split(), 1):
        if not re.fullmatch("[gfbr][0-3]", word):
            return f"word {place}, {word}: expected g, f, b or r and a unit from 0 to 3"
        what, unit = word[0], int(word[1])
        if (unit in present) == (what == "g"):
            state = "present already" if what == "g" else "not present"
            return f"word {place}, {word}: unit {unit} is {state}"
        if what == "g":
            present.add(unit)
            gathered += SIZES[unit]
        elif what == "r":
            present.remove(unit)
        else:
            computed.append(word)
        peak = max(peak, sum(SIZES[unit] for unit in present))
        if peak > BUDGET:
            return f"word {place}, {word}: {peak} elements are present, over the budget of {BUDGET}"
    if computed != "f0 f1 f2 f3 b3 b2 b1 b0".split() or present:
        return f"it computes {' '.join(computed) or 'nothing'}, and leaves {len(present)} units"
    return f"{gathered} elements gathered, at most {peak} present"


plain = "g0 f0 r0 g1 f1 r1 g2 f2 r2 g3 f3 b3 r3 g2 b2 r2 g1 b1 r1 g0 b0 r0"
mine = ""
print("plain:", judged(plain))
print("mine:", judged(mine))
print(zp.answer(judged(mine) if mine else "",
                "MjUgZWxlbWVudHMgZ2F0aGVyZWQsIGF0IG1vc3QgMTMgcHJlc2VudA=="))

# %% [markdown]
# ## Further reading
#
# - [plain_stage3.cpp](../reference/zero/plain/plain_stage3.cpp), one page;
#   [unit_params.cpp](../reference/zero/sharded/unit_params.cpp) gathers units and fills released ones with
#   NaN; [micro_batch_pass.cpp](../reference/zero/sharded/micro_batch_pass.cpp) executes the visits.
# - [ZeRO:units, ZeRO:volume](../papers/zero.md). Bytes per step of all gathers: lesson 7.
