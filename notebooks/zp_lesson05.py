"""Lesson 5: recorded gradients, norms of zeroproof, runs with a wrong mean, and figures."""

import functools
import math
import pathlib
import random
import tempfile
from fractions import Fraction

import zp
import zp_draw as draw
from zp_lesson02 import tree

import numpy as np

MAX_NORM = 0.52
STEPS = (1, 2, 4, 5, 6)  # step 3 overflows, on purpose
CONFIG = '[run]\ninitial_state = "zero"\noverflow_step = 0\n'
JOB = ("--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--stage", 1, "--max-norm", MAX_NORM)
RUN = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--impl", "host")
UNIT = 352  # chunks are integers in units of 2^-352


def norm_of_the_program(gradient):
    """zeroproof's grad_norm and clip_coef of a step with this gradient."""
    with tempfile.TemporaryDirectory() as folder:
        path, settings = pathlib.Path(folder, "gradient.safetensors"), pathlib.Path(folder, "settings.toml")
        zp.write_tensors(path, {"grad.1.0.x": gradient}, steps=1, micro_batches=1)
        settings.write_text(f"[optimizer]\nmax_norm = {MAX_NORM}\n")
        run = ("verify", "--gradients", path, "--config", settings, "--recipe", "adamw", "--dtype", "fp32")
        dump = zp.file_of(*run, "--stage", 2, "--impl", "host", "--world", "threads:2", option="--dump")
    return dump["grad_norm.1"].item(), np.float32(dump["clip_coef.1"].item())


def norm_in_fp32(gradient):
    """The root of a sum of squares in fp32."""
    with np.errstate(over="ignore"):
        total = np.float32(0)
        for x in gradient:
            total = total + x * x
    return np.sqrt(total)


def clip_coef(norm):
    """R12: in fp64, then rounded to fp32 once."""
    q = np.float64(MAX_NORM) / (np.float64(norm) + np.float64(1e-6))
    return np.float32(q if q < 1 else 1)


@functools.lru_cache(None)
def _recorded():
    return zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16")


@functools.lru_cache(None)
def _dump():
    words = ("verify", *RUN, "--world", "self", "--stage", 1, "--dump-steps", ",".join(map(str, STEPS)))
    return zp.file_of(*words, option="--dump")


def norm_in_dump(step):
    return np.float64(_dump()[f"grad_norm.{step}"].item())


def coef_in_dump(step):
    return np.float32(_dump()[f"clip_coef.{step}"].item())


@functools.lru_cache(None)
def gradients(step):
    """g1 of R6: the mean over the micro-batches of a step, tensor by tensor."""
    recorded, inv_scale = _recorded(), _dump()[f"step_scalars.inv_scale.{step}"]
    names = recorded.metadata["order"].splitlines()
    return {name: tree([recorded[f"grad.{step}.{j}.{name}"] for j in range(7)]) * inv_scale for name in names}


def distributed(chunks, add, trials=100):
    """The different sums of random distributions: each rank adds its chunks, then sums are added."""
    chance, results = random.Random(5), set()
    for trial in range(trials):
        order = list(range(len(chunks)))
        chance.shuffle(order)
        total = None
        for own_chunks in np.array_split(order, 1 + trial % 8):
            own = None
            for i in own_chunks:
                own = chunks[i] if own is None else add(own, chunks[i])
            total = own if total is None else add(total, own)
        results.add(total)
    return results


def _trained(steps, fault):
    return zp.trained(*JOB, "--steps", steps, config=CONFIG, fault=fault)


def differing_after(steps, fault="sum-instead-of-mean"):
    """Elements of each buffer that differ from a correct run after some steps with a fault."""
    def make():
        correct, wrong = _trained(steps, ""), _trained(steps, fault)
        return {buffer: sum(zp.different(correct[name], wrong[name]) for name in correct
                            if name.startswith(buffer + "."))
                for buffer in ("param", "master", "exp_avg", "exp_avg_sq")}
    return zp.planted_or_recorded("zeroproof-faults", ("differing_after", steps, fault), make)


def wrong_limb():
    """A case with a wrong limb, and its sum of squares relative to the correct one."""
    case = zp.verify(*RUN, "--world", "threads:4", "--stage", 2, "--steps", 1, fault="?5")["cases"][0]
    norms = [zp.train(*JOB, "--steps", 1, config=CONFIG, fault=fault)[0]["grad_norm"] for fault in ("?5", "")]
    return case, (norms[0] / norms[1])**2


# ---------------------------------------------------------------- blanks


def chunk_value(squares):
    lanes = squares[0]
    for row in squares[1:]:
        lanes = lanes + row
    width = 16
    while width:
        lanes = lanes[:width] + lanes[width:2 * width]
        width //= 2
    return lanes[0]


def limbs(total):
    return [(total >> (32 * i)) & 0xFFFFFFFF for i in range(21)]


def _squares(seed):
    return np.random.RandomState(seed).standard_normal((32, 32))**2


blank = zp.Blanks({
    chunk_value: [(f"random squares {seed}", _squares(seed)) for seed in range(4)],
    limbs: [("zero", 0), ("seven", 7), ("2^32", 2**32), ("2^352, the square of 1", 2**352), ("a large one", 3**400)]})


