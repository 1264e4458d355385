"""Lesson 4: recorded fp16 gradients, runs with a loss scaler, overflow flags, and figures."""

import functools
import pathlib
import tempfile

import zp
import zp_draw as draw

import numpy as np

CONFIG = '[run]\ninitial_state = "zero"\noverflow_step = 0\n[loss_scaler]\ninitial_loss_scale = 16777216.0\n'
JOB = ("--workload", "byte_gpt_tiny", "--dtype", "fp16", "--world", "threads:4", "--stage", 2)
RUN = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "fp16", "--impl", "host")
BUFFERS = ("master", "exp_avg", "exp_avg_sq", "param")


@functools.lru_cache(None)
def _recorded(steps):
    return zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "fp16", "--steps", steps)


def gradient_sizes():
    """Absolute values of the gradient elements of step 1 that are not 0."""
    leaves = np.concatenate([array.ravel() for name, array in _recorded(1).items() if name.startswith("grad.1.")])
    return np.abs(leaves[leaves != 0].astype(np.float64))


def train(steps=60):
    """A run whose first scale is 2^24."""
    return zp.train(*JOB, "--steps", steps, config=CONFIG)


@functools.lru_cache(None)
def _dump():
    words = ("verify", *RUN, "--world", "self", "--stage", 1, "--dump-steps", "1,2,3,4")
    return zp.file_of(*words, option="--dump")  # step 3 overflows, on purpose


def changed_by(step):
    """Elements of each buffer that a step changes."""
    dump, names = _dump(), _dump().metadata["order"].splitlines()
    return {buffer: sum(zp.different(dump[f"{buffer}.{step - 1}.{name}"], dump[f"{buffer}.{step}.{name}"])
                        for name in names) for buffer in BUFFERS}


def counters(step):
    """found_inf, skipped, applied_steps and the exponent of the scale."""
    return {name: _dump()[f"{name}.{step}"].item()
                        for name in ("found_inf", "skipped", "applied_steps", "log2_loss_scale")}


def owned_elements():
    """For each of four ranks: the number of its elements, and how many are infinite in step 3."""
    owners = zp.json_of("plan", "byte_gpt_tiny", "--owners", "--grid", "4x1x1", "--bucket", 4096)
    rows = []
    for rank in owners["ranks"]:
        pieces = [piece for part in rank["slices"] for piece in part["pieces"]]
        rows.append((rank["numel"], sum(int(_infinite(piece["tensor"])[piece["tensor_begin"]:piece["tensor_end"]].sum())
                                        for piece in pieces)))
    return rows


def _infinite(name):
    """Elements of a tensor that are infinite in a micro-batch gradient of step 3."""
    return np.any([~np.isfinite(_recorded(3)[f"grad.3.{j}.{name}"].ravel()) for j in range(7)], axis=0)


def with_fault(fault):
    return zp.verify(*RUN, "--world", "threads:4", "--stage", 2, fault=fault)["cases"][0]


