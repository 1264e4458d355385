"""Lesson 6: layouts, plans of memory, and figures."""

import functools
import re

import zp
import zp_draw as draw

import numpy as np

LAYOUTS = ("contract", "megatron", "deepspeed_flat", "deepspeed_param", "fsdp2", "greedy")
STATE = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--world", "threads:4")
CLASSES = ("master", "state", "param_shard", "param_full", "grad_nodes", "grad_sum")
NUMEL = 12269  # parameters of byte_gpt_tiny


@functools.lru_cache(None)
def plan(*words):
    return zp.json_of("plan", "byte_gpt_tiny", *words)


def pieces_of(rank):
    """The (tensor, begin, end) that a rank of a plan owns."""
    return [(piece["tensor"], piece["tensor_begin"], piece["tensor_end"])
            for part in rank["slices"] for piece in part["pieces"]]


@functools.lru_cache(None)
def starts():
    """The number of elements before each tensor."""
    shapes = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1)
    names = shapes.metadata["order"].splitlines()
    return dict(zip(names, np.cumsum([0] + [shapes[f"param.{name}"].size for name in names]).tolist()))


def owned_by(layout, ranks):
    """For each rank, the ranges (begin, end) of the elements that it owns."""
    grid = plan("--owners", "--grid", f"{ranks}x1x1", "--layout", layout)
    return [[(starts()[name] + begin, starts()[name] + end) for name, begin, end in pieces_of(rank)]
            for rank in grid["ranks"]]


def owners(layout, ranks=4):
    """The rank that owns each element."""
    owner = np.full(NUMEL, -1)
    for rank, ranges in enumerate(owned_by(layout, ranks)):
        for begin, end in ranges:
            owner[begin:end] = rank
    return owner


def train_with_layouts(layouts=LAYOUTS):
    """The report of six steps in each layout."""
    return zp.verify(*STATE, "--stage", 1, "--norm", "exact", "--layout", ",".join(layouts))


def planned(stage):
    """The plan's memory of rank 0 in a stage."""
    return plan("--grid", "4x1x1", "--micro-batches", 7, "--bucket", 4096)["stages"][stage]


def planned_peak(stage):
    """The planned peak of rank 0, without the gradient of the model, which is not the optimizer's."""
    rank0 = planned(stage)["smallest"]
    assert rank0["data_rank"] == 0
    return rank0["total_peak"] - (rank0["at_peak_of_sum"]["grad"] if stage < 3 else 0)


def measured_peak(stage):
    """Bytes that the production code allocated on rank 0 in three steps."""
    said = zp.run("train", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--windows", "off",
                  "--steps", 3, "--stage", stage)
    return int(re.search(r"([\d,]+) bytes on rank 0", said)[1].replace(",", ""))


def after_step(stage, rank="smallest"):
    """Bytes by class after a step, on rank 0 (the smallest) or on the largest rank."""
    return planned(stage)[rank]["after_step"]


# ---------------------------------------------------------------- blanks


def times_owned(ranges_of_ranks, numel):
    times = np.zeros(numel, np.int64)
    for ranges in ranges_of_ranks:
        for begin, end in ranges:
            times[begin:end] += 1
    return times


def without_owner(numel, ranks):
    return numel - ranks * (numel // ranks)


blank = zp.Blanks({
    times_owned: [("two ranks, one range each", [[(0, 2)], [(2, 5)]], 5),
                  ("an element that two ranks own", [[(0, 3)], [(2, 4)]], 4),
                  ("a rank without elements, an element without owner", [[(0, 1), (2, 3)], []], 4)],
    without_owner: [("10 elements on 4 ranks", 10, 4), ("12 elements on 4 ranks", 12, 4),
                    ("3 elements on 5 ranks", 3, 5), ("12,269 elements on 1 rank", 12269, 1)]})

# ---------------------------------------------------------------- figures


def draw_owners(where):
    fig, _ = draw.owner_strips(list(where.values()), list(where))
    draw.show(fig, "Strips of the elements of six layouts, each element in the colour of the rank that owns it: "
                   "blocks, interleaved pieces, whole tensors.")


def draw_remainder(numel=10, ranks=4):
    """Elements as boxes, owned in blocks of numel // ranks."""
    fig, axes = draw.figure(height=1.5)
    for i in range(numel):
        rank = i // (numel // ranks)
        lost = rank >= ranks
        draw.box(axes, i, 0, 0.92, 0.8, "white" if lost else draw.RANKS[rank], "?" if lost else rank,
                 draw.WRONG if lost else draw.INK[rank], edgecolor=draw.WRONG if lost else "black",
                 linestyle="--" if lost else "-")
    axes.set(xlim=(-0.1, numel), ylim=(-0.1, 0.9))
    axes.set_title(f"{numel} elements on {ranks} ranks, {numel // ranks} each: the last {numel % ranks} have no owner",
                   loc="left")
    draw.blank_axes(axes)
    draw.show(fig, "Ten elements as boxes in the colours of four ranks, two for each rank; the last two have no owner.")


def draw_exchange():
    """What stage 1 does with the gradient and the parameters of four ranks."""
    fig, (top, bottom) = draw.figure(2, 1, height=6.4)
    ranks = range(4)
    whole = [[(draw.RANKS[shard], f"g{shard}") for shard in ranks] for _ in ranks]
    sums = [[(draw.RANKS[rank], f"sum{rank}")] for rank in ranks]
    draw.exchange(top, "reduce-scatter: the owner of a shard adds all ranks' parts of it", whole, sums,
                  [(rank, owner, draw.RANKS[owner]) for rank in ranks for owner in ranks])
    new = [[(draw.RANKS[rank], f"p{rank}")] for rank in ranks]
    all_new = [[(draw.RANKS[shard], f"p{shard}") for shard in ranks] for _ in ranks]
    draw.exchange(bottom, "all-gather: every rank gets every shard of the parameters", new, all_new,
                  [(rank, other, draw.RANKS[rank]) for rank in ranks for other in ranks])
    draw.show(fig, "Above, reduce-scatter: each of four ranks sends a quarter of its gradient to the rank that owns "
                   "it, which adds. Below, all-gather: each rank sends its updated quarter of the parameters to all "
                   "ranks.")


def draw_memory():
    fig, axes = draw.figure(height=3.4)
    draw.memory_bars(axes, [after_step(stage) for stage in range(4)], [f"stage {stage}" for stage in range(4)])
    axes.set(ylabel="kB on rank 0 after a step")
    draw.show(fig, "Stacked bars of the bytes on rank 0 in stages 0 to 3 by class: master weights and moments shrink "
                   "to about a quarter from stage 0 to stage 1.")
