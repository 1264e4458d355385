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
# # 10. Resuming on another number of ranks
#
# **Question.** A run on five ranks is stopped and continues on three. Which data must the files
# contain so that the result is the same?
#
# 25 minutes. The owner of an element does not influence its value (lesson 6), so a shard can move
# to another rank between two steps: this is *resharding*. Here production makes three steps on W
# ranks, saves its shards and is destroyed; created again on W' ranks, it reads the files and makes
# three more steps. Every buffer of these is compared with a reference that never stopped.
#
# **Guess first.** W and W' from 1 to 6: 36 pairs. Other ranks compute the gradient sum of a step,
# from other micro-batches. In how many of the 36 do the results differ in any bit?

# %%
import itertools
import json
import math
import pathlib
import re
import tempfile

import zp  # first: reports missing packages

import numpy as np

WORLDS = range(1, 7)


def resumed(before, after, fault="", dtype="bf16"):
    """The id of a case: `before` ranks make three steps in stage 2, `after` ranks go on in stage 1."""
    return f"resume/adamw/{before}:2-to-{after}:1/{dtype}/contract-to-contract/after:3"


fault = zp.given("10.1", "", "resume-reads-the-next-shard")
report = zp.verify(*[resumed(*pair) for pair in itertools.product(WORLDS, WORLDS)], fault=fault)
status = {case["id"]: case["status"] for case in report["cases"]}
zp.table(("from \\ to", *WORLDS),
         *[(before, *[status[resumed(before, after)] for after in WORLDS]) for before in WORLDS])
numbers = [sum(case[what] for case in report["cases"]) for what in ("compared", "differing")]
print(f"{numbers[0]:,} elements compared, {numbers[1]:,} differ")
zp.claim("10.1", list(status.values()) == ["pass"] * 36 and numbers[0] > 0 and numbers[1] == 0,
         "from every number of ranks to every other, a resumed run equals the uninterrupted one "
         "in every bit")

# %% [markdown]
# This requires two rules: the sum of gradients has one order, whichever ranks add (lesson 2), and
# the norm is a sum of integers (lesson 5). A library that adds around a ring has other bits after
# such a resume, so a wrong resume cannot be distinguished from a sum in another order.
#
# Now the files themselves. `zeroproof train` writes them, and `zeroproof checkpoint` reads them.
#
# **Guess first.** Each of five ranks saves a file of its own. Which information must a file contain
# besides the values, so that each of three ranks can find its elements?

# %%
kept = tempfile.TemporaryDirectory()
folder = pathlib.Path(kept.name)
STOPPED, STEPS = 6, 60
JOB = ("--workload", "byte_gpt_tiny", "--dtype", "bf16")


def stage_of(ranks):
    return 1 + ranks % 3  # differs between W and W + 1


def train(where, steps, ranks, *words):
    """Trains up to step `steps`: the losses, and the digest of master, state and parameters."""
    log = where / "log.jsonl"
    place = ("--checkpoint", where, "--world", f"threads:{ranks}", "--stage", stage_of(ranks))
    said = zp.run("train", *JOB, "--steps", steps, *place, *words)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line], re.search(r"^state (\w+)", said, re.M)[1]


def pieces(where):
    """Pieces of the masters in a checkpoint's manifest: rank, first element and length."""
    manifest = json.loads((where / f"step-{STOPPED:08}" / "manifest.json").read_text())["manifest"]
    rank = [int(re.search(r"\d+", file["name"])[0]) for file in manifest["files"]]
    begins = np.cumsum([0] + [math.prod(tensor["shape"]) for tensor in manifest["tensors"]]).tolist()
    return [(rank[piece["file"]], begins[piece["tensor"]] + piece["first"], piece["numel"])
            for piece in manifest["pieces"] if piece["state"] == "master"]


train(folder / "five", STOPPED, 5)
whole, digest = train(folder / "whole", STEPS, 1, "--seed", zp.given("10.2", 1, 2))
found, rows = {}, []
for ranks in WORLDS:
    other = folder / f"for {ranks}"
    said = zp.run("checkpoint", "reshard", folder / "five", "--world", f"threads:{ranks}", "-o", other)
    where = pieces(other)
    counts = [sum(numel for rank, _, numel in where if rank == owner) for owner in range(ranks)]
    difference = zp.run("checkpoint", "diff", folder / "five", other).splitlines()[-1]
    losses, found[ranks] = train(other, STEPS, ranks, "--resume")
    rows.append((ranks, stage_of(ranks), len(where), " ".join(f"{count:,}" for count in counts), found[ranks][:8]))
    assert difference.startswith("0 of ")
