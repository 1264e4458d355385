"""Lesson 3: recorded moves, variants of AdamW, rounding at random, and figures."""

import functools
import pathlib
import random
import tempfile

import zp
import zp_draw as draw

import numpy as np

LR, EPS = 0.01, 1e-8
CONFIG = '[run]\ninitial_state = "zero"\noverflow_step = 0\n[optimizer]\nweight_decay = 0.0\n'
JOB = ("--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--stage", 1)


def moves_in_two_steps():
    """|gradient| of step 1, and how far each parameter moves in steps 1 and 2, divided by lr.

    Only of gradients above 100 eps, so that eps in the denominator changes a step by at most 1 %.
    """
    recorded = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1)
    names = recorded.metadata["order"].splitlines()

    def whole(tensors, prefix):
        return np.concatenate([tensors[prefix + name].ravel() for name in names])
    runs = [zp.trained(*JOB, "--steps", steps, config=CONFIG) for steps in (1, 2)]
    masters = [whole(recorded, "param."), *[whole(run, f"master.{step}.") for step, run in enumerate(runs, 1)]]
    grad = np.abs(whole(runs[0], "exp_avg.1.")) * 10  # exp_avg was 0 and beta1 is 0.9
    some = grad > 100 * EPS
    return grad[some], [np.abs(after - before)[some] / LR for before, after in zip(masters, masters[1:])]


