"""Lesson 1: its training runs and figures."""

import functools

import zp
import zp_draw as draw

import numpy as np

STEPS = 60
CONFIG = '[run]\ninitial_state = "zero"\noverflow_step = 0\n'
JOB = ("--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--stage", 0, "--steps", STEPS)
CASE = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--world", "threads:4", "--impl", "host")
BUFFERS = ("grad_sum", "exp_avg", "exp_avg_sq", "master", "param_shard")


@functools.lru_cache(None)
def train(fault="", seed=1):
    """60 steps on four ranks in stage 0."""
    return zp.train(*JOB, config=CONFIG + (f"seed = {seed}\n" if seed != 1 else ""), fault=fault)


def losses(run):
    """Mean loss of each step, in nats per byte."""
    return np.array([step["loss"] for step in run])


def losses_of_seeds():
    """One row of losses for each of eight other seeds."""
    return np.array([losses(train(seed=seed)) for seed in range(2, 10)])


def digests(run, buffer):
    """The digest of a buffer in each step."""
    return [step["sums"][buffer] for step in run]


def next_to_reference(fault, stage=0):
    """The case of `zeroproof verify` with this fault."""
    return zp.verify(*CASE, "--stage", stage, config=CONFIG if stage == 0 else "", fault=fault)["cases"][0]


def compared_buffers(case):
    """Rows of the comparison with the reference, in the order of a step."""
    return [row for row in case["training"]["phases"] if row["against"] == "reference"]


# ---------------------------------------------------------------- blanks


def distance(one, other, spread):
    return np.abs(one - other) / spread


def first_difference(one, other):
    return next((step for step, (a, b) in enumerate(zip(one, other), 1) if a != b), "never")


blank = zp.Blanks({
    distance: [("curves that cross", np.array([4.0, 3.0, 2.0]), np.array([4.5, 2.5, 2.0]), np.array([0.25, 0.5, 2.0])),
               ("one step", np.array([1.0]), np.array([2.0]), np.array([0.5]))],
    first_difference: [("digests that differ in step 3 and later", list("abcde"), list("abxyz")),
                       ("digests that differ in step 1 only", list("abc"), list("xbc")),
                       ("equal digests", list("abc"), list("abc"))]})

# ---------------------------------------------------------------- figures


def draw_curves(one, other):
    fig, axes = draw.figure(height=2.9)
    steps = np.arange(1, len(one) + 1)
    axes.plot(steps, other, color="black", label="the other")
    axes.plot(steps, one, color=draw.WRONG, linestyle="--", label="one run")
    axes.set(xlabel="step", ylabel="loss, nats per byte")
    axes.legend()
    draw.show(fig, "Two loss curves over 60 steps, which lie on top of each other: one of the runs has a bug.")


def draw_distance(apart):
    fig, axes = draw.figure(height=2.6)
    steps = np.arange(1, len(apart) + 1)
    axes.fill_between(steps, 0, 1, color=draw.PALE, label="as far as another seed")
    axes.plot(steps, apart, color=draw.WRONG, label="one run from the other")
    axes.set(xlabel="step", ylabel="spreads of 8 seeds", ylim=(0, 1.3))
    axes.legend(loc="upper left", ncols=2)
    draw.show(fig, "The distance of the two runs in each step stays below the spread of eight seeds, a grey band.")


def draw_digests(one, other, steps=3):
    """A box for each buffer and step: grey where digests are equal, red where they differ."""
    fig, axes = draw.figure(height=2.9)
    for y, name in enumerate(BUFFERS):
        for x in range(steps):
            a, b = digests(one, name)[x], digests(other, name)[x]
            draw.box(axes, x, -y - 0.4, 0.94, 0.8, draw.PALE if a == b else draw.WRONG,
                     "equal" if a == b else "differs",
                     "black" if a == b else "white", edgecolor="white")
    axes.set(xlim=(-0.02, steps), ylim=(-len(BUFFERS) + 0.5, 0.5))
    draw.blank_axes(axes)
    axes.set_yticks(-np.arange(len(BUFFERS)), BUFFERS)
    axes.set_xticks(np.arange(steps) + 0.47, [f"step {x + 1}" for x in range(steps)])
    axes.tick_params(length=0)
    draw.show(fig, "Digests of five buffers in steps 1 to 3: in step 1 the gradient sum is equal and the master "
                   "weights differ; from step 2 on every digest differs.")


def draw_comparison(case):
    rows = compared_buffers(case)
    fig, axes = draw.figure(height=0.28 * len(rows) + 1.0)
    share = [max(row["differing"] / row["compared"], 0.006) for row in rows]
    axes.barh(range(len(rows)), share, color=[draw.WRONG if row["differing"] else draw.RANKS[0] for row in rows])
    axes.set(xlabel="share of the elements that differ", xlim=(0, 1.02), ylim=(len(rows) - 0.4, -0.6))
    axes.set_yticks(range(len(rows)), [row["buffer"] for row in rows])
    draw.show(fig, "The share of elements that differ from the reference, for each buffer in the order of a step: "
                   "only buffers of the norm differ.")