zp.table(("ranks", "stage", "pieces", "masters of rank 0, 1, ...", f"digest after step {STEPS}"), *rows)
print(f"uninterrupted run: {digest[:8]};",
      f"elements of a bucket: {re.search('bucket:([0-9]+)', said)[1]}")
zp.claim("10.2", set(found.values()) == {digest},
         "through files too, on 1 to 6 ranks, in three stages, all runs end in one state")

# %% [markdown]
# A piece records its tensor, its first element there and its length; it does not record "rank 2 of
# 5". A reader requests elements, not ranks. (Rank 0 of five owns nothing: every bucket is
# partitioned on its own, in multiples of 1024, and has only four of these.)
#
# The saved values are master, both moments and the counters. **Guess first.** No file contains the
# bf16 parameters. Why can they be omitted? And why can the master not be omitted, if the parameters
# are saved instead?

# %%
stopped = folder / "five" / f"step-{STOPPED:08}"
zp.run("checkpoint", "export", stopped, "-o", folder / "state.safetensors")
state = zp.tensors(folder / "state.safetensors")


def damaged(name, buffer, change):
    """Resumes `state` with one buffer changed: loss differences, changed elements, digest."""
    tensors = {key: change(value) if key.startswith(buffer + ".") else value for key, value in state.items()}
    zp.write_tensors(folder / f"{name}.safetensors", tensors, **state.metadata)
    words = ("import", folder / f"{name}.safetensors", "--like", stopped, "-o", folder / name)
    zp.run("checkpoint", *words)
    changed = sum(zp.different(tensors[key], state[key]) for key in state)
    losses, end = train(folder / name, STEPS, 2, "--resume")
    return np.abs(np.array(losses) - right), changed, end


right, end = train(folder / "five", STEPS, 5, "--resume")
right = np.array(right)[-(STEPS - STOPPED):]
seeds = [np.array(train(folder / f"seed {seed}", STEPS, 1, "--seed", seed)[0])[STOPPED:] for seed in (2, 3, 4)]
spread = np.abs(np.array(seeds) - right)
typical = float(np.median(spread))
masters = [value for key, value in state.items() if key.startswith("master.")]
rounding = zp.given("10.3", zp.to_bf16, lambda value: value)
recast = sum(zp.different(zp.to_bf16(rounding(value)), zp.to_bf16(value)) for value in masters)
off, changed, digest_of_rounded = damaged("rounded", "master", rounding)
apart = np.flatnonzero(off > 0)
print(f"masters rebuilt from bf16: {changed:,} of {sum(value.size for value in masters):,} differ;")
print(f"parameters cast from them: {recast} differ;",
      f"loss of step {STOPPED + 1}, the first: differs by {off[0]:g}")
print(f"losses that differ: {apart.size} of {off.size}, from step {STOPPED + 1 + (apart[0] if apart.size else 0)} on")
zp.table(("difference of losses", "largest", "median over steps"),
         ("master from bf16", f"{off.max():.6f}", f"{np.median(off):.6f}"),
         ("two seeds", f"{spread.max():.6f}", f"{typical:.6f}"))
zp.claim("10.3", changed == sum(value.size for value in masters) and recast == 0 and off[0] == 0
         and 0 < off.max() < typical / 10 and digest_of_rounded != end,
         "a master from bf16 differs in every element, and losses differ by under a tenth of two "
         "seeds' difference")

# %% [markdown]
# Parameters are the rounded master: they can be recomputed from it, and it cannot be recomputed
# from them.
#
# After how many steps does the loss curve show the difference? Here: never. The parameters are the
# same at first, so the first loss is; later differences are smaller than those between two seeds.
# The error is real all the same: up to half an ulp of bf16, in each element, at each resume. A run
# that resumes after every step has no master at all, and lesson 3 shows the consequence.
#
# **Guess first.** A resume omits a moment instead, which then begins at zero. Which omission does a
# curve show: the first moment or the second?

# %%
zero = zp.given("10.4", np.zeros_like, lambda value: value)
curves = {"master from bf16": off}
rows = []
for buffer in ("exp_avg", "exp_avg_sq"):
    curves[buffer + " omitted"], changed, _ = damaged(buffer, buffer, zero)
for name, curve in curves.items():
    over = np.flatnonzero(curve > typical)
    rows.append((name, f"{curve[0]:.6f}", f"{curve[1]:.6f}", f"{curve.max():.6f}", f"{over.size} of {curve.size}"))
zp.table(("difference of losses", f"step {STOPPED + 1}", f"step {STOPPED + 2}", "largest",
          "above that of seeds"),
         *rows)
first, second = curves["exp_avg omitted"], curves["exp_avg_sq omitted"]
zp.claim("10.4", second[0] == first[0] == 0 and second.max() > 10 * first.max() and second[1] == second.max()
         and 0 < first.max() < spread.max(),
         "without the second moment the next loss jumps; without the first it stays within that "
         "of two seeds")