@functools.lru_cache(None)
def call_of_adamw(numel=10000):
    """One call with nonzero moments, of `zeroproof gen`: its tensors and its settings in fp32."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "call.safetensors")
        zp.run("gen", "adamw_update", "--numel", numel, "-o", path)
        before, data = zp.tensors(path), path.read_bytes()
    said = before.metadata
    s = {name.split(".")[-1]: np.float32(float(said[name])) for name in said if name.startswith("setting.scalar.")}
    s |= {name: np.float32(float(said[f"setting.{name}"])) for name in ("beta1", "beta2")}
    return [before[f"before.{name}"] for name in ("grad", "master", "exp_avg", "exp_avg_sq")], s, before, data


def judge(result):
    """The verdict of `zeroproof judge` on (master, exp_avg, exp_avg_sq) of the call."""
    _, _, before, data = call_of_adamw()
    with tempfile.TemporaryDirectory() as folder:
        call, made = pathlib.Path(folder, "call.safetensors"), pathlib.Path(folder, "made.safetensors")
        call.write_bytes(data)
        names = ("after.master", "after.exp_avg", "after.exp_avg_sq", "after.max_exp_avg_sq")
        zp.write_tensors(made, dict(zip(names, (*result, before["before.max_exp_avg_sq"]))))
        return zp.run("judge", call, made, may_end_with=(0, 1)).split()[0]


def _adamw(grad, master, exp_avg, exp_avg_sq, s, variant=""):
    exp_avg = s["beta1"] * exp_avg + s["one_minus_beta1"] * grad
    exp_avg_sq = s["beta2"] * exp_avg_sq + s["one_minus_beta2"] * (grad * grad)
    root = np.sqrt(exp_avg_sq)
    if variant == "eps first":
        step = s["step_size"] * (exp_avg / ((root + s["eps"]) / s["sqrt_bias_correction2"]))
    else:
        step = s["step_size"] * (exp_avg / (root / s["sqrt_bias_correction2"] + s["eps"]))
    w = s["lr_weight_decay"] * master
    return (master - w) - step if variant == "decay first" else master - (step + w), exp_avg, exp_avg_sq


def eps_first(*arguments):
    """AdamW with eps added before the division by sqrt_bias_correction2."""
    return _adamw(*arguments, variant="eps first")


def decay_first(*arguments):
    """AdamW with the decay subtracted before the step."""
    return _adamw(*arguments, variant="decay first")


def wrong_master():
    """The first wrong element of a call with a fault, with its inputs."""
    return zp.verify("op/adamw_update/host/x86-64/fill:training", fault="?3")["cases"][0]["divergence"]


def lowered(step, rounded, steps=1000):
    """A parameter that starts at 1 and is lowered by `step` again and again; rounded(x) is stored."""
    path = [np.float32(1)]
    for _ in range(steps):
        path.append(rounded(path[-1] - step))
    return path


def random_words(seed=3):
    """A function that returns the next 16 random bits."""
    chance = random.Random(seed)
    return lambda: chance.getrandbits(16)


def some_numbers(seed=3):
    chance = random.Random(seed)
    return np.array([chance.uniform(-2, 2) for _ in range(200)] + [1e-40, 3.0, -0.999], np.float32)


def exact_sum(values):
    """The sum of bf16 values as an integer number of units 2^-149."""
    return sum(int(x) for x in np.asarray(values).astype(np.float64) * 2.0**149)


# ---------------------------------------------------------------- blanks


def adamw(grad, master, exp_avg, exp_avg_sq, s):
    return _adamw(grad, master, exp_avg, exp_avg_sq, s)


def stochastic(bits, word):
    return (bits + word) >> 16


def _call(seed, decay):
    chance = np.random.RandomState(seed)
    arrays = [chance.standard_normal(50).astype(np.float32) for _ in range(3)]
    s = dict(beta1=0.9, one_minus_beta1=0.1, beta2=0.95, one_minus_beta2=0.05, eps=1e-3, step_size=0.3,
             sqrt_bias_correction2=0.7, lr_weight_decay=decay)
    return (*arrays, np.abs(arrays[0] * arrays[1]), {name: np.float32(value) for name, value in s.items()})


blank = zp.Blanks({
    adamw: [("with decay", *_call(1, 1e-2)), ("without decay", *_call(2, 0))],
    stochastic: [(f"bits {bits:#010x}, word {word:#06x}", bits, word) for bits, word in
                 ((0x3F800000, 0xFFFF), (0x3F800001, 0xFFFF), (0x3F808000, 0x7FFF), (0x3F808000, 0x8000),
                  (0xBF7FFFFF, 1))]})

# ---------------------------------------------------------------- figures


def draw_moves(moves):
    fig, axes = draw.figure(height=2.8)
    bins = np.linspace(0, 1.6, 81)
    for values, color, label in zip(moves, (draw.RANKS[0], "#b34700"), ("step 1", "step 2")):
        axes.hist(values, bins, color=color, alpha=0.75, label=label)
    axes.set(xlabel="move / lr", ylabel="parameters", yscale="log")
    axes.legend(loc="upper left")
    draw.show(fig, "A histogram of how far parameters move, divided by lr: in step 1 all of them at 1, in step 2 "
                   "spread from 0 to above 1.")


def draw_decay():
    """Applied over wanted decay, as a factor in fp32."""
    fig, axes = draw.figure(height=2.7)
    wanted = np.geomspace(1e-8, 1e-5, 2000)
    applied = (1 - (1 - wanted).astype(np.float32).astype(np.float64)) / wanted
    axes.plot(wanted, applied, color=draw.WRONG, label="as a factor")
    axes.axhline(1, color="black", linestyle="--", linewidth=1, label="wanted")
    axes.set(xscale="log", xlabel="wanted decay of a step", ylabel="applied / wanted")
    axes.legend()
    draw.show(fig, "Applied over wanted decay against the wanted decay: 0 below 2.98e-8, then jumps to 2, and a "
                   "sawtooth that settles at 1 above 1e-6.")


def draw_neighbours(step=0.001):
    """Numbers of bf16 below 1, and one step from 1."""
    fig, axes = draw.figure(height=1.6)
    for k in range(4):
        x = 1 - k * 2.0**-8
        axes.plot([x, x], [-0.25, 0.25], color="black", linewidth=2, linestyle="-")
        axes.text(x, 0.4, f"{x:.4f}", ha="center", va="bottom")
    axes.axhline(0, color=draw.GREY, linewidth=1, linestyle="-")
    axes.plot([1 - step], [0], "o", color=draw.WRONG)
    axes.text(1 - step, -0.4, "1 - 0.001 is rounded to 1", ha="center", va="top", color=draw.WRONG)
    axes.set(ylim=(-1.1, 1.0), xlim=(1 - 3.3 * 2.0**-8, 1 + 0.6 * 2.0**-8))
    draw.blank_axes(axes)
    draw.show(fig, "The numbers of bf16 from 0.9883 to 1 on a line: 1 - 0.001 is closer to 1 than "
                   "to its neighbour 0.9961.")


def draw_paths(paths):
    fig, axes = draw.figure(height=3.2)
    for name, path in paths.items():
        axes.plot(path, label=name)
    axes.set(xlabel="step", ylabel="parameter")
    axes.legend()
    draw.show(fig, "One parameter over a thousand steps: in fp32 it falls in a straight line from 1 to 0, in bf16 it "
                   "stays at 1, and with stochastic rounding it follows the line in jumps.")
