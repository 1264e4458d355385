"""Lesson 11: orders of two streams, runs with overlap, passes over memory, and figures."""

import gzip
import json
import math
import re

import zp
import zp_draw as draw

import numpy as np

RUN = ("byte_gpt_tiny", "--recipe", "adamw", "--world", "threads:3", "--stage", 3, "--dtype", "fp16", "--impl", "host")
SHORT = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--stage", 2, "--world", "threads:2", "--steps", 2,
         "--micro-batches", 4)
RECORDS = zp.HERE.parent / "verification" / "bench" / "records"
STREAMS = ("compute", "comm")


def timings(plan, waits, done=()):
    """Every order in which the operations of a plan can run."""
    if len(done) == len(plan):
        yield done
    for stream in STREAMS:
        left = [op for op in plan if op[1] == stream and op not in done]
        finished = [op[0] for op in done]
        if left and all(other in finished for who, other in waits if who == left[0][0]):
            yield from timings(plan, waits, (*done, left[0]))


def outcome(order):
    """Inputs of the update in this order. Memory is NaN before it is written."""
    memory, seen = dict.fromkeys(("A", "B", "C", "sum 0", "sum 1", "sum 2"), "NaN"), None
    for name, _, reads, writes in order:
        if name == "update":
            seen = tuple(memory[buffer] for buffer in reads)
        for buffer in writes:
            memory[buffer] = memory[reads[0]] if reads else "gradient " + name[-1]
    return seen


def wrong_inputs(outcomes):
    """The sums that hold something else than their own gradient in some outcome."""
    return "; ".join(sorted({f"sum {unit}: {value}" for seen in outcomes for unit, value in zip("210", seen)
                             if value[-1] != unit}))


def audit(plan, waits, conflict):
    """The first two operations that conflict and that nothing orders, or None."""
    before = {}
    for i, (name, stream, *_) in enumerate(plan):
        direct = [op[0] for op in plan[:i] if op[1] == stream] + [other for who, other in waits if who == name]
        before[name] = set(direct).union(*[before.get(other, ()) for other in direct])
        for earlier in plan[:i]:
            if conflict(earlier, plan[i]) and earlier[0] not in before[name]:
                return earlier[0], name
    return None


def without(waits, wait):
    return [other for other in waits if other != wait]


def run(*words, fault=""):
    """The case of a run in stage 3 with fp16."""
    return zp.verify(*RUN, *words, fault=fault)["cases"][0]


def short(implementation, *words, fault="", program=""):
    """The case of two steps in stage 2 with this implementation."""
    return zp.verify(*SHORT, "--impl", implementation, *words, fault=fault, program=program)["cases"][0]


def operations_named(reason):
    """Whether a refusal names an operation of each stream."""
    return re.search(r"\w+ of unit \d+ \(operation \d+, compute stream\) and \w+ of bucket \d+ \(operation \d+, comm",
                     reason) is not None


def recorded_on_a_gpu():
    kept = re.search(r"^\| streams \|(.*)\|(.*)\|$", (RECORDS / "README.md").read_text(), re.M)
    return kept[1].strip() + "\n  " + kept[2].strip()


# ---------------------------------------------------------------- passes over memory

SCALE, LR, B1, B2, EPS, DECAY = map(np.float32, (0.25, 1e-3, 0.9, 0.95, 1e-8, 1e-5))
ONE = np.float32(1)
_random = np.random.RandomState(1)
START = {"grad": _random.randint(-999, 999, 4096), "master": _random.randint(-999, 999, 4096),
         "exp_avg": _random.randint(-99, 99, 4096), "exp_avg_sq": _random.randint(0, 99, 4096)}
CHANGES = ("seven passes", "check while unscaling", "norm in the same pass", "clip while updating",
           "cast while updating", "unscale again, not store", "no zeroing of gradients")


class Memory:
    """Arrays by name, the bytes read and written, and the number of passes."""

    def __init__(self):
        self.arrays = {name: values.astype(np.float32) / np.float32(4096) for name, values in START.items()}
        self.moved = self.passes = 0

    def load(self, *names):
        self.moved += sum(self.arrays[name].nbytes for name in names)
        return [self.arrays[name] for name in names]

    def store(self, **arrays):
        self.moved += sum(array.nbytes for array in arrays.values())
        self.arrays.update(arrays)

    def new_pass(self, *names):
        self.passes += 1
        return self.load(*names)

    def per_element(self):
        return self.moved / self.arrays["grad"].size


def step(joined):
    """Unscale, check, norm, clip, AdamW, cast, zero: with the first `joined` changes."""
    memory = Memory()
    grad = memory.new_pass("grad")[0] * SCALE
    if joined < 5:
        memory.store(grad=grad)
    grad = memory.new_pass("grad")[0] if joined < 1 else grad
    finite = np.isfinite(grad).all()
    grad = memory.new_pass("grad")[0] if joined < 2 else grad
    norm = math.sqrt(math.fsum(float(x) * float(x) for x in grad))
    coef = np.float32(min(1, 0.5 / (norm + 1e-6)))
    if joined < 3:
        memory.store(grad=memory.new_pass("grad")[0] * coef)
    grad, p, m, v = memory.new_pass("grad", "master", "exp_avg", "exp_avg_sq")
    grad = grad * SCALE if joined >= 5 else grad
    grad = grad * coef if joined >= 3 else grad
    m = B1 * m + (ONE - B1) * grad
    v = B2 * v + (ONE - B2) * (grad * grad)
    p = (p - DECAY * p) - LR * (m / (np.sqrt(v) + EPS))
    if finite:
        memory.store(master=p, exp_avg=m, exp_avg_sq=v)
    p = memory.new_pass("master")[0] if joined < 4 else p
    memory.store(param=(zp.bits(zp.to_bf16(p)) >> 16).astype(np.uint16))
    if joined < 6:
        memory.new_pass()
        memory.store(grad=np.zeros_like(p))
    return memory