# %% [markdown]
# The first moment is only a direction and recovers quickly. **Guess first.** With a second moment
# of zero, a step divides by the contribution of the new gradient alone, a few times too small for
# most elements. Why does the loss explode?

# %%
zp.run("checkpoint", "import", folder / "exp_avg_sq.safetensors", "--like", stopped, "-o", folder / "leap")
words = ("train", *JOB, "--steps", STOPPED + 1, "--resume", "--checkpoint", folder / "leap")
after = zp.file_of(*words, option="--dump")
names = [key[len("master."):] for key in state if key.startswith("master.")]
old, new, v = [np.concatenate([dump[buffer + name].ravel() for name in names]) for dump, buffer in (
    (state, "master."), (after, f"master.{STOPPED + 1}."), (after, f"exp_avg_sq.{STOPPED + 1}."))]
moved, unseen = np.abs(new - old), v == 0
zp.table((f"step {STOPPED + 1}", "elements", "median move", "largest move"),
         *[(name, f"{own.sum():,}", f"{np.median(moved[own]):.4f}", f"{moved[own].max():.4f}")
           for name, own in (("gradient not 0", ~unseen), ("gradient 0", unseen))])

# %% [markdown]
# An embedding row whose byte does not occur in the batch has gradient zero, and some others have a
# very small one; but they have a first moment. It is divided by $\sqrt 0 + \epsilon$, or not much
# more ([Adam:alg1](../papers/adam.md)).

# %%
fig, (left, right_axes) = zp.figure(1, 2, height=3.4)
shades = ("#f2f2f2", "#c8c8c8", "#9a9a9a", "#5a5a5a", "#222222")
for row, name in enumerate(("five", "for 3")):
    for rank, begin, numel in pieces(folder / name):
        left.barh(row, numel, left=begin, height=0.6, color=shades[rank], edgecolor="black", linewidth=0.4)
        if numel > 600:
            left.text(begin + numel / 2, row, rank, ha="center", va="center", color="white" if rank > 2 else "black")
left.set(yticks=[0, 1], ylim=(1.6, -0.6), xlim=(0, sum(value.size for value in masters)),
         xlabel="element of the master (numbers: ranks)", title="owners")
left.set_yticklabels(["saved\nby five", "read\nby three"])
steps = np.arange(STOPPED + 2, STEPS + 1)
for name, curve in curves.items():
    right_axes.plot(steps, curve[1:], label=name)
right_axes.plot(steps, np.median(spread, axis=0)[1:], label="two seeds (median)")
right_axes.set(yscale="log", xlabel="step", ylabel="difference of losses",
               title="loss after a resume")
right_axes.set_ylim(1e-7, 1e4)
right_axes.legend(fontsize=7, loc="upper right")
zp.show(fig, "Left: the slices of master weights that five ranks saved and three ranks read, as strips of pieces "
             "shaded by rank. Right: the difference of losses after a damaged resume: with a "
             "rounded master two to "
             "three orders of magnitude below that of two seeds, without the first moment about "
             "equal to it, without "
             "the second far above.")

# %% [markdown]
# ## Find it
#
# Another resume, on the same number of ranks. Look at the wrong buffer and at the number of its
# wrong elements. Was everything saved? And which values were read?

# %%
seal = "cmVzdW1lLXNoaWZ0cy1pbmRleA=="
case = zp.verify(resumed(3, 3, dtype="fp16"), fault=zp.sealed(seal))["cases"][0]
print(zp.place(case))
mine = ""
print(zp.answer(mine, seal))

# %% [markdown]
# Names to choose from: `resume-forgets-moment`, `resume-shifts-index`,
# `resume-saves-rounded-masters`, `resume-forgets-steps`, `resume-reaches-first-rank-alone`.
#
# ## Puzzle 11
#
# Write `reshard(shards, buckets, ranks)`: the arrays of the old ranks become those of the new ones,
# in bits, for all pairs of 1 to 6: `python3 notebooks/puzzle start reshard`
# ([how](puzzles/README.md)). And one on paper: rank i continues as rank i, and elements that stay
# on their rank are not sent. Count the elements sent from 5 to 4, from 5 to 3 and from 6 to 3
# ranks. Which change is the cheapest? And does it matter which three of the six ranks continue?
#
# ## Further reading
#
# - [checkpoint](../common/checkpoint), described in
#   [common/io](../common/io/README.md#checkpoints); [adam.cpp](../reference/update/adam.cpp): the
#   use of counters and moments.
# - [MP:master](../papers/mixed_precision.md), [Adam:bias](../papers/adam.md),
#   [ZeRO:local](../papers/zero.md).
