"""Lesson 13: Muon in numpy on recorded gradients, its sharded variants, bytes of five schemes, and figures."""

import functools
import math

import zp
import zp_draw as draw
from judge.matrices import (SIMPLE, F, bf16, block_sums, chain, fold, iteration, momentum, newton_schulz, normalised,
                            product, step_size, update)

import numpy as np

NAMES = tuple(f"block{block}.{name}.weight" for block in (0, 1) for name in (
    "attention.query", "attention.key", "attention.value", "attention.output", "mlp.up", "mlp.down"))
STEPS = (1, 2, 4, 5, 6)  # step 3 overflows, on purpose
LR, DECAY, MAX_NORM = 0.02, 0.01, 0.52
A, B, C = map(F, SIMPLE)

# ---------------------------------------------------------------- recorded gradients


@functools.lru_cache(None)
def _recorded():
    return zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16")


@functools.lru_cache(None)
def _recorded_large():
    return zp.file_of("record", "--workload", "byte_gpt", "--dtype", "bf16", "--steps", 1)


@functools.lru_cache(None)
def gradient(name, step):
    """The sum over micro-batches of the gradient of a tensor of byte_gpt_tiny."""
    recorded = _recorded()
    return sum(recorded[f"grad.{step}.{j}.{name}"] for j in range(int(recorded.metadata["micro_batches"])))


@functools.lru_cache(None)
def clip_coefs():
    """The clip coefficient of each step, of the norm over all tensors."""
    order = _recorded().metadata["order"].splitlines()
    norms = [math.sqrt(sum(np.sum(np.float64(gradient(name, step))**2) for name in order)) for step in STEPS]
    return [F(min(1, MAX_NORM / norm)) for norm in norms]


def matrix(step=1):
    """The gradient of one matrix, of 15 rows and 37 columns."""
    return gradient("block0.mlp.up.weight", step)


def singular_values(x):
    return np.linalg.svd(np.float64(x))[1]


def distance(one, other):
    """The norm of a difference, relative to `other`."""
    return float(np.linalg.norm(np.float64(one) - other) / np.linalg.norm(np.float64(other)))


# ---------------------------------------------------------------- Muon, right and wrong


def moved(orthogonalise=newton_schulz, average=momentum, size=step_size, decayed=update, decay=DECAY, coefs=None):
    """The change of twelve matrices in five steps, one after another; the arguments replace parts of Muon."""
    changes = []
    for name in NAMES:
        first = master = _recorded()[f"param.{name}"].astype(F)
        exp_avg = np.zeros_like(master)
        for step, coef in zip(STEPS, coefs or clip_coefs()):
            exp_avg, direction = average(gradient(name, step) * F(coef), exp_avg)
            master = decayed(master, orthogonalise(direction), size(*master.shape, LR), F(LR * decay))
        changes.append((master - first).ravel())
    return np.concatenate(changes)


@functools.lru_cache(None)
def correct():
    return moved()


def by_parts(parts):
    """Newton-Schulz of each part of the rows on its own."""
    def orthogonalise(x):
        return np.concatenate([newton_schulz(x[rows]) for rows in np.array_split(np.arange(len(x)), parts)])
    return orthogonalise


def by_columns(parts):
    """Newton-Schulz of each part of the columns on its own."""
    return lambda x: np.hstack([newton_schulz(x[:, own]) for own in columns_of(x, parts)])