def differing(steps):
    """Elements of the results in which these steps differ from the first of them."""
    return sum(zp.different(one.arrays[name], steps[0].arrays[name]) for one in steps
               for name in ("master", "exp_avg", "exp_avg_sq", "param"))


def recorded_step():
    """A recorded measurement of production: file, machine, bytes per parameter, time relative to moving them."""
    path = sorted(RECORDS.glob("epyc-*/product-64Mi.json.gz"))[-1]
    record = json.loads(gzip.decompress(path.read_bytes()))
    row = next(row for row in record["product"]
               if (row["micro_batches"], row["tensors"], row["grad_dtype"]) == (1, 1, "fp32"))
    return path.name, record["machine"]["cpu"], row["bytes_per_parameter"], row["step_to_limit"]["median"]


# ---------------------------------------------------------------- blanks


def earliest(plan, waits):
    start = {}
    for name, stream, *_ in plan:
        same = [start[op[0]] + 1 for op in plan if op[0] in start and op[1] == stream]
        start[name] = max([*same, *[start[other] + 1 for who, other in waits if who == name], 0])
    return start


def conflict(first, second):
    _, _, reads, writes = first
    _, _, other_reads, other_writes = second
    return bool(set(writes) & {*other_reads, *other_writes} or set(reads) & set(other_writes))


def _operation(reads, writes):
    return "one", "compute", reads, writes


_TWO = [("a", "compute", (), ("A",)), ("b", "comm", ("A",), ("B",)), ("c", "compute", (), ("C",)),
        ("d", "comm", ("C",), ("B",)), ("e", "compute", ("B",), ())]
blank = zp.Blanks({
    earliest: [("no waits", _TWO, []), ("b waits for a", _TWO, [("b", "a")]),
               ("e waits for d, d for c", _TWO, [("b", "a"), ("d", "c"), ("e", "d")])],
    conflict: [(f"reads {a}, writes {b}; then reads {c}, writes {d}", _operation(a, b), _operation(c, d))
               for a, b, c, d in ((("A",), (), ("A",), ()), (("A",), (), (), ("A",)), ((), ("A",), ("A",), ()),
                                  ((), ("A",), (), ("A",)), (("A",), ("B",), ("C",), ("D",)),
                                  (("A", "B"), ("C",), ("D",), ("B",)))]})

# ---------------------------------------------------------------- figures


def draw_plan(plan, waits, start):
    """Operations of two streams as bars, at their earliest times, with an arrow for each wait."""
    fig, axes = draw.figure(height=2.9)
    where = {name: (start[name], {"compute": 1, "comm": 0}[stream]) for name, stream, *_ in plan}
    for name, stream, *_ in plan:
        x, y = where[name]
        draw.box(axes, x, y - 0.25, 0.92, 0.5, "#d8d8d8" if stream == "compute" else "#f3d9c4", name.replace(" ", "\n"))
    for who, other in waits:
        (x, y), (x0, y0) = where[who], where[other]
        shift = 0.26 if y < y0 else -0.26
        draw.arrow(axes, (x0 + 0.8, y0 - shift), (x + 0.12, y + shift), "#b34700", 2)
    axes.set(yticks=[0, 1], ylim=(-0.45, 1.4), xlim=(-0.05, max(start.values()) + 1), xlabel="time, if every operation "
             "took one unit")
    axes.set_yticklabels(["comm", "compute"])
    draw.show(fig, "Operations on two streams, compute and comm, as boxes over time, with an arrow for each wait "
                   "between them.")


def draw_orders(counts):
    """Bars of orders and outcomes; counts[name] = (orders, outcomes)."""
    fig, axes = draw.figure(height=0.42 * len(counts) + 1.3)
    for y, (orders, outcomes) in enumerate(counts.values()):
        axes.barh(y - 0.19, orders, height=0.36, color=draw.PALE, edgecolor="black", label="orders" if y == 0 else None)
        axes.barh(y + 0.19, outcomes, height=0.36, color=draw.WRONG if outcomes > 1 else "#2f9e77", edgecolor="black",
                  label="outcomes" if y == 0 else None)
    axes.set_yticks(range(len(counts)), list(counts))
    axes.set(ylim=(len(counts) - 0.5, -0.5), xlabel="number")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    draw.show(fig, "Bars of the orders in which a plan can run and of its outcomes: one outcome with all waits, two or "
                   "more if one of the five is omitted.")


def draw_passes(steps):
    fig, axes = draw.figure(height=3.3)
    for y, one in enumerate(steps):
        axes.barh(y, one.per_element(), color="#6b6b6b", height=0.7)
        axes.text(one.per_element() + 0.7, y, f"{one.per_element():.0f} bytes, {one.passes} passes", va="center")
    axes.set(xlim=(0, 96), xlabel="bytes per element that a step moves", ylim=(len(steps) - 0.5, -0.5))
    axes.set_yticks(range(len(steps)), CHANGES[:len(steps)])
    draw.show(fig, "Bars of bytes per element, from 62 in seven passes down to 34 in two.")