def chunks_of(tensor, one_chunk=chunk_value):
    """R12, form chunk1024: the fp64 value of each chunk of 1024 elements; elements past the end count 0."""
    wide = np.zeros(-(-tensor.size // 1024) * 1024)
    wide[:tensor.size] = tensor.ravel()  # exact
    return [one_chunk(rows * rows) for rows in wide.reshape(-1, 32, 32)]


def as_integer(chunk):
    """A chunk as an integer number of units 2^-352; exact."""
    units = Fraction(float(chunk)) * 2**UNIT
    assert units.denominator == 1
    return int(units)


def norm_of(total):
    """One rounding to fp64 (Python's division of integers), then a correctly rounded root."""
    return np.float64(math.sqrt(total / 2**UNIT))


# ---------------------------------------------------------------- figures


def draw_norm(ranks=4):
    """From each rank's shard to one norm: chunks, integers, one sum."""
    fig, axes = draw.figure(height=3.0)
    for rank in range(ranks):
        color, ink = draw.RANKS[rank], draw.INK[rank]
        axes.text(-0.15, -rank, f"rank {rank}", ha="right", va="center")
        draw.box(axes, 0, -rank - 0.35, 1.5, 0.7, color, "own shard", ink)
        draw.box(axes, 2.3, -rank - 0.35, 1.5, 0.7, color, "21 limbs", ink)
        draw.box(axes, 6.5, -rank - 0.35, 1.5, 0.7, "white", "same norm")
        draw.arrow(axes, (1.5, -rank), (2.3, -rank))
        draw.arrow(axes, (3.8, -rank), (4.5, -1.5))
        draw.arrow(axes, (5.7, -1.5), (6.5, -rank))
    draw.box(axes, 4.5, -1.95, 1.2, 0.9, draw.PALE, "integer\nsum")
    axes.set(xlim=(-1.1, 8.1), ylim=(-ranks + 0.5, 0.5))
    axes.set_title("squares of a shard become integers, which add without rounding", loc="left")
    draw.blank_axes(axes)
    draw.show(fig, "Four ranks: each turns the squares of its own shard into 21 limbs; all limbs are added as "
                   "integers, and every rank gets the same norm.")


def draw_clipping(rows):
    """Norms before and after clipping; rows of (step, before, after)."""
    fig, axes = draw.figure(height=2.9)
    for x, (_, before, after) in enumerate(rows):
        axes.bar(x - 0.2, before, width=0.36, color=draw.GREY, label="reported" if x == 0 else None)
        axes.bar(x + 0.2, after, width=0.36, color="#eab487", label="after clipping" if x == 0 else None)
    axes.axhline(MAX_NORM, color="black", linestyle="--", linewidth=1, label="max_norm")
    axes.set_xticks(range(len(rows)), [f"step {step}" for step, *_ in rows])
    axes.set(ylabel="norm")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    draw.show(fig, "Bars of the norm before and after clipping in each clipped step: before above max_norm, "
                   "after at it.")


def draw_differing(counts):
    """Bars of differing elements by buffer; counts[steps][buffer]."""
    fig, axes = draw.figure(height=2.9)
    for k, (steps, of) in enumerate(counts.items()):
        for x, value in enumerate(of.values()):
            axes.bar(x + (k - 0.5) * 0.38, value, width=0.36, color=(draw.WRONG, "#eab487")[k],
                     label=f"after step {steps}" if x == 0 else None)
            axes.text(x + (k - 0.5) * 0.38, value, f"{value:,}", ha="center", va="bottom", fontsize=10)
    axes.set_xticks(range(4), list(next(iter(counts.values()))))
    axes.set(ylabel="elements that differ", ylim=(0, 15500))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    draw.show(fig, "Bars of differing elements after 1 and 5 steps with gradients 7 times too large: no parameter "
                   "after step 1, but most moments.")


def draw_limbs(chunks):
    """The chunks of four ranks as bars of 53 bits on the scale of the limbs."""
    fig, axes = draw.figure(height=3.1)
    total = [as_integer(chunk) for chunk in chunks if chunk > 0]
    for rank in range(4):
        for units in total[rank::4]:
            top = units.bit_length() - UNIT
            axes.plot([top - 53, top], [rank, rank], color=draw.RANKS[rank], linewidth=9, linestyle="-", alpha=0.45)
    for i in range(22):
        axes.axvline(32 * i - UNIT, color="#c8c8c8", linewidth=0.8, linestyle="-")
    for bit, what in ((-298, "smallest\nsquare"), (133, "1e20\nsquared"), (256, "largest\nsquare")):
        axes.axvline(bit, color="#b34700", linewidth=1.2)
        axes.text(bit + 4, -0.75, what, ha="left", va="bottom", color="#b34700")
    axes.set(xlim=(-360, 345), ylim=(3.6, -2.0), xlabel="exponent of two (a grey line every 32 bits: 21 limbs)")
    axes.set_yticks(range(4), [f"rank {rank}" for rank in range(4)])
    draw.show(fig, "A scale of 21 limbs of 32 bits from 2^-352 to 2^320. The chunks of step 1, on four ranks, are "
                   "drawn as bars of 53 bits below 1; the smallest and the largest square of fp32 are inside "
                   "the scale.")
