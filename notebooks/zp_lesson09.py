"""Lesson 9: grids of ranks, their plans, and figures."""

import functools

import zp
import zp_draw as draw
from zp_lesson02 import tree  # noqa: F401  (the sum of R11, for this lesson too)

import numpy as np

GRIDS = ("8x1x1", "4x2x1", "4x1x2", "2x4x1", "2x2x2", "2x1x4", "1x8x1", "1x4x2", "1x2x4")
RUN = ("byte_gpt_tiny", "--recipe", "adamw+model:even", "--norm", "exact", "--dtype", "bf16", "--impl", "host",
       "--world", "threads:8", "--stage", 2)


def train_on_grids(grids=GRIDS, fault="", steps=None):
    """The report of six steps on each grid."""
    more = ("--steps", steps) if steps else ()
    return zp.verify(*RUN, "--grid", ",".join(grids), *more, fault=fault)


def grid_of(case):
    return case["id"].split("grid:")[1].split("/")[0]


@functools.lru_cache(None)
def sent_bytes(grid):
    """Bytes that a rank sends in a step of stage 2 of byte_gpt with 8 micro-batches, by (data, group of ranks)."""
    plan = zp.json_of("plan", "byte_gpt", "--grid", grid, "--stage", 2, "--micro-batches", 8)
    return {(row["of"], row["over"]): row["sent_bytes"] for row in plan["stages"][0]["largest"]["traffic"]}


@functools.lru_cache(None)
def _owned(grid):
    ranks = zp.json_of("plan", "byte_gpt", "--owners", "--grid", grid)["ranks"]
    count = {}
    for piece in (piece for rank in ranks for part in rank["slices"] for piece in part["pieces"]):
        count[piece["tensor"]] = count.get(piece["tensor"], 0) + piece["tensor_end"] - piece["tensor_begin"]
    return count, len(ranks), sum(rank["numel"] for rank in ranks)


def elements_of(grid):
    """Elements of each tensor on one tensor parallel rank."""
    return _owned(grid)[0]


def sharing(grid):
    """The number of ranks that share one state, and the elements that they own."""
    return _owned(grid)[1:]


def kind(name):
    """A tensor's name without the number of its block."""
    return name.split(".", 1)[1] if name.startswith("block") else name


def random_parts(micro_batches, context, numel=4096):
    return np.random.default_rng(9).standard_normal((micro_batches, context, numel)).astype(np.float32)


# ---------------------------------------------------------------- blanks


def rank_number(d, c, t, context, tensor):
    return (d * context + c) * tensor + t


def parts_first(parts, tree):
    return tree([tree(list(leaf)) for leaf in parts])


def owned_by_all(parameters, replicated, tensor):
    return parameters + (tensor - 1) * replicated


blank = zp.Blanks({
    rank_number: [(f"d, c, t = {d}, {c}, {t} in a grid with CP = {context}, TP = {tensor}", d, c, t, context, tensor)
                  for d, c, t, context, tensor in ((0, 0, 0, 2, 2), (1, 0, 0, 2, 2), (0, 1, 0, 2, 4), (1, 1, 3, 2, 4))],
    parts_first: [(f"{m} micro-batches in {cp} parts", random_parts(m, cp, 40), tree)
                  for m, cp in ((7, 2), (3, 4), (1, 2))],
    owned_by_all: [("no tensor parallel ranks", 100, 10, 1), ("two", 100, 10, 2), ("four", 100, 10, 4)]})

# ---------------------------------------------------------------- figures


