"""Figures of the lessons. A rank has one colour in all of them. Used through zp and the lessons' own modules."""

import io
import os
import pathlib
import sys

import numpy as np

RANKS = ("#3a6ea5", "#e3a13a", "#2f9e77", "#b56aa5", "#6fc3e6", "#8d6e4f", "#cfc64f", "#8a8a8a")
INK = ("white", "black", "white", "white", "black", "white", "black", "white")  # of text on these colours
WRONG, GREY, PALE = "#c0392b", "#8a8a8a", "#e4e4e4"
PARTS = {"master": "#2b2b2b", "state": "#6b6b6b", "param_shard": "#a9c4e0", "param_full": "#d6e4f1",
         "grad_nodes": "#b34700", "grad_sum": "#eab487"}  # classes of memory
NAMES = {"master": "master weights", "state": "moments", "param_shard": "own parameters",
         "param_full": "gathered parameters", "grad_nodes": "nodes of the sum", "grad_sum": "sum of gradients"}
LINES = ("#000000", "#b34700", "#3a6ea5", "#8a8a8a")


def figure(rows=1, columns=1, height=3.2):
    """A figure as wide as the text and its axes; lines differ in brightness and dash pattern."""
    import matplotlib
    import matplotlib.pyplot as plt
    lines = plt.cycler(color=LINES, linestyle=["-", "--", "-.", ":"])
    matplotlib.rcParams.update({"font.size": 12, "axes.titlesize": 12, "axes.spines.top": False,
                                "axes.spines.right": False, "legend.frameon": False, "legend.fontsize": 11,
                                "axes.prop_cycle": lines, "figure.facecolor": "white"})
    return plt.subplots(rows, columns, figsize=(7, height), dpi=110, layout="constrained")


shown = []  # numbers of the figures that a script wrote


def show(fig, alt):
    """Shows a figure in a notebook, or writes it as a PNG file to the folder $ZP_FIGURES."""
    import matplotlib.pyplot as plt
    from PIL import Image as Picture  # a part of every matplotlib
    drawn, png = io.BytesIO(), io.BytesIO()
    fig.savefig(drawn, format="png")
    plt.close(fig)
    Picture.open(drawn).convert("RGB").quantize(128).save(png, format="png", optimize=True)  # a fifth of the bytes
    shown.append(alt)
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.display import Image, display
        display(Image(png.getvalue(), alt=alt))
    elif "ZP_FIGURES" in os.environ:
        name = f"{pathlib.Path(sys.argv[0]).stem}-{len(shown)}.png"
        pathlib.Path(os.environ["ZP_FIGURES"], name).write_bytes(png.getvalue())


def blank_axes(axes):
    """Axes without ticks and frame, for drawings."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def arrow(axes, start, end, color=GREY, width=1.6):
    axes.annotate("", end, start, arrowprops={
        "arrowstyle": "-|>", "color": color, "lw": width, "shrinkA": 2, "shrinkB": 2})


def box(axes, x, y, width, height, color, text="", ink="black", **more):
    """A rectangle with centred text; (x, y) is its lower left corner."""
    from matplotlib.patches import Rectangle
    style = {"facecolor": color, "edgecolor": "black", "linewidth": 0.8, **more}
    axes.add_patch(Rectangle((x, y), width, height, **style))
    if text != "":
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", color=ink)


def owner_strips(strips, names, xlabel="element"):
    """One strip per name: the elements in the colours of the ranks that own them. Returns figure and axes."""
    from matplotlib.colors import ListedColormap
    fig, axes = figure(height=0.9 + 0.42 * len(strips))
    axes.imshow(np.array(strips), aspect="auto", cmap=ListedColormap(RANKS), interpolation="nearest", vmin=-0.5,
                vmax=len(RANKS) - 0.5)
    axes.set_yticks(range(len(names)), names)
    axes.set_yticks(np.arange(len(names) - 1) + 0.5, minor=True)
    axes.grid(which="minor", axis="y", color="white", linewidth=4)
    axes.tick_params(which="both", left=False)
    axes.spines[:].set_visible(False)
    axes.set(xlabel=xlabel)
    rank_legend(axes, int(np.max(strips)) + 1)
    return fig, axes


def rank_legend(axes, count, **more):
    from matplotlib.patches import Patch
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), **more}
    axes.legend(handles=[Patch(color=RANKS[rank], label=f"rank {rank}") for rank in range(count)], ncols=count,
                handlelength=1, columnspacing=1.2, **place)


def memory_bars(axes, bars, ticks, unit=1000, classes=tuple(PARTS)):
    """Stacked bars of bytes by class; `bars` has a dictionary of bytes for each tick."""
    bottom = np.zeros(len(bars))
    for name in classes:
        height = np.array([bar.get(name, 0) for bar in bars]) / unit
        axes.bar(range(len(bars)), height, bottom=bottom, color=PARTS[name], edgecolor="white", label=NAMES[name],
                 width=0.7)
        bottom += height
    axes.set_xticks(range(len(bars)), ticks)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def exchange(axes, title, before, after, arrows):
    """Ranks as rows of boxes before (left) and after (right) a collective, and arrows between them.

    before, after: for each rank a list of (colour, text); arrows: (sender, receiver, colour).
    """
    ranks, wide = len(before), 1.0
    left = max(len(row) for row in before) * wide
    begin = left + 2.2
    for side, x0 in ((before, 0.0), (after, begin)):
        for rank, row in enumerate(side):
            for i, (color, text) in enumerate(row):
                ink = INK[RANKS.index(color)] if color in RANKS else "black"
                box(axes, x0 + i * wide, -rank - 0.35, wide * 0.94, 0.7, color, text, ink)
    for rank, other, color in arrows:
        spread = 0.5 / ranks
        arrow(axes, (left, -rank + (ranks / 2 - 0.5 - other) * spread),
              (begin, -other + (ranks / 2 - 0.5 - rank) * spread), color, 1.3)
    for rank in range(ranks):
        axes.text(-0.15, -rank, f"rank {rank}", ha="right", va="center")
    axes.set(xlim=(-1.2, begin + max(len(row) for row in after) * wide + 0.1), ylim=(-ranks + 0.5, 0.5))
    axes.set_title(title, loc="left")
    blank_axes(axes)
