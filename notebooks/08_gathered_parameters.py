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
# *gather*. After this *visit* it is *released*.

# %%
import zp  # first: reports missing packages
import zp_lesson08 as lesson

lesson.draw_gather()

# %% [markdown]
# Papers state that parameters are sent twice per step in stage 3, once for the forward and once for
# the backward pass.
#
# **Guess first.** 3 units, 2 ranks, 4 micro-batches. How often does a rank gather a unit in one
# step? Write it as a function; the ranks compute their micro-batches side by side, one *micro-step*
# after the other. A correct function is used in the next cell; otherwise the lesson continues with
# its own.

# %%
@lesson.blank
def gathers_of_a_step(units, micro_batches, ranks):
    """The number of gathers in which a rank takes part in one step."""
    return ...  # your code


# %%
rows, right = [], []
for ranks, micro_batches in ((2, 4), (2, 5), (3, 5), (4, 5), (4, 1)):
    traced = lesson.trace(ranks, micro_batches)
    computes, gathers = zip(*[(traced.micro_batches(rank), traced.gathers(rank)) for rank in range(ranks)])
    right += [count == gathers_of_a_step(len(traced.units), micro_batches, ranks) for count in gathers]
    rows.append((ranks, micro_batches, " ".join(map(str, computes)), " ".join(map(str, gathers))))
print(f"{len(traced.units)} units: {', '.join(unit['name'] for unit in traced.units)}")
zp.table(("ranks", "micro-batches", "of rank 0, 1, ..", "gathers of rank 0, 1, .."), *rows)
zp.claim("8.1", all(right),
         "a rank takes part in 2 n - 1 gathers in a micro-step of n units, even without a "
         "micro-batch")

# %% [markdown]
# Not 2 n: the last unit of the forward pass is the first of the backward pass, and is kept between
# them. And not once per micro-batch: a gather needs every owner, so a rank without a micro-batch
# executes all visits together with the others. If it does not, the other ranks wait forever. Here
# is the whole step of four ranks with five micro-batches:

# %%
lesson.draw_visits(lesson.trace(4, 5))

# %% [markdown]
# **Guess first.** How many units does a rank hold at the same time?

# %%
traced = lesson.trace(4, 7)
zp.table(("unit", "bytes"), *traced.unit_bytes().items())
lesson.draw_held(traced)

# %%
most = {(ranks, rank): max(lesson.trace(ranks, m).most_held(rank) for m in (1, 4, 7))
        for ranks in (2, 3, 4) for rank in range(ranks)}
zp.table(("ranks", "rank", "most bytes of units"), *[(*key, value) for key, value in most.items()])
grids = (2, 8, 64)
full = {ranks: lesson.largest_rank(3, ranks)["param_full"] for ranks in grids}
zp.table(("byte_gpt: bytes on the largest rank", *[f"{ranks} ranks" for ranks in grids]),
         *[(f"stage {stage} {name}", *[f"{lesson.largest_rank(stage, ranks)[name]:,}" for ranks in grids])
           for stage in (2, 3) for name in ("param_shard", "param_full")])
zp.claim("8.2", set(most.values()) == {max(traced.unit_bytes().values())}
         and set(full.values()) == {2 * lesson.largest_unit()},
         "a rank has one unit at a time, so gathered parameters take the size of the largest unit")

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
case = lesson.fault_in_stage3("unit-read-after-release")
print(zp.place(case))
first = case["divergence"]
zp.claim("8.3", first["step"] == 1 and "backward" in first["what"] and lesson.reads_nan(first),
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
@lesson.blank
def most_with_prefetch(sizes):
    """The most bytes of units in memory: a unit and the next one, of a list of sizes in their order."""
    return ...  # your code


# %%
units = lesson.bytes_of_units()
zp.table(("unit", "bytes"), *[(unit, f"{size:,}") for unit, size in units.items()])
peaks = {(ranks, bucket): (lesson.peak(ranks, bucket), lesson.peak(ranks, bucket, "--overlap"))
         for ranks in (2, 3, 4) for bucket in (262144, 4096)}
lesson.draw_peaks([(f"{ranks} ranks, buckets of {bucket:,}", *peaks[ranks, bucket]) for ranks, bucket in peaks])
zp.table(("ranks", "bucket", "one unit", "prefetch", "more"),
         *[(*key, f"{one:,}", f"{two:,}", f"{two - one:,}") for key, (one, two) in peaks.items()])
more = [two - one for (_, bucket), (one, two) in peaks.items() if bucket == 262144]
sizes = list(units.values())
zp.claim("8.4", set(more) == {most_with_prefetch(sizes) - max(sizes)}, "with one bucket, prefetch costs one more "
         "unit: the largest two neighbours minus the largest one")

# %% [markdown]
# With one large bucket the gradients of all units stay until the last one is ready, and the
# difference is the second unit. With small buckets a gradient is sent early, and with overlap two
# visits later: that is the rest of the difference.
#
# **Guess first.** With prefetch, computing as soon as parameters arrive, and sending during other
# computations: how many bits of six steps change?

# %%
plain = zp.verify(*lesson.RUN, "--stage", "0,1,2,3")["cases"]
early = zp.verify(*lesson.RUN, "--stage", "2,3", "--overlap")["cases"]
hashes = [case["training"]["trajectory_hash"] for case in plain + early]
zp.table(("stage", "", "trajectory"),
         *[(f"{case['training']['stage']}{', overlap' * (case in early)}", case["status"], value)
           for case, value in zip(plain + early, hashes)])
zp.claim("8.5", len(hashes) == 6 and len(set(hashes)) == 1 and all(case["status"] == "pass" for case in plain + early),
         "gathering units, and gathering them early, changes no bit")

# %% [markdown]
# ## Find it
#
# A fault, modelled on a public one. Step 1 is correct in every bit; the difference below comes
# later. What is special about step 1? Where did the wrong number occur before?

# %%
print(zp.place(lesson.fault_in_stage3("?8")))
print(f"before step 1 the element was {lesson.before_step_1():.4f}")
mine = ""
zp.guess("?8", mine)

# %% [markdown]
# Names to choose from: `units-swapped`, `stale-unit`, `persistent-not-refreshed`,
# `unit-read-after-release`, `no-gather-after-load`.
#
# ## Puzzle 9
#
# Release is a choice: a unit that is kept from its forward to its backward visit is not gathered
# again. Given four units of 4, 7, 2 and 6 elements and a memory budget of 13, write the schedule
# that gathers the fewest elements. A word is an action (g gather, f forward, b backward, r release)
# and the unit's number. `PLAIN` is the schedule of this lesson. For any sizes and budgets, with
# prefetch, it is a function to write: `python3 notebooks/puzzle start schedule`
# ([how](puzzles/README.md)).

# %%
print(lesson.PLAIN)
print("plain:", lesson.judged(lesson.PLAIN))
mine = ""
lesson.judge_schedule(mine)

# %% [markdown]
# ## Further reading
#
# - [plain_stage3.cpp](../reference/zero/plain/plain_stage3.cpp), one page;
#   [unit_params.cpp](../reference/zero/sharded/unit_params.cpp) gathers units and fills released ones with
#   NaN; [micro_batch_pass.cpp](../reference/zero/sharded/micro_batch_pass.cpp) executes the visits.
# - [ZeRO:units, ZeRO:volume](../papers/zero.md). Bytes per step of all gathers: lesson 7.
