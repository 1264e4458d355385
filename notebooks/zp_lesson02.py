"""Lesson 2: recorded gradients, sums of zeroproof, errors, and figures."""

import functools
import math
import pathlib
import tempfile

import zp
import zp_draw as draw

import numpy as np

SGD = '[optimizer]\nrule = "sgd"\nlr = 1.0\nmomentum = 0.0\nweight_decay = 0.0\nmax_norm = 0.0\n'
RUN = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--steps", 1, "--world", "threads:2")
U = 2.0**-24


def sum_of_the_program(leaves, ranks):
    """zeroproof's sum. SGD with lr 1 from zero gives master = -(sum / M), exact if M is 2^k."""
    with tempfile.TemporaryDirectory() as folder:
        path, settings = pathlib.Path(folder, "leaves.safetensors"), pathlib.Path(folder, "sgd.toml")
        named = {f"grad.1.{j}.x": leaf for j, leaf in enumerate(leaves)}
        zp.write_tensors(path, {"param.x": np.zeros_like(leaves[0]), **named}, steps=1, micro_batches=len(leaves))
        settings.write_text(SGD)
        run = ("verify", "--gradients", path, "--config", settings, "--recipe", "sgd", "--dtype", "fp32")
        dump = zp.file_of(*run, "--impl", "host", "--world", f"threads:{ranks}", "--stage", 2, option="--dump")
    return 0 - dump["master.1.x"] * np.float32(len(leaves))


def leaves_of(*values):
    """One leaf of one element for each number."""
    return [np.array([value], np.float32) for value in values]


@functools.lru_cache(None)
def recorded_leaves():
    """Gradients of 64 micro-batches of one step of byte_gpt_tiny, as vectors."""
    recorded = zp.file_of(
    "record",
    "--workload",
    "byte_gpt_tiny",
    "--dtype",
    "bf16",
    "--micro-batches",
    64,
    "--steps",
     1)
    names = recorded.metadata["order"].splitlines()
    return [np.concatenate([recorded[f"grad.1.{j}.{name}"].ravel() for name in names]) for j in range(64)]


def exact(leaves):
    """The exact sum of each element, rounded to fp64 once."""
    return np.array([math.fsum(column) for column in np.array(leaves, np.float64).T])