def draw_cubes(groups, alt):
    """Cubes of the ranks of 2x2x2 with thick edges inside groups; groups[title] gives the group of (d, c, t)."""
    fig, panels = draw.figure(1, 2, height=3.7)
    ranks = [(d, c, t) for d in range(2) for c in range(2) for t in range(2)]
    at = {(d, c, t): (c + 0.42 * d, t + 0.34 * d) for d, c, t in ranks}
    for axes, (title, group) in zip(panels, groups.items()):
        for one in ranks:
            for other in ranks:
                if one < other and sum(a != b for a, b in zip(one, other)) == 1:
                    same = group(*one) == group(*other)
                    axes.plot(*zip(at[one], at[other]), color="black" if same else "#c8c8c8",
                              linewidth=3.5 if same else 1,
                              linestyle="-", zorder=1)
        for d, c, t in ranks:
            rank = rank_number(d, c, t, 2, 2)
            axes.scatter(*at[d, c, t], s=520, color=draw.RANKS[rank], edgecolor="black", zorder=2)
            axes.text(*at[d, c, t], str(rank), color=draw.INK[rank], ha="center", va="center", zorder=3)
        axes.set_title(title)
        axes.set(xlim=(-0.3, 1.75), ylim=(-0.35, 1.65), xlabel="c (back: d = 1)",
                 ylabel="t", xticks=(0, 1), yticks=(0, 1))
    draw.show(fig, alt)


def draw_state_groups():
    draw_cubes({"same micro-batches:\nsame d": lambda d, c, t: d, "share a state:\nsame t": lambda d, c, t: t},
               "Two cubes of the ranks 0 to 7 of a grid 2x2x2. Thick edges join ranks of one group: four ranks of the "
               "same d, and four ranks of the same t.")


def draw_part_groups():
    draw_cubes({"add parts of a leaf:\nsame d and t": lambda d, c, t: (d, t),
                "add TP parts:\nsame d and c": lambda d, c, t: (d, c)},
               "Two cubes of the ranks 0 to 7 of a grid 2x2x2. Thick edges join pairs along c, and pairs along t.")


def draw_parts(micro_batches=4, context=2):
    """Parts of leaves, leaves and gradient as one tree; two context ranks."""
    fig, axes = draw.figure(height=3.0)
    names = ["gradient", "", "leaves", "parts"]
    level = [(i, 0.0) for i in range(micro_batches * context)]
    for i, (x, y) in enumerate(level):
        draw.box(axes, x - 0.4, y - 0.25, 0.8, 0.5, draw.RANKS[i % context], f"{i // context}.{i % context}",
                 draw.INK[i % context])
    height = 0
    while len(level) > 1:
        height += 1
        above = [((a[0] + b[0]) / 2, float(height)) for a, b in zip(level[0::2], level[1::2])]
        for k, (x, y) in enumerate(above):
            for child in level[2 * k:2 * k + 2]:
                axes.plot([x, child[0]], [y - 0.2, child[1] + 0.25], color=draw.GREY, linestyle="-")
            text = str(k) if height == 1 else "+"
            draw.box(axes, x - 0.3, y - 0.22, 0.6, 0.44, "white", text)
        level = above
    axes.set(xlim=(-0.6, micro_batches * context - 0.4), ylim=(-0.35, height + 0.35))
    draw.blank_axes(axes)
    axes.set_yticks(range(height + 1), names[::-1][:height + 1])
    axes.tick_params(length=0)
    draw.show(fig, "A tree over the parts of four leaves in the colours of two context ranks: two parts make a leaf, "
                   "four leaves the gradient.")


def draw_owned(rows, parameters):
    """Bars of the elements that all ranks of a grid own; rows of (grid, elements)."""
    fig, axes = draw.figure(height=3.4)
    for y, (grid, total) in enumerate(rows):
        axes.barh(y, parameters / 1000, color="#6b6b6b")
        axes.barh(y, (total - parameters) / 1000, left=parameters / 1000, color=draw.WRONG)
        axes.text(total / 1000 + 5, y, f"+ {total - parameters:,}" if total > parameters else "", va="center")
    axes.set_yticks(range(len(rows)), [grid for grid, _ in rows])
    axes.set(xlabel="thousands of elements that all 8 ranks own (red: counted more than once)",
             ylim=(len(rows) - 0.5, -0.5),
             xlim=(0, max(total for _, total in rows) / 1000 * 1.15))
    draw.show(fig, "Bars of the elements that all ranks of nine grids own: the number of parameters without tensor "
                   "parallelism, and more with it.")
