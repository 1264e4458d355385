"""Lesson 8: traces of stage 3, its memory, the judge of its schedule, and figures."""

import functools
import re

import zp
import zp_draw as draw

import numpy as np

RUN = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host", "--world", "threads:3")
SIZES, BUDGET = (4, 7, 2, 6), 13  # of the schedule to write: elements of its units, and of the memory
PLAIN = "g0 f0 r0 g1 f1 r1 g2 f2 r2 g3 f3 b3 r3 g2 b2 r2 g1 b1 r1 g0 b0 r0"
FEWEST = "25 elements gathered, at most 13 present"


class Trace:
    """What the ranks do in stage 3 while gradients are computed and added: `zeroproof trace`."""

    def __init__(self, ranks, micro_batches):
        words = ("--stage", 3, "--steps", 1, "--world", ranks, "--micro-batches", micro_batches)
        trace = zp.json_of("trace", *words)
        self.units, self.ranks = trace["layout"]["units"], ranks
        self.reduce = next(phase for phase in trace["steps"][0]["phases"] if phase["phase"] == "reduce")

    def gathers(self, rank):
        """The number of gathers in which a rank takes part."""
        return len({m["call"] for m in self.reduce["messages"]
                    if m["what"] == "parameters" and rank in (m["from"], m["to"])})

    def micro_batches(self, rank):
        """The number of micro-batches that a rank computes."""
        return len({visit["micro_batch"] for visit in self.visits(rank)} - {None})

    def visits(self, rank):
        """gather, forward, backward and release, in order."""
        return [visit for visit in self.reduce["visits"] if visit["rank"] == rank]

    def held(self, rank):
        """Bytes of gathered units on a rank after each gather and release."""
        weights, held = list(self.unit_bytes().values()), [0]
        for visit in self.visits(rank):
            if visit["event"] in ("gather", "release"):
                held.append(held[-1] + (1 if visit["event"] == "gather" else -1) * weights[visit["unit"]])
        return held

    def most_held(self, rank):
        """Bytes of gathered units on a rank at most, of the trace's memory."""
        return max(event["bytes"] for event in self.reduce["memory"]
                   if event["class"] == "param_full" and event["rank"] == rank)

    def unit_bytes(self):
        return {unit["name"]: 2 * (unit["end"] - unit["begin"]) for unit in self.units}  # bf16


trace = functools.lru_cache(None)(Trace)


@functools.lru_cache(None)
def largest_rank(stage, ranks):
    """Peak bytes by class on the largest rank of byte_gpt."""
    return zp.json_of("plan", "byte_gpt", "--grid", f"{ranks}x1x1")["stages"][stage]["largest"]["peak"]


def largest_unit():
    """Elements of the largest unit of byte_gpt."""
    return zp.json_of("plan", "byte_gpt", "--grid", "1x1x1")["model"]["largest_unit"]


def fault_in_stage3(fault):
    return zp.verify(*RUN, "--stage", 3, fault=fault)["cases"][0]


def reads_nan(divergence):
    """Whether the bf16 value that a report found in a unit is NaN."""
    value = zp.from_bf16(np.uint16(zp.number(re.search("got (0x[0-9a-f]+)", divergence["what"])[1])))
    return bool(np.isnan(value))