def push(stack, level, index, value):
    """Pushes a node, then adds neighbours while the top two are the halves of one node (R11)."""
    stack.append((level, index, value))
    while len(stack) > 1 and stack[-1][1] % 2 == 1 and stack[-2][:2] == (stack[-1][0], stack[-1][1] - 1):
        (level, index, right), (_, _, left) = stack.pop(), stack.pop()
        stack.append((level + 1, index // 2, left + right))


def block_of(leaves, begin, end):
    """The maximal nodes of a block of leaves: (level, index, value)."""
    stack = []
    for j in range(begin, end):
        push(stack, 0, j, leaves[j])
    return stack


def blocks_of(leaves, ranks):
    """The nodes that each rank sends, if ranks hold neighbouring leaves."""
    count = len(leaves)
    return [block_of(leaves, count * rank // ranks, count * (rank + 1) // ranks) for rank in range(ranks)]


def combined(blocks):
    """The sum that the receiver of all nodes computes."""
    stack = []
    for node in (node for block in blocks for node in block):
        push(stack, *node)
    total = stack.pop()[2]
    while stack:
        total = stack.pop()[2] + total
    return total


def error(total, leaves):
    """The largest error of a sum, in units of u times the sum of magnitudes."""
    size = np.abs(np.array(leaves, np.float64)).sum(axis=0)
    some = size > 0
    return float(np.max(np.abs(total[some] - exact(leaves)[some]) / (U * size[some])))


def bound(height):
    """[Sum:tree] in the same units: ((1 + u / (1 + u))^h - 1) / u."""
    return ((1 + U / (1 + U))**height - 1) / U


@functools.lru_cache(None)
def wrong_sum():
    """A sum in another order: its case, and the seven leaves of its first wrong element."""
    case = zp.verify(*RUN, "--stage", 2, "--order", "contiguous", fault="?2")["cases"][0]
    seven = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1)
    first = case["divergence"]
    at = tuple(int(i) for i in first["coordinates"].strip("[]").split(","))
    return case, [seven[f"grad.1.{j}.{first['parameter']}"][at] for j in range(7)]


def try_order(order, *ways):
    """Whether a fold or tree of the leaves in this order has the bits of the wrong sum."""
    case, element = wrong_sum()
    found = {way.__name__: zp.hexadecimal(way([element[j] for j in order])) for way in ways}
    print("your order", found, "-> found" if case["divergence"]
          ["candidate"].split()[0] in found.values() else "-> not yet")


# ---------------------------------------------------------------- blanks


def fold(leaves):
    total = leaves[0]
    for leaf in leaves[1:]:
        total = total + leaf
    return total


def tree(leaves):
    leaves = list(leaves)
    while len(leaves) > 1:
        last = leaves[-1:] if len(leaves) % 2 else []  # no right neighbour: unchanged
        leaves = [left + right for left, right in zip(leaves[0::2], leaves[1::2])] + last
    return leaves[0]


def _random_leaves(count):
    return list(np.random.RandomState(count).standard_normal((count, 50)).astype(np.float32))


_CASES = [("one leaf", leaves_of(1)), ("1, 0, 2^-24, 2^-24", leaves_of(1, 0, U, U)),
          *[(f"{count} leaves", _random_leaves(count)) for count in (2, 3, 5, 6, 7, 8, 16)]]
blank = zp.Blanks({fold: _CASES, tree: _CASES})

# ---------------------------------------------------------------- figures


def _additions(axes, nodes, edges, leaf_colors, title):
    for (x, y), (x2, y2) in edges:
        axes.plot([x, x2], [y, y2], color=draw.GREY, linestyle="-", linewidth=1.5, zorder=1)
    for x, y, text in nodes:
        leaf = y == 0
        color = leaf_colors[int(x)] if leaf else "white"
        axes.text(x, y, text, ha="center", va="center", zorder=2,
                  color=draw.INK[draw.RANKS.index(color)] if leaf else "black",
                  bbox={"boxstyle": "round,pad=0.3", "facecolor": color, "edgecolor": "black"})
    axes.set_title(title, loc="left")
    draw.blank_axes(axes)


def draw_orders(count=8, ranks=4):
    """Fold and tree of eight leaves that four ranks hold."""
    fig, (top, bottom) = draw.figure(2, 1, height=6.2)
    colors = [draw.RANKS[j * ranks // count] for j in range(count)]
    leaves = [(j, 0, str(j)) for j in range(count)]
    def above(j):
        return 0.4 + 0.55 * j if j else 0
    sums = [(j, above(j), "+") for j in range(1, count)]
    edges = [edge for j in range(1, count) for edge in
             (((j - 1, above(j - 1)), (j, above(j))), ((j, 0), (j, above(j))))]
    _additions(top, leaves + sums, edges, colors, "fold: each leaf is added to the sum so far")
    top.set(xlim=(-0.5, count - 0.5), ylim=(-0.5, above(count)))
    level, nodes, edges, height = [(j, 0) for j in range(count)], list(leaves), [], 0
    while len(level) > 1:
        height += 1
        parents = []
        for left, right in zip(level[0::2], level[1::2]):
            node = ((left[0] + right[0]) / 2, height)
            parents.append(node)
            nodes.append((*node, "+"))
            edges += [(left, node), (right, node)]
        level = parents
    _additions(bottom, nodes, edges, colors, "tree: neighbours are added, then their sums")
    bottom.set(xlim=(-0.5, count - 0.5), ylim=(-0.4, height + 0.4))
    draw.rank_legend(bottom, ranks, bbox_to_anchor=(0.5, -0.25))
    draw.show(fig, "Above, a fold of eight leaves: a chain of seven additions. Below, the tree: four additions, two, "
                   "one. Leaves have the colours of four ranks with two leaves each.")


def draw_nodes(count=16, ranks=3):
    """The leaves of each rank, and the maximal nodes that it sends."""
    fig, axes = draw.figure(height=2.8)
    ones = [np.float32(1)] * count
    for rank, nodes in enumerate(blocks_of(ones, ranks)):
        color, ink = draw.RANKS[rank], draw.INK[rank]
        for j in range(count * rank // ranks, count * (rank + 1) // ranks):
            draw.box(axes, j, 0, 0.92, 0.7, color, j, ink)
        for level, index, _ in nodes:
            begin, wide = index * 2**level, 2**level
            draw.box(axes, begin, 1.1 + 0.85 * level, wide - 0.08, 0.7, color, f"{wide}" if wide > 1 else "1", ink)
    axes.set(xlim=(-0.1, count), ylim=(-0.1, 3.7), yticks=[0.35, *[1.45 + 0.85 * level for level in range(3)]])
    axes.set_yticklabels(["leaves", "nodes of 1", "of 2", "of 4"])
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.set_title(f"{count} leaves on {ranks} ranks, and the nodes that each rank sends", loc="left")
    draw.show(fig, f"{count} leaves on {ranks} ranks in their colours, and above them the nodes that each rank sends: "
                   "aligned sums of 1, 2 or 4 leaves.")


def draw_errors(counts, errors, bounds):
    fig, axes = draw.figure(height=3.4)
    for name, marker, color in (("tree", "o", "#000000"), ("fold", "s", "#b34700")):
        axes.plot(counts, errors[name], marker=marker, color=color, linestyle="-", label=f"{name}, largest error")
        axes.plot(counts, bounds[name], color=color, linestyle=":", label=f"{name}, bound")
    axes.set(xscale="log", yscale="log", xlabel="micro-batches M", ylabel="error / (u * sum of |x|)")
    axes.set_xticks(counts, [str(m) for m in counts])
    axes.minorticks_off()
    axes.legend()
    draw.show(fig, "Largest errors of tree and fold against the number of micro-batches, both far below their bounds; "
                   "the fold's error grows faster.")


def draw_changes(canonical, sums, begin=9000, end=9240):
    """Strips of elements; dark where a sum differs from the tree."""
    fig, axes = draw.figure(height=3.0)
    picture = np.array([zp.bits(total[begin:end]) != zp.bits(canonical[begin:end]) for total in sums.values()])
    axes.imshow(picture, aspect="auto", cmap="Greys", interpolation="nearest",
                extent=(begin, end, len(sums) - 0.5, -0.5))
    axes.set_yticks(range(len(sums)), list(sums))
    axes.set_yticks(np.arange(len(sums) - 1) + 0.5, minor=True)
    axes.grid(which="minor", axis="y", color=draw.GREY, linewidth=1)
    axes.set(xlabel="element; black: its bits differ from the tree")
    draw.show(fig, "Strips of elements that differ from the tree: none for trees on 2, 4 and 8 ranks, and different "
                   "ones for each ring.")