def skipped_by_the_program(infinite):
    """Whether zeroproof on four ranks skips a step in which these elements of 4,096 are infinite."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "gradient.safetensors")
        gradient = np.ones(4096, np.float32)
        gradient[infinite] = np.inf
        zp.write_tensors(path, {"grad.1.0.x": gradient}, steps=1, micro_batches=1)
        words = ("verify", "--gradients", path, "--recipe", "adamw", "--dtype", "fp32", "--impl", "host", "--stage", 2)
        dump = zp.file_of(*words, "--world", "threads:4", option="--dump", may_end_with=(0, 4))
    return bool(dump["skipped.1"].item())


# ---------------------------------------------------------------- blanks


def automaton(scale, good, overflow, interval):
    if overflow:
        return max(scale - 1, 0), 0
    if good + 1 < interval:
        return scale, good + 1
    return min(scale + 1, 24), 0


def skips(flags):
    return max(flags) == 1


blank = zp.Blanks({
    automaton: [(f"scale 2^{scale}, {good} good steps, {'an' if overflow else 'no'} overflow, interval {interval}",
                 scale, good, overflow, interval)
                for scale in (0, 17, 24) for interval in (2, 3) for good in range(interval)
                for overflow in (False, True)],
    skips: [(f"flags {flags}", list(flags)) for flags in
            ((0, 0, 0, 0), (0, 1, 0, 0), (1, 0, 0, 1), (1, 1, 1, 1), (0,), (1,))]})

# ---------------------------------------------------------------- figures


def draw_sizes(sizes, scales=(0, 12, 20)):
    """Histograms of gradients with a scale, and the range of fp16."""
    fig, axes = draw.figure(len(scales), 1, height=4.4)
    bins = np.arange(-46, 22, 1.0)
    for one, k in zip(axes, scales):
        values = np.log2(sizes) + k
        lost = (values <= -25) | (values >= np.log2(65520))
        one.hist([values[~lost], values[lost]], bins, color=[
                 "#6b6b6b", draw.WRONG], stacked=True, label=["kept", "lost"])
        one.axvspan(-25, np.log2(65520), color="#e8f0f8", zorder=0)
        one.set(xlim=(-46, 21), ylabel=f"scale 2^{k}", yscale="log", ylim=(0.7, 40000), yticks=(1, 100, 10000))
        if k != scales[-1]:
            one.set_xticks([])
    axes[0].legend(loc="upper left")
    axes[-1].set(xlabel="exponent of the gradient element (blue: the range of fp16)")
    draw.show(fig, "Histograms of the magnitude of gradient elements with scales 2^0, 2^12 and 2^20 over the range of "
                   "fp16: a small scale loses small elements, a large one loses large elements.")


def draw_scale(run):
    fig, axes = draw.figure(height=2.8)
    steps = np.arange(1, len(run) + 1)
    scales = np.array([step["loss_scale_log2"] for step in run])
    bad = np.array([step["skipped"] for step in run])
    axes.step(steps, scales, where="mid", color="black", label="loss scale")
    axes.plot(
    steps[bad],
    scales[bad],
    "x",
    color=draw.WRONG,
    linestyle="",
    markersize=8,
    markeredgewidth=2,
     label="skipped")
    axes.set(xlabel="step", ylabel="exponent of the scale")
    axes.legend()
    draw.show(fig, "The exponent of the loss scale over 60 steps: it falls from 24 to 17 in skipped steps, then rises "
                   "to 18 and falls back, mostly every third step.")


def draw_flags(rows):
    """Four ranks with their own flags, and the flag that all of them use."""
    fig, axes = draw.figure(height=3.0)
    for rank, (numel, infinite) in enumerate(rows):
        axes.text(-0.15, -rank, f"rank {rank}", ha="right", va="center")
        draw.box(axes, 0, -rank - 0.35, 2.6, 0.7, draw.RANKS[rank], f"{numel:,} elements", draw.INK[rank])
        draw.box(axes, 3.1, -rank - 0.35, 1.5, 0.7, draw.WRONG if infinite else draw.PALE, f"flag {int(infinite > 0)}",
                 "white" if infinite else "black")
        draw.arrow(axes, (2.6, -rank), (3.1, -rank))
        draw.arrow(axes, (4.6, -rank), (5.3, -1.5))
        draw.arrow(axes, (6.3, -1.5), (7.0, -rank))
        draw.box(axes, 7.0, -rank - 0.35, 1.3, 0.7, draw.WRONG, "skip", "white")
    draw.box(axes, 5.3, -1.85, 1.0, 0.7, "white", "OR")
    axes.set(xlim=(-1.1, 8.4), ylim=(-len(rows) + 0.5, 0.5))
    draw.blank_axes(axes)
    draw.show(fig, "Four ranks with their elements and their flags: one flag is 1. An OR combines them, and all four "
                   "ranks skip the step.")