def columns_of(x, ranks):
    """The columns of each tensor parallel rank."""
    return [slice(x.shape[1] * rank // ranks, x.shape[1] * (rank + 1) // ranks) for rank in range(ranks)]


def gram_rounded(x, ranks):
    """X X^T: every rank multiplies its columns, and an all-reduce adds the results in bf16."""
    total = None
    for own in columns_of(x, ranks):
        part = bf16(product(x[:, own], x[:, own]))
        total = part if total is None else bf16(total + part)
    return total


def gram_in_blocks(x, ranks):
    """X X^T: every rank folds its own of the 8 blocks, in fp32, and the folds are folded (R27)."""
    sums = block_sums(x, x)
    each = len(sums) // ranks
    return bf16(fold([fold(sums[each * rank:each * (rank + 1)]) for rank in range(ranks)]))


def with_gram(gram, ranks):
    """Newton-Schulz with the columns of a matrix on tensor parallel ranks, which compute A = X X^T by `gram`."""
    def orthogonalise(matrix):
        wide = matrix.T if len(matrix) > matrix.shape[1] else matrix
        x = normalised(wide)
        for _ in range(5):
            a = gram(x, ranks)
            x = bf16(A * x + product(bf16(B * a + C * product(a, a)), x.T))
        return x if wide is matrix else x.T
    return orthogonalise


def factor_scaled(matrix):
    """Newton-Schulz in the form scaled_factor of R28: b * A + c * A @ A as Python evaluates it."""
    wide = matrix.T if len(matrix) > matrix.shape[1] else matrix
    x = normalised(wide)
    for _ in range(5):
        a = bf16(product(x, x))
        x = bf16(bf16(A * x) + bf16(product(bf16(bf16(B * a) + bf16(product(bf16(C * a), a))), x.T)))
    return x if wide is matrix else x.T


def fp32(x):
    return np.asarray(x, F)


def one_chain(left, right, factors=bf16):
    """A product whose terms are added one after another, not in 8 blocks."""
    return chain(factors(left), factors(right))


CORRECT = {  # equal in exact arithmetic
    "sums in one chain": dict(orthogonalise=functools.partial(newton_schulz, times=one_chain)),
    "Gram matrices all-reduced, TP 2": dict(orthogonalise=with_gram(gram_rounded, 2)),
    "factors in fp32": dict(orthogonalise=functools.partial(newton_schulz, factors=fp32)),
    "(c A) A for c (A A)": dict(orthogonalise=factor_scaled),
}
BUGS = {
    "no weight decay": dict(decay=0),
    "decay with the scaled lr": dict(decayed=lambda master, o, size, decay: master - (
        size * o + decay * (size / F(LR)) * master)),
    "no clip": dict(coefs=[F(1)] * len(STEPS)),
    "scale of the shard's shape": dict(size=lambda rows, columns, lr: step_size(rows // 2, columns, lr)),
    "no Nesterov": dict(average=functools.partial(momentum, nesterov=False)),
    "four iterations": dict(orthogonalise=functools.partial(newton_schulz, steps=4)),
    "two shards on their own": dict(orthogonalise=by_parts(2)),
}


@functools.lru_cache(None)
def distances():
    """The distance of each variant from the contract's result, and the number of elements that differ."""
    changes = {name: moved(**parts) for name, parts in (*CORRECT.items(), *BUGS.items())}
    return {name: (distance(change, correct()), zp.different(change, correct())) for name, change in changes.items()}


def on_tensor_ranks(ranks):
    """The result for one matrix on tensor parallel ranks, in four ways."""
    _, x = momentum(matrix(5), np.zeros_like(matrix(5)))
    return {"each shard on its own": by_columns(ranks)(x), "all-gather, computed on every rank": newton_schulz(x),
            "Gram matrices added in bf16": with_gram(gram_rounded, ranks)(x),
            "Gram matrices folded by blocks": with_gram(gram_in_blocks, ranks)(x)}


def after_clip(coefs):
    """The results of Newton-Schulz in five steps of one matrix, its gradients multiplied by these coefficients."""
    exp_avg, results = np.zeros_like(matrix()), []
    for step, coef in zip(STEPS, coefs):
        exp_avg, direction = momentum(matrix(step) * F(coef), exp_avg)
        results.append(newton_schulz(direction))
    return results


def direction(gradients, families, number=F):
    """The direction in the last of several steps with these families of momentum, in fp32 or fp64."""
    mu, exp_avg = number(0.95), number(0)
    for grad, family in zip(gradients, families):
        own = (number(1) if family == "heavy ball" else number(1 - 0.95)) * number(grad)
        exp_avg = mu * exp_avg + own
    return own + mu * exp_avg


@functools.lru_cache(None)
def large_gradients():
    """The gradients of two matrices of byte_gpt, of 136 x 544 and 544 x 136 elements."""
    recorded = _recorded_large()
    return [sum(recorded[f"grad.1.{j}.block0.mlp.{name}.weight"] for j in range(16)) for name in ("up", "down")]


def small_gradients():
    """The gradients of five steps of twelve matrices of byte_gpt_tiny."""
    return [[gradient(name, step) for step in STEPS] for name in NAMES]


def flat(matrices):
    return np.concatenate([x.ravel() for x in matrices])


def perturbed(count=20, size=1e-6):
    """Distances in iterations 0 to 5 after relative changes of this size; for factors in fp32 and in bf16."""
    random, rows = np.random.RandomState(3), {"fp32": [], "bf16": []}
    clipped = [gradient("block0.mlp.up.weight", step) * coef for step, coef in zip(STEPS, clip_coefs())]
    x = direction(clipped, ["ema"] * len(STEPS))
    for _ in range(count):
        other = (x * (1 + size * random.uniform(-1, 1, x.shape))).astype(F)
        for name, factors in (("fp32", fp32), ("bf16", bf16)):
            one, two, row = normalised(other, factors=factors), normalised(x, factors=factors), []
            for _ in range(6):
                row.append(distance(one, two))
                one, two = iteration(one, factors=factors), iteration(two, factors=factors)
            rows[name].append(row)
    return {name: np.array(of) for name, of in rows.items()}


def find_it():
    """(name, shape, elements that differ, the ratio of moves) of each matrix, with a fault."""
    wrong = dict(zip(NAMES, _split(moved(**BUGS["scale of the shard's shape"], decay=0))))
    right = dict(zip(NAMES, _split(moved(decay=0))))
    rows = []
    for name in NAMES:
        shape = "x".join(map(str, gradient(name, 1).shape))
        ratio = np.median(right[name] / wrong[name])
        rows.append((name, shape, zp.different(wrong[name], right[name]), f"{ratio:.3f}"))
    return rows


def _split(flat):
    return np.split(flat, np.cumsum([gradient(name, 1).size for name in NAMES])[:-1])


# ---------------------------------------------------------------- owners and bytes


@functools.lru_cache(None)
def shapes():
    """Rows and columns of the matrices of byte_gpt that Muon updates, in their order."""
    recorded = _recorded_large()
    names = recorded.metadata["order"].splitlines()
    return {name: recorded[f"param.{name}"].shape for name in names
            if recorded[f"param.{name}"].ndim == 2 and name.startswith("block")}


@functools.lru_cache(None)
def pieces(ranks):
    """For each matrix of byte_gpt, (rank, begin, end) of its elements in the contract's flat layout."""
    plan = zp.json_of("plan", "byte_gpt", "--owners", "--grid", f"{ranks}x1x1")
    found = {name: [] for name in shapes()}
    for rank, row in enumerate(plan["ranks"]):
        for part in row["slices"]:
            for piece in part["pieces"]:
                if piece["tensor"] in found:
                    found[piece["tensor"]].append((rank, piece["tensor_begin"], piece["tensor_end"]))
    return found


def owned(name, ranks):
    """The number of a matrix's elements on each rank."""
    counts = [0] * ranks
    for rank, begin, end in pieces(ranks)[name]:
        counts[rank] += end - begin
    return counts


def cost(shape):
    """Multiplications of an iteration up to a factor: the longer extent times the square of the shorter."""
    return max(shape) * min(shape)**2


def work(owner_of, ranks):
    """The cost of the matrices that each rank orthogonalises; owner_of: the ranks of each matrix."""
    costs = [0] * ranks
    for shape, owners in zip(shapes().values(), owner_of):
        for rank in owners:
            costs[rank] += cost(shape)
    return costs


# A model of 24 blocks of width 2048, for bytes: query-key-value, output, up, down.
LARGE = [(6144, 2048), (2048, 2048), (8192, 2048), (2048, 8192)] * 24
ITERATIONS = 5


def multiplications(shape):
    """Of Newton-Schulz in five iterations: X X^T, A A and B X."""
    return ITERATIONS * (2 * cost(shape) + min(shape)**3)


def schemes(sent, longest_first, ranks=8):
    """For each scheme the bytes that a rank sends for the matrices of LARGE, and its multiplications; the largest rank.

    Beyond the bytes that ZeRO-1 sends anyway: sums of gradients to owners, parameters to all.
    """
    owner = longest_first([cost(shape) for shape in LARGE], ranks)
    every, back, work_of = [0] * ranks, [0] * ranks, [0] * ranks
    for shape, own in zip(LARGE, owner):
        equal = [shape[0] * shape[1] // ranks] * ranks
        every = [a + b for a, b in zip(every, sent(equal, None))]
        back = [a + b for a, b in zip(back, sent(equal, own))]
        work_of[own] += multiplications(shape)
    whole = sum(map(multiplications, LARGE))
    gram = sum(ITERATIONS * 2 * (2 * min(shape)**2 * (ranks - 1)) // ranks for shape in LARGE)  # a ring, in bf16
    split = sum(ITERATIONS * (2 * cost(shape) // ranks + min(shape)**3) for shape in LARGE)
    return {"all-gather, computed by all": (max(every), whole), "owner computes and sends back": (max(back), max(work_of)),
            "whole matrices owned": (0, max(work_of)), "TP: all-gather, computed by all": (max(every), whole),
            "TP: Gram matrices all-reduced": (gram, split)}


# ---------------------------------------------------------------- blanks


def iterate(x, a, b, c):
    gram = bf16(product(x, x))
    inner = bf16(b * gram + c * product(gram, gram))
    return bf16(a * x + product(inner, x.T))


def longest_first(costs, ranks):
    load, owners = [0] * ranks, [None] * len(costs)
    for i in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        owners[i] = load.index(min(load))
        load[owners[i]] += costs[i]
    return owners


def sent(elements, owner):
    ranks, total = range(len(elements)), sum(elements)
    if owner is None:
        holders = sum(numel > 0 for numel in elements)
        return [4 * numel * (holders - 1) if numel else 0 for numel in elements]
    return [4 * (total - elements[owner]) if rank == owner else 4 * elements[rank] for rank in ranks]


def _example(seed, rows, columns):
    random = np.random.RandomState(seed)
    return bf16(random.uniform(-0.3, 0.3, (rows, columns)))


blank = zp.Blanks({
    iterate: [(f"{rows} rows, {columns} columns", _example(rows, rows, columns), A, B, C)
              for rows, columns in ((1, 1), (2, 2), (3, 8), (15, 37))] + [
        ("another polynomial", _example(9, 4, 9), F(2), F(-1.5), F(0.5))],
    longest_first: [("two equal matrices", [1, 1], 2), ("the largest comes last", [1, 1, 2], 2),
                    ("more ranks than matrices", [3, 5], 4), ("no matrix", [], 3), ("one rank", [4, 2, 9], 1),
                    ("seven matrices on three ranks", [3, 1, 4, 1, 5, 9, 2], 3),
                    ("the earlier of two goes first", [2, 3, 3, 2, 2], 2)],
    sent: [("two halves, every rank computes", [4, 4], None), ("two halves, rank 1 computes", [4, 4], 1),
           ("a rank without elements, every rank computes", [6, 0, 2], None),
           ("the owner has no elements", [6, 0, 2], 1), ("one rank has all, every rank computes", [0, 9], None),
           ("one rank has all and computes", [0, 9], 1), ("four ranks, rank 2 computes", [5, 6, 7, 8], 2)]})

# ---------------------------------------------------------------- figures


def draw_singular_values(results):
    """Lines of the singular values of the given matrices, the first of them the normalised gradient."""
    fig, axes = draw.figure(height=3.6)
    shades = np.linspace(0.78, 0.25, len(results) - 2)
    colors = ["black", *[(shade, shade, shade) for shade in shades], draw.WRONG]
    marks = ["normalised gradient", *[""] * (len(results) - 2), f"after {len(results) - 1} iterations"]
    for number, (x, color, mark) in enumerate(zip(results, colors, marks)):
        axes.plot(range(1, 15), singular_values(x)[:14], color=color, linestyle="-", marker="os"[number > 0],
                  markersize=4, label=mark or (f"after {number}"))
    axes.axhspan(0.68, 1.21, color=draw.PALE, zorder=0)
    axes.set(yscale="log", xlabel="singular value, largest first", ylabel="value", xticks=(1, 5, 10, 14))
    axes.set_yticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    axes.legend(loc="lower left", ncols=2, fontsize=9)
    draw.show(fig, "Fourteen singular values of a gradient on a logarithmic axis, from 0.76 down to 0.01, and after 1 "
                   "to 5 iterations: each iteration lifts the small ones; in the end all are between 0.68 and 1.21.")


def polar(x):
    """The exact orthogonal factor, which Newton-Schulz approximates."""
    left, _, right = np.linalg.svd(np.float64(x), full_matrices=False)
    return left @ right


def draw_two_by_two(x):
    """Rows of a 2 x 2 matrix, of its orthogonal factor, and of those of its rows, as arrows."""
    fig, axes = draw.figure(1, 3, height=2.9)
    whole, rows = polar(x), np.array([row / np.linalg.norm(row) for row in np.float64(x)])
    for one, title, of in zip(axes, ("the matrix", "of the whole", "of each row"), (x, whole, rows)):
        limit = 1.15 * np.abs(of).max()
        one.axhline(0, color=draw.PALE, linewidth=1, zorder=0)
        one.axvline(0, color=draw.PALE, linewidth=1, zorder=0)
        for number, row in enumerate(np.float64(of)):
            draw.arrow(one, (0, 0), row, draw.RANKS[number], 2.4)
        one.set(xlim=(-0.35 * limit, limit), ylim=(-0.75 * limit, 0.95 * limit), aspect="equal")
        one.set_title(f"{title}\n" + "\n".join(f"[{row[0]:5.2f} {row[1]:5.2f}]" for row in np.float64(of)), fontsize=11,
                      family="monospace")
        draw.blank_axes(one)
    draw.show(fig, "Arrows of the two rows of a matrix: in the matrix they point nearly the same way; in the "
                   "orthogonal factor of the whole they are perpendicular; normalised on their own they keep their "
                   "directions.")


def draw_difference(whole, cut, at):
    """Heat maps of two results and their difference; `at`: rows where the matrix was cut."""
    fig, axes = draw.figure(1, 3, height=2.3)
    limit = float(np.abs(whole).max())
    for one, title, x in zip(axes, ("of the whole", "of two shards", "difference"), (whole, cut, cut - whole)):
        drawn = one.imshow(x, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        for row in at if title != "of the whole" else ():
            one.axhline(row - 0.5, color="black", linewidth=1.5)
        one.set(xticks=[], yticks=[])
        one.set_title(title)
    fig.colorbar(drawn, ax=axes, shrink=0.9)
    draw.show(fig, "Heat maps of 15 by 37 elements: the result of the whole matrix, the results of two shards, and the "
                   "difference, which is not near 0 in either of the shards.")


def draw_owners(ranks=4):
    """The matrices of two blocks of byte_gpt, each element in the colour of its owner in the flat layout."""
    from matplotlib.colors import ListedColormap
    names = [name for name in shapes() if name[5] in "01"]
    fig, axes = draw.figure(2, 6, height=3.4)
    for one, name in zip(axes.ravel(), names):
        owner = np.zeros(math.prod(shapes()[name]))
        for rank, begin, end in pieces(ranks)[name]:
            owner[begin:end] = rank
        one.imshow(owner.reshape(shapes()[name]), cmap=ListedColormap(draw.RANKS), vmin=-0.5, vmax=len(draw.RANKS) - 0.5,
                   aspect="auto", interpolation="nearest")
        one.set(xticks=[], yticks=[])
        one.set_title(name.split(".")[-2], fontsize=11)
    for row in range(2):
        axes[row][0].set_ylabel(f"block {row}")
    fig.get_layout_engine().set(rect=(0, 0.1, 1, 0.9))
    draw.rank_legend(fig, ranks, loc="lower center", bbox_to_anchor=(0.5, 0))
    draw.show(fig, "Twelve matrices of two blocks in the colours of the ranks that own their elements: several have two "
                   "or more colours, cut in the middle.")


def draw_balance(works):
    """Bars of the cost on each rank, one panel for each map of owners."""
    fig, axes = draw.figure(1, len(works), height=2.9)
    unit = min(map(cost, shapes().values()))
    whole = sum(map(cost, shapes().values())) / unit
    top = max(max(of) for of in works.values()) / unit
    for one, (name, of) in zip(axes, works.items()):
        one.bar(range(len(of)), [value / unit for value in of], color=draw.RANKS[:len(of)])
        one.axhline(whole / len(of), color="black", linestyle="--", linewidth=1)
        one.set(ylim=(0, 1.08 * top), xticks=range(len(of)), xlabel="rank")
        one.set_title(name, fontsize=11)
    axes[0].set_ylabel("cost")
    draw.show(fig, "Bars of the cost of the products on six ranks under three maps of owners: every rank with an "
                   "element computes several times the mean, marked by a dashed line; round robin is uneven; longest "
                   "first is even.")


def draw_schemes(found):
    """Bars of bytes and of multiplications of each scheme."""
    fig, (left, right) = draw.figure(1, 2, height=2.9)
    names = list(found)
    left.barh(range(len(names)), [of[0] / 1e9 for of in found.values()], color="#b34700")
    right.barh(range(len(names)), [of[1] / 1e12 for of in found.values()], color=draw.RANKS[0])
    for one, label in ((left, "GB sent"), (right, "10^12 products")):
        one.set(xlabel=label, ylim=(len(names) - 0.5, -0.5), xlim=(0, 1.1 * one.get_xlim()[1]))
        one.tick_params(left=False)
    left.set_yticks(range(len(names)), names)
    right.set_yticks([])
    draw.show(fig, "Bars of five schemes: the two all-gathers send the most and compute all of it on every rank; owners "
                   "that send back send a quarter of that and compute an eighth; owners of whole matrices send nothing "
                   "more; all-reduced Gram matrices send somewhat more than an all-gather and compute less.")


def draw_perturbed(rows):
    """Distance by iteration, factors in fp32 and in bf16."""
    fig, axes = draw.figure(height=3.4)
    for name, color in (("fp32", draw.RANKS[0]), ("bf16", draw.WRONG)):
        kept = rows[name][rows[name][:, 0] > 0]
        for number, row in enumerate(kept):
            axes.plot(range(6), row, color=color, linestyle="-", linewidth=1.2, marker="o", markersize=3,
                      label=f"factors in {name}: {len(kept)} of {len(rows[name])}" if number == 0 else None)
    axes.axhline(1e-2, color="black", linestyle=":", linewidth=1)
    axes.text(0, 1.2e-2, "1e-2")
    axes.set(yscale="log", xlabel="iterations", ylabel="distance of the two results", ylim=(3e-7, 5e-2))
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.48))
    draw.show(fig, "Distance of two runs of Newton-Schulz whose inputs differ by one part in a million, on a logarithmic "
                   "axis: in fp32 it grows from 1e-6 to some 1e-5; in bf16 it begins at 1e-4, where it is not 0, and "
                   "grows to 1e-2.")


def draw_tolerance(found, limit=1e-2):
    """Distances of correct variants and of bugs from one result, on one axis."""
    fig, axes = draw.figure(height=4.0)
    order = sorted(found, key=lambda name: found[name][0])
    for y, name in enumerate(order):
        right = name in CORRECT
        axes.plot(found[name][0], y, marker="o" if right else "X", color="black" if right else draw.WRONG, markersize=8,
                  linestyle="")
        axes.text(3.5e-5, y, name, ha="right", va="center", color="black" if right else draw.WRONG, fontsize=11)
    axes.axvline(limit, color="black", linestyle=":", linewidth=1.2)
    axes.set(xscale="log", xlim=(5e-5, 1.2), xlabel="distance from the contract's result after five steps", yticks=[])
    axes.set_title("tolerance 1e-2: left accepted, right refused", fontsize=11)
    axes.spines["left"].set_visible(False)
    draw.show(fig, "Distances of four correct variants, black, and seven bugs, red, on a logarithmic axis with a line at "
                   "1e-2: correct ones and bugs are on both sides of it, mixed.")
