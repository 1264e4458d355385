"""Lesson 7: plans of traffic, and figures."""

import functools
import pathlib
import tempfile

import zp
import zp_draw as draw
from zp_lesson02 import draw_nodes  # noqa: F401  (a figure of this lesson too)

RANKS, TENSORS = 8, 16
P = TENSORS * 2**20  # parameters
MODEL = f'[[tensor]]\nname = "block{{i}}.weight"\nshape = [1024, 1024]\nrepeat = {TENSORS}\n'
BULK = ("nodes", "leaves", "sums", "parameters", "units")  # all but scalars, flags and the norm
RUN = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--world", "threads:4",
       "--windows", "off")
COLORS = {"gradients": "#b34700", "sums sent back": "#eab487", "parameters": "#a9c4e0"}
KIND = {"nodes": "gradients", "leaves": "gradients", "sums": "sums sent back", "parameters": "parameters",
        "units": "parameters"}


@functools.lru_cache(None)
def traffic(micro_batches, ranks=RANKS):
    """For each stage, the collectives of the largest rank in a step: `zeroproof plan`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.toml")
        path.write_text(MODEL)
        plan = zp.json_of("plan", path, "--grid", f"{ranks}x1x1", "--micro-batches", micro_batches)
    return [stage["largest"]["traffic"] for stage in plan["stages"]]


def sent(stage, micro_batches, *what, ranks=RANKS):
    """Bytes of a rank in a step: of the collectives for these data, or of all."""
    return sum(row["sent_bytes"] for row in traffic(micro_batches, ranks)[stage] if not what or row["of"] in what)


def per_parameter(stage, micro_batches):
    """Bytes per parameter, times 8/7: a rank sends nothing to itself."""
    return sent(stage, micro_batches) / P * RANKS / (RANKS - 1)


def train_in_stages(stages="0,1,2,3"):
    return zp.verify(*RUN, "--stage", stages)


# ---------------------------------------------------------------- blanks


def bytes_by_hand(stage, micro_batches, ranks, units):
    each = micro_batches / ranks
    if stage == 0:
        return 4 + 4.0
    if stage == 1:
        return 4 + 2.0
    if stage == 2:
        return 4 * each + 2
    return 4 * each + 2 * each * (2 * units - 1) / units


def count_nodes(a, b):
    count = 0
    while a < b:
        level = 0
        while a % 2**(level + 1) == 0 and a + 2**(level + 1) <= b:
            level += 1
        a, count = a + 2**level, count + 1
    return count


blank = zp.Blanks({
    bytes_by_hand: [(f"stage {stage}, {m} micro-batches, 8 ranks, {units} units", stage, m, 8, units)
                    for stage in range(4) for m, units in ((8, 16), (64, 16), (16, 1))],
    count_nodes: [(f"leaves [{a}, {b})", a, b) for a, b in ((0, 4), (5, 11), (0, 5), (4, 8), (3, 4), (2, 2), (6, 16))]})

# ---------------------------------------------------------------- figures


def draw_kinds(micro_batches):
    """For each stage, bars of the bytes per parameter of gradients, sums and parameters."""
    fig, axes = draw.figure(1, len(micro_batches), height=3.2)
    for one, m in zip(axes, micro_batches):
        bottom = [0.0] * 4
        for kind, color in COLORS.items():
            names = [name for name in KIND if KIND[name] == kind]
            height = [sent(stage, m, *names) / P * RANKS / (RANKS - 1) for stage in range(4)]
            one.bar(range(4), height, bottom=bottom, color=color, label=kind, edgecolor="white")
            bottom = [a + b for a, b in zip(bottom, height)]
        one.set(title=f"{m} micro-batches", xlabel="stage", xticks=range(4), ylabel="bytes per parameter")
    axes[0].legend(loc="upper left", fontsize=10)
    axes[0].set_ylim(0, 14)
    draw.show(fig, "Bars of the bytes per parameter that a rank sends in stages 0 to 3, for 8 and 64 micro-batches: "
                   "gradients, sums sent back and parameters. With 64, stages 2 and 3 are far above the others.")


def draw_growth(counts):
    fig, axes = draw.figure(height=3.3)
    for stage, marker in zip(range(4), "osd^"):
        axes.plot(counts, [per_parameter(stage, m) for m in counts], marker=marker, label=f"stage {stage}")
    axes.set(xscale="log", yscale="log", xlabel="micro-batches of a step, on 8 ranks", ylabel="bytes per parameter")
    axes.set_xticks(counts, [str(m) for m in counts])
    axes.set_yticks([6, 10, 20, 50, 100], ["6", "10", "20", "50", "100"])
    axes.minorticks_off()
    axes.legend()
    draw.show(fig, "Bytes that a rank sends per parameter and step against micro-batches: stages 0 and 1 stay at 8 and "
                   "6, stages 2 and 3 grow in proportion to the micro-batches, to 66 and 126 at 128 micro-batches.")


def draw_ring_and_tree(rows):
    """Bars of the bytes of ring and tree; rows of (micro-batches, ring, tree)."""
    fig, axes = draw.figure(height=2.7)
    for x, (m, ring, tree) in enumerate(rows):
        axes.bar(
    x - 0.2,
    ring / 2**20,
    width=0.36,
    color=draw.PALE,
    edgecolor="black",
     label="ring" if x == 0 else None)
        axes.bar(
    x + 0.2,
    tree / 2**20,
    width=0.36,
    color="#b34700",
    edgecolor="black",
     label="tree" if x == 0 else None)
    axes.set_xticks(range(len(rows)), [str(m) for m, *_ in rows])
    axes.set(xlabel="micro-batches, on 4 ranks", ylabel="MiB that a rank sends")
    axes.legend(loc="upper left", ncols=2)
    draw.show(fig, "Bars of the bytes of a ring and of the tree on four ranks: equal for 4, 16 and 64 micro-batches, "
                   "three times as many for 20 and 28.")