@functools.lru_cache(None)
def bytes_of_units():
    """Bytes of each unit of byte_gpt_tiny in bf16; tensors begin at multiples of 1024 (R13)."""
    plan = zp.json_of("plan", "byte_gpt_tiny", "--owners", "--grid", "1x1x1")  # one rank owns all, in their order
    numel, weights = {}, {}
    for piece in (piece for part in plan["ranks"][0]["slices"] for piece in part["pieces"]):
        numel[piece["tensor"]] = piece["tensor_end"]
    for name, elements in numel.items():
        block = re.match(r"block\d+", name)
        unit = block[0] if block else "head" if len(weights) > 1 else "embedding"
        weights[unit] = weights.get(unit, 0) + 2 * (-(-elements // 1024) * 1024)
    return weights


def peak(ranks, bucket, *words):
    """Bytes on rank 0 at the peak of one step in stage 3."""
    job = ("train", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1, "--stage", 3)
    said = zp.run(*job, "--world", f"threads:{ranks}", "--bucket", bucket, *words)
    return int(re.search(r"([\d,]+) bytes on rank 0", said)[1].replace(",", ""))


def before_step_1():
    """The first element of the embedding, in bf16."""
    recorded = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1)
    return zp.to_bf16(recorded["param.token_embedding.weight"])[0, 0]


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
            return f"word {place}, {word}: unit {unit} is {'present already' if what == 'g' else 'not present'}"
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


def judge_schedule(schedule):
    """Prints the cost of a schedule, and whether it is the best one."""
    cost = judged(schedule)
    print("mine:", cost + ("; no schedule gathers fewer" if cost == FEWEST else ""))


# ---------------------------------------------------------------- blanks


def gathers_of_a_step(units, micro_batches, ranks):
    return (2 * units - 1) * -(-micro_batches // ranks)


def most_with_prefetch(sizes):
    return max(a + b for a, b in zip(sizes, sizes[1:]))


blank = zp.Blanks({
    gathers_of_a_step: [("3 units, 4 micro-batches on 2 ranks", 3, 4, 2), ("one unit", 1, 2, 2),
                        ("5 micro-batches on 2 ranks: rank 0 has three of them", 3, 5, 2),
                        ("1 micro-batch on 4 ranks", 3, 1, 4)],
    most_with_prefetch: [("the largest two are neighbours", [4, 7, 6, 2]), ("they are not", [8, 1, 2, 7]),
                         ("two units", [3, 5])]})

# ---------------------------------------------------------------- figures


def draw_gather(ranks=4):
    """One unit of which every rank owns a part: gathered, used, released."""
    fig, axes = draw.figure(height=3.1)
    own = [[(draw.RANKS[rank], f"part {rank}")] for rank in range(ranks)]
    unit = [[(draw.RANKS[part], part) for part in range(ranks)] for _ in range(ranks)]
    draw.exchange(axes, "gather of a unit: an all-gather of its parts", own, unit,
                  [(rank, other, draw.RANKS[rank]) for rank in range(ranks) for other in range(ranks)])
    draw.show(fig, "Four ranks with a part of a unit each; arrows lead from every part to every rank, after which each "
                   "rank has all four parts.")


def draw_held(traced):
    """Bytes of gathered units on rank 0 over a step, and the size of all units."""
    fig, axes = draw.figure(height=2.7)
    held, weights = traced.held(0), traced.unit_bytes()
    axes.step(range(len(held)), held, where="post", color=draw.RANKS[0], label="held by rank 0")
    axes.axhline(max(weights.values()), color="#b34700", linestyle="--", label="largest unit")
    axes.axhline(sum(weights.values()), color=draw.GREY, linestyle=":", label="all units")
    axes.set(xlabel="gathers and releases", ylabel="bytes", ylim=(0, 1.35 * sum(weights.values())))
    axes.legend(loc="upper center", ncols=3)
    draw.show(fig, "Bytes of gathered units on rank 0 over a step: they rise to one unit and fall to zero again and "
                   "again, and never exceed the largest unit.")


def draw_peaks(rows):
    """Bars of the peak with one unit and with prefetch; rows of (label, one, prefetch)."""
    fig, axes = draw.figure(height=0.42 * len(rows) + 1.2)
    for y, (label, one, two) in enumerate(rows):
        axes.barh(y, one / 1000, color="#6b6b6b", height=0.6, label="one unit" if y == 0 else None)
        axes.barh(y, (two - one) / 1000, left=one / 1000, color="#eab487", height=0.6,
                  label="more with prefetch" if y == 0 else None)
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set(xlabel="peak of rank 0, kB", ylim=(len(rows) - 0.5, -0.5))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    draw.show(fig, "Bars of the peak memory of rank 0 for 2 to 4 ranks and two sizes of buckets: prefetch adds a part "
                   "to each.")


def draw_visits(traced):
    """The unit on each rank in each visit: F and B are computed there; hatched units help other ranks."""
    units = [unit["name"] for unit in traced.units]
    ranks, gap = range(traced.ranks), len(units) + 0.7
    columns = sum(visit["event"] == "gather" for visit in traced.visits(0))
    fig, axes = draw.figure(height=5.6)
    for rank in ranks:
        column, letters = -1, ""
        for visit in traced.visits(rank):
            row = rank * gap + visit["unit"]
            if visit["event"] == "gather":
                column, letters = column + 1, ""
            elif visit["event"] in ("forward", "backward"):
                letters += visit["event"][0].upper()
            else:
                color = draw.RANKS[rank]
                draw.box(axes, column + 0.04, row - 0.46, 0.92, 0.92, color if letters else "white", " ".join(letters),
                         draw.INK[rank], edgecolor=color, hatch="" if letters else "////")
        axes.text(-1.75, rank * gap + 1, f"rank {rank}", ha="right", va="center", weight="bold", color="black")
    ticks = [rank * gap + unit for rank in ranks for unit in range(len(units))]
    axes.set_yticks(ticks, units * traced.ranks)
    axes.set_xticks(np.arange(columns) + 0.5, range(1, columns + 1))
    axes.axvline(columns / 2, color="black", linewidth=1, linestyle="-")
    axes.set(xlim=(0, columns), ylim=(max(ticks) + 0.7, -0.7), xlabel="visit of the step (a gather begins each)")
    axes.tick_params(length=0)
    axes.set_title("F, B: passes that a rank computes; hatched: gathered for others", loc="left")
    draw.show(fig, "Four ranks, three units, ten visits of a step with five micro-batches. In each visit every rank "
                   "has one unit: embed, block, head, block, embed, twice. In the second half only rank 0 computes.")
